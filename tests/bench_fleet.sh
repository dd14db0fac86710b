#!/bin/sh
# A fleet behind PgBouncer in transaction mode: 32 processes x 8 workers of lease deliveries on 10 connections of the server, which
# deliveries that hold one each cannot do. Takes the path of holdfast-bench; the server is that of HF_TEST_POSTGRES_URL.
set -eu
bench=$1
server_connections=10
workers=256 # of all processes
handler_ms=200
work=$(mktemp -d /tmp/hf-XXXXXX)
pooler=

finish() {
    status=$?
    trap - EXIT INT TERM HUP
    if [ -n "$pooler" ]; then
        kill -INT "$pooler" 2>/dev/null || true
        wait "$pooler" 2>/dev/null || true
    fi
    [ "$status" = 0 ] || tail -n 20 "$work/pgbouncer.log" "$work"/*.out 2>/dev/null || true
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

die() {
    echo "bench_fleet.sh: $*" >&2
    exit 1
}

[ -n "${HF_TEST_POSTGRES_URL:-}" ] || die "HF_TEST_POSTGRES_URL is not set: sh tests/run.sh sets it"
pgbouncer=$(PATH=$PATH:/usr/sbin command -v pgbouncer) || die "pgbouncer is not installed: sh tests/packages.sh test"
server=$(echo "$HF_TEST_POSTGRES_URL" | sed 's/.*@127\.0\.0\.1:\([0-9]*\).*/\1/')

free_port() { # below the range that the kernel gives to clients, and not in use now
    while :; do
        port=$(($(od -An -N2 -tu2 /dev/urandom) % 20000 + 10000))
        cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ":$(printf %04X $port) " || break
    done
    echo "$port"
}

port=$(free_port)
cat >"$work/pgbouncer.ini" <<INI
[databases]
holdfast = host=127.0.0.1 port=$server user=holdfast password='hold:f@st'
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = $server_connections
max_client_conn = 2000
ignore_startup_parameters = extra_float_digits,options
logfile = $work/pgbouncer.log
pidfile = $work/pgbouncer.pid
INI
as_user=
if [ "$(id -u)" = 0 ]; then
    chown -R postgres "$work"
    as_user='setpriv --reuid=postgres --regid=postgres --init-groups --'
fi
# shellcheck disable=SC2086
$as_user "$pgbouncer" -q "$work/pgbouncer.ini" &
pooler=$!
tries=0
until grep -q ":$(printf %04X "$port") .* 0A " /proc/net/tcp; do
    tries=$((tries + 1))
    kill -0 "$pooler" 2>/dev/null && [ $tries -le 200 ] || die "pgbouncer does not start"
    sleep 0.05
done

number() { # NAME FILE: the first number of that name in the JSON
    sed -n "s/^.*\"$1\": *\\([0-9.]*\\).*\$/\\1/p" "$2" | head -n 1
}

fleet() { # STRATEGY JOBS
    "$bench" run --db "postgresql://holdfast@127.0.0.1:$port/holdfast?pooler=transaction" --strategy "$1" --jobs "$2" \
        --handler-ms "$handler_ms" --workers 8 --processes 32 --json >"$work/$1.out" || die "the fleet of $1 deliveries failed"
    echo "$1: $(number jobs_per_second "$work/$1.out") jobs/s with $workers workers, of the server's connections at most" \
        "$(number server_peak "$work/$1.out")"
    [ "$(number lost "$work/$1.out")" = 0 ] || die "$1: jobs were lost"
    [ "$(number duplicates "$work/$1.out")" = 0 ] || die "$1: jobs ran twice"
    [ "$(number server_peak "$work/$1.out")" -le $server_connections ] || die "$1: more than $server_connections connections"
}

holds() { # EXPRESSION MESSAGE
    awk "BEGIN { exit !($1) }" || die "$2"
}

fleet lease 5000
fleet row_lock 100 # few, so that nobody waits for longer than a statement may take
lease=$(number jobs_per_second "$work/lease.out")
row_lock=$(number jobs_per_second "$work/row_lock.out")
most=$((server_connections * 1000 / handler_ms)) # jobs a second where each in work holds a connection
holds "$row_lock <= $most" "row lock did $row_lock jobs/s, more than $server_connections connections can hold"
holds "$lease >= 4 * $most" "leases did only $lease jobs/s: they were held up by the $server_connections connections"
echo "Leases did $lease jobs/s on $server_connections connections, row locks $row_lock, where $most is the most they can."
