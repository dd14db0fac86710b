#!/bin/sh
# Real work on an embedded SQLite database, from a fresh machine: builds holdfast with SQLite alone, makes one job for each source
# file of this repository, and lets `holdfast work` compute their SHA-256 sums, once as leases and once under advisory locks. The
# sums are checked against sha256sum run directly. Ends with 1 on any difference.
set -eu
cd "$(dirname "$0")/.."
build=build/quickstart
workers=4

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

quietly() { # WHAT COMMAND...: its output only if it fails
    echo "$1 ..."
    shift
    if ! "$@" >"$work/log" 2>&1; then
        cat "$work/log" >&2
        echo "quickstart: failed: $*" >&2
        exit 1
    fi
}

configure() {
    cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DHOLDFAST_SQLITE=ON -DHOLDFAST_POSTGRES=OFF -DHOLDFAST_MYSQL=OFF \
        -DHOLDFAST_TESTS=OFF -DHOLDFAST_BENCH=OFF
}

sh tests/packages.sh build-sqlite
quietly "configuring $build" configure
quietly "building" cmake --build "$build" -j "$(nproc)" --target holdfast_command
holdfast=$PWD/$build/holdfast

# No git needed: what lies in the source folders is a source file.
find CMakeLists.txt .cmake pool strategies runtime bench tests -type f | LC_ALL=C sort >"$work/files"
jobs=$(wc -l <"$work/files")
while read -r path; do
    sha256sum "$path"
done <"$work/files" | LC_ALL=C sort >"$work/expected"

# A line for each run of a job, so that a job which ran twice shows as a difference.
cat >"$work/handler.sh" <<'END'
path=$(cat) && sum=$(sha256sum "$path") && echo "$sum" >>"$RESULTS/$HOLDFAST_ID"
END

number() { # NAME FILE: the first number of that name in the JSON
    sed -n "s/^.*\"$1\": *\\([0-9.]*\\).*\$/\\1/p" "$2" | head -n 1
}

run() { # STRATEGY DESCRIPTION [COLUMN]: the path also goes into that column
    strategy=$1
    column=${3:-}
    table=$work/$strategy.json
    RESULTS=$work/$strategy.results
    HOLDFAST_URL="sqlite:$work/$strategy.db?create=1"
    export RESULTS HOLDFAST_URL
    mkdir "$RESULTS"
    echo "$2" >"$table"
    "$holdfast" ddl --table "$table" --apply >"$work/log"
    echo "$strategy: enqueueing $jobs jobs ..."
    while read -r path; do
        "$holdfast" enqueue --table "$table" --payload "$path" ${column:+--set "$column=$path"} </dev/null >/dev/null
    done <"$work/files"
    echo "$strategy: working ..."
    began=$(date +%s.%N)
    "$holdfast" work --table "$table" --exec "sh '$work/handler.sh'" --workers $workers --until-empty --stats-json "$work/$strategy.stats"
    ended=$(date +%s.%N)
    find "$RESULTS" -type f -exec cat {} + | LC_ALL=C sort >"$work/found"
    if ! diff "$work/expected" "$work/found" >"$work/difference"; then
        cat "$work/difference" >&2
        echo "quickstart: under $strategy the sums differ from what sha256sum says" >&2
        exit 1
    fi
    awk -v strategy="$strategy" -v jobs="$jobs" -v seconds="$(awk "BEGIN { print $ended - $began }")" \
        -v held="$(number held_per_delivery "$work/$strategy.stats")" -v peak="$(number peak_open "$work/$strategy.stats")" \
        'BEGIN { printf "%-10s %6d %9.2f %33.2f %18d\n", strategy, jobs, seconds, held, peak }' >>"$work/table"
}

roles='"id": "id", "payload": "payload", "attempt": "attempt", "last_error": "last_error"'
run lease "{ \"table\": \"files\", \"columns\": { $roles, \"locked_until\": \"locked_until\" } }"
run advisory "{ \"table\": \"files\", \"columns\": { $roles }, \"advisory_lock\": \"file-{path}\" }" path

printf '\nAll sums agree with sha256sum. %s workers; connections:\n\n' "$workers"
printf '%-10s %6s %9s %33s %18s\n' strategy jobs seconds 'held per delivery in work' 'peak connections'
cat "$work/table"
printf '\nOn SQLite no strategy holds a connection while a job runs. On PostgreSQL, MySQL and MariaDB a lease holds none either, and a row\n'
printf 'lock or an advisory lock holds one for each job in work.\n'
printf '\nNext: `%s work --help`; `sh tests/run.sh` runs all strategies on PostgreSQL and MariaDB, too.\n' "$build/holdfast"
