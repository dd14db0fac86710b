#!/bin/sh
# The suites that use servers, against other servers than the everyday ones; tests/run.sh has no part in it. Arguments are suites
# (strategies, e2e_lease); without any, all that use servers.
#
#   HF_MATRIX_POSTGRES_URLS   servers that run already, each as URL,ADMIN_URL: an ordinary role that owns its database and is in
#   HF_MATRIX_MYSQL_URLS      pg_monitor and pg_signal_backend, and a superuser; a user with the rights that tests/servers.sh gives
#                             and root. At 127.0.0.1, the database's name is holdfast, the user's password is not empty
#   HF_MATRIX_POSTGRES_BINS   directories with initdb, pg_ctl and postgres
#   HF_MATRIX_MYSQLDS         programs: mysqld or mariadbd
#   HF_BUILD_DIR              a build with tests (default: build/release, made if it is not there)
#
# Each is a list, separated by blanks. Where neither list of a database is set, the installed versions are taken. One PostgreSQL and
# one MySQL or MariaDB are tested together; the shorter list ends with the everyday server.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${HF_BUILD_DIR:-build/release}
here=$(mktemp -d /tmp/hf-XXXXXX) || exit 1
chmod 755 "$here"
results=$here/results
: >"$results"
round=0

finish() {
    status=$?
    trap - EXIT INT TERM HUP
    for servers in "$here"/[0-9]*; do
        [ ! -d "$servers" ] || use_of "$servers" sh tests/servers.sh stop "$servers" || status=1
    done
    rm -rf "$here"
    exit "$status"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# ---- which servers ----

installed_postgres() {
    for bin in /usr/lib/postgresql/*/bin; do
        [ ! -x "$bin/initdb" ] || echo "$bin"
    done
}

installed_mysqlds() {
    found=
    for name in mariadbd mysqld; do
        path=$(PATH=$PATH:/usr/sbin command -v "$name") || continue
        path=$(readlink -f "$path") # one may be a link to the other
        [ "$path" = "$found" ] || echo "$path"
        found=$path
    done
}

postgres=${HF_MATRIX_POSTGRES_URLS:-}\ ${HF_MATRIX_POSTGRES_BINS:-}
[ "$postgres" != " " ] || postgres=$(installed_postgres)
mysql=${HF_MATRIX_MYSQL_URLS:-}\ ${HF_MATRIX_MYSQLDS:-}
[ "$mysql" != " " ] || mysql=$(installed_mysqlds)

nth() { # N WORD...
    n=$1
    shift
    [ "$n" -gt $# ] || { shift $((n - 1)) && echo "$1"; }
}

is_url() {
    case $1 in *://*) true ;; *) false ;; esac
}

name_of() { # a server as it is told to people: no password
    if is_url "$1"; then
        version=$(psql -X -A -t -c 'SELECT version()' "${1#*,}" 2>/dev/null | sed 's|^\(PostgreSQL\) |(\1) |')
        echo "${1%%,*} $version" | sed 's|//[^@]*@|//|'
    elif [ -d "$1" ]; then
        "$1/postgres" --version
    else
        "$1" --no-defaults --version | sed 's|.*Ver \([^ ]*\).*|\1|; /MariaDB/!s|^|MySQL |'
    fi
}

# ---- one round ----

use_of() { # SERVERS COMMAND...: with the programs that these private servers are of
    programs=$1/programs
    shift
    (
        # shellcheck disable=SC1090
        [ ! -f "$programs" ] || . "$programs"
        "$@"
    )
}

note() { # RESULT SUITE REASON
    printf '%-8s %-22s %s\n' "$1" "$2" "$3" | tee -a "$results"
}

all_suites() {
    grep -lE 'hf_test_((postgres|mysql)_(admin_)?url|url|session|sql)|hf_test_jobs|hf_test_kinds|hf_test_server|fleet' tests/test_*.c |
        sed 's|.*/test_||; s|\.c$||'
}

why_not() { # SUITE: why this pair of servers cannot run it, or nothing
    if { is_url "$pg" || is_url "$my"; } && grep -q 'hf_test_server(' "tests/test_$1.c"; then
        echo "it restarts its servers, and one is named by a URL"
    elif [ "$old_postgres" = yes ] && ! echo "$1" | grep -qxE 'driver_.*|strategies|inspect|enqueue|runtime_lease|e2e_lease'; then
        echo "PostgreSQL is older than 11, which its tables with advisory locks or fifo need"
    fi
}

start_servers() { # what the environment of the suites is, in $servers/env
    mkdir "$servers"
    : >"$servers/programs"
    [ -z "$pg" ] || is_url "$pg" || echo "export HF_TEST_POSTGRES_BIN='$pg'" >>"$servers/programs"
    [ -z "$my" ] || is_url "$my" || echo "export HF_TEST_MYSQLD='$my'" >>"$servers/programs"
    is_url "$pg" || use_of "$servers" sh tests/servers.sh start "$servers" postgres || return 1
    is_url "$my" || use_of "$servers" sh tests/servers.sh start "$servers" mariadb || return 1
    {
        sh tests/servers.sh env "$servers" 2>/dev/null
        cat "$servers/programs"
        ! is_url "$pg" || printf "export HF_TEST_POSTGRES_URL='%s' HF_TEST_POSTGRES_ADMIN_URL='%s'\n" "${pg%%,*}" "${pg#*,}"
        ! is_url "$my" || printf "export HF_TEST_MYSQL_URL='%s' HF_TEST_MYSQL_ADMIN_URL='%s'\n" "${my%%,*}" "${my#*,}"
    } >"$servers/env"
}

run_suite() {
    reason=$(why_not "$1")
    # shellcheck disable=SC1091
    if [ -n "$reason" ]; then
        note skipped "$1" "$reason"
    elif (. "$servers/env" && ctest --test-dir "$build" -R "^$1\$" --output-on-failure --no-tests=error) >"$servers/out" 2>&1; then
        note passed "$1" ""
    else
        cat "$servers/out"
        note FAILED "$1" "$(sed -n 's/^ *1\. //p' "$servers/out" | head -n 1)"
    fi
}

run_round() {
    round=$((round + 1))
    servers=$here/$round
    title="$(name_of "${pg:-$(installed_postgres | tail -n 1)}") and $(name_of "${my:-$(installed_mysqlds | head -n 1)}")"
    echo "=== $title" | tee -a "$results"
    if ! start_servers 2>"$servers.why"; then
        note skipped "all suites" "the servers do not start: $(tail -n 1 "$servers.why")"
        return
    fi
    old_postgres=no
    case $title in *"PostgreSQL) "[89].* | *"PostgreSQL) 10"*) old_postgres=yes ;; esac
    for suite in $suites; do
        run_suite "$suite"
    done
    use_of "$servers" sh tests/servers.sh stop "$servers"
}

suites=${*:-$(all_suites)}
[ -f "$build/CTestTestfile.cmake" ] || { cmake --preset release -DHOLDFAST_TESTS=ON && cmake --build --preset release -j "${HF_JOBS:-2}"; } ||
    exit 1
while :; do
    # shellcheck disable=SC2086
    pg=$(nth $((round + 1)) $postgres)
    # shellcheck disable=SC2086
    my=$(nth $((round + 1)) $mysql)
    [ -n "$pg$my" ] || break
    run_round
done

printf '\n=== Summary\n'
cat "$results"
for result in passed FAILED skipped; do
    printf '%s %s   ' "$(grep -c "^$result " "$results")" "$result"
done
echo
! grep -q '^FAILED ' "$results" && grep -q '^passed ' "$results"
