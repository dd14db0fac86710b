#!/bin/sh
# Installs, builds, starts private servers, runs every suite through ctest, stops the servers. Arguments go to ctest: -R pool, -L e2e.
#
#   HF_PRESET       release (default), debug, asan-ubsan, tsan
#   HF_TEST_FSYNC   off: servers that do not wait for the disk
#   HF_JOBS         compilers and suites at a time (default 2)
#   HF_TEST_KEEP    set: the servers' files and logs stay after a failure
#   CI              set: warnings are errors
set -eu
cd "$(dirname "$0")/.."
preset=${HF_PRESET:-release}
jobs=${HF_JOBS:-2}
werror=OFF
[ -z "${CI:-}" ] || werror=ON

sh tests/packages.sh test
cmake --preset "$preset" -DHOLDFAST_TESTS=ON -DHOLDFAST_WERROR=$werror
cmake --build --preset "$preset" -j "$jobs"

servers=
suites=
# shellcheck disable=SC2317
finish() {
    status=$?
    trap - EXIT INT TERM HUP
    if [ -n "$suites" ] && kill -TERM "-$suites" 2>/dev/null; then
        timeout 10 tail -q -f /dev/null --pid="$suites" || true
        kill -KILL "-$suites" 2>/dev/null || true
    fi
    if [ -n "$servers" ]; then
        sh tests/servers.sh stop "$servers" || status=1
        if [ "$status" != 0 ] && [ -n "${HF_TEST_KEEP:-}" ]; then
            echo "The servers' files are kept in $servers" >&2
        else
            rm -rf "$servers"
        fi
    fi
    exit "$status"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

servers=$(mktemp -d /tmp/hf-XXXXXX)
sh tests/servers.sh start "$servers"
variables=$(sh tests/servers.sh env "$servers")
eval "$variables"

# In the background, because a shell runs no trap while it waits for a foreground command; in a session of its own, so that an
# interrupt reaches this script alone, which then ends all of them; with SIGINT as it was, which the shell ignores for "&".
setsid env --default-signal=INT,QUIT ctest --preset "$preset" -j "$jobs" "$@" &
suites=$!
status=0
wait "$suites" || status=$?
suites=
exit "$status"
