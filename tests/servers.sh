#!/bin/sh
# Private PostgreSQL and MariaDB servers for the tests, on 127.0.0.1 at free ports, with everything they write in DIR.
#
#   servers.sh start DIR [postgres|mariadb]           makes and starts what does not run yet
#   servers.sh stop DIR [postgres|mariadb]            in order; nothing if it does not run
#   servers.sh kill DIR postgres|mariadb              kill -9, with all its processes
#   servers.sh restart DIR postgres|mariadb [fast|kill]
#   servers.sh env DIR                                prints the variables to export
#
# DIR must be short (sockets lie in it) and on a path that the servers' users may enter. As root the servers run as the
# users postgres and mysql. HF_TEST_FSYNC=off at the first start trades durability for speed. Their time zone is not UTC on
# purpose: a session that does not set its own shows in the tests.
# Other servers than the installed ones: HF_TEST_POSTGRES_BIN names a directory with initdb, pg_ctl and postgres, HF_TEST_MYSQLD a
# mariadbd or a mysqld, which then runs in MariaDB's place. They must be set for each call, and so must HF_TEST_MYSQLD_OPTIONS, further
# options of that server.
set -eu

usage() {
    sed -n '4,8s/^# *//p' "$0" >&2
    exit 2
}

die() {
    echo "servers.sh: $*" >&2
    exit 1
}

[ $# -ge 2 ] || usage
action=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd -P)
which=${3:-all}
how=${4:-fast}
pg=$dir/pg
maria=$dir/maria
password='hold:f@st'
password_in_url='hold%3Af%40st'
[ ${#dir} -le 80 ] || die "$dir is too long for the path of a socket: choose a directory of at most 80 characters"

become() { # USER COMMAND...: as this user when we are root, else as ourselves, in place of this shell
    user=$1
    shift
    [ "$(id -u)" != 0 ] || exec setpriv --reuid="$user" --regid="$user" --init-groups -- env HOME="$dir" "$@"
    exec "$@"
}

as() {
    (become "$@")
}

own() { # USER PATH: a directory of this user's
    mkdir -p "$2"
    chmod 711 "$dir"
    if [ "$(id -u)" = 0 ]; then
        chown "$1:$1" "$2"
    fi
    as "$1" test -w "$2" || die "the user $1 may not enter $2: choose a directory below /tmp"
}

free_port() { # below the range that the kernel gives to clients, and not in use now
    while :; do
        port=$(($(od -An -N2 -tu2 /dev/urandom) % 20000 + 10000))
        cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ":$(printf %04X $port) " || break
    done
    echo "$port"
}

pid_in() { # FILE: the process that it names, if that one still runs and works in our directory
    pid=$(head -n 1 "$1" 2>/dev/null) || return 1
    [ -n "$pid" ] && [ -d "/proc/$pid" ] && tr '\0' ' ' <"/proc/$pid/cmdline" | grep -qF "$dir/" && echo "$pid"
}

family() { # PID: the process and those it started
    echo "$1"
    sed -n 's/^\([0-9]*\) (.*) [A-Z] \([0-9]*\) .*/\1 \2/p' /proc/[0-9]*/stat 2>/dev/null | while read -r child parent; do
        [ "$parent" != "$1" ] || echo "$child"
    done
}

gone() { # PID...: waits until none of them runs
    for pid; do
        tries=0
        while kill -0 "$pid" 2>/dev/null && ! grep -q '^State:.*Z' "/proc/$pid/status" 2>/dev/null; do
            tries=$((tries + 1))
            [ $tries -le 600 ] || die "process $pid does not end"
            sleep 0.05
        done
    done
}

kill_now() { # PID: it and its children, at once
    pids=$(family "$1")
    # shellcheck disable=SC2086
    kill -9 $pids 2>/dev/null || true
    # shellcheck disable=SC2086
    gone $pids
}

pg_bin() {
    if [ -n "${HF_TEST_POSTGRES_BIN:-}" ]; then
        echo "$HF_TEST_POSTGRES_BIN"
        return
    fi
    # shellcheck disable=SC2012
    newest=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -t / -k 5 -n | tail -n 1)
    [ -n "$newest" ] || die "no PostgreSQL server is installed: sh tests/packages.sh test"
    echo "$newest"
}

pg_make() {
    own postgres "$pg"
    fsync=on
    [ "${HF_TEST_FSYNC:-on}" != off ] || fsync=off
    as postgres "$(pg_bin)/initdb" -D "$pg/data" -U postgres -A trust -E UTF8 --locale=C --no-sync >"$pg/initdb.log" 2>&1 ||
        die "initdb failed: $(tail -n 5 "$pg/initdb.log")"
    as postgres tee -a "$pg/data/postgresql.conf" >/dev/null <<CONF
listen_addresses = '127.0.0.1'
unix_socket_directories = '$pg'
password_encryption = 'scram-sha-256'
max_connections = 200
fsync = $fsync
timezone = 'America/St_Johns'
log_line_prefix = '%m [%p] %a '
CONF
    as postgres tee "$pg/data/pg_hba.conf" >/dev/null <<CONF
host  all holdfast 127.0.0.1/32 scram-sha-256
local all all                   trust
host  all all      127.0.0.1/32 trust
CONF
    free_port >"$pg/port"
}

pg_up() {
    port=$(cat "$pg/port")
    as postgres "$(pg_bin)/pg_ctl" -D "$pg/data" -l "$pg/server.log" -o "-p $port" -t 60 -w start >/dev/null 2>&1
}

pg_fill() {
    psql=$(pg_bin)/psql
    [ -x "$psql" ] || psql=psql
    as postgres "$psql" -X -q -h "$pg" -p "$(cat "$pg/port")" -U postgres -v ON_ERROR_STOP=1 >/dev/null <<SQL
CREATE ROLE holdfast LOGIN PASSWORD '$password';
GRANT pg_monitor, pg_signal_backend TO holdfast;
CREATE DATABASE holdfast OWNER holdfast;
SQL
    touch "$pg/filled"
}

pg_start() {
    ! pid_in "$pg/data/postmaster.pid" >/dev/null || return 0
    [ -f "$pg/port" ] || pg_make
    tries=0
    until pg_up; do
        tries=$((tries + 1))
        [ $tries -lt 5 ] || die "PostgreSQL does not start: $(tail -n 5 "$pg/server.log")"
        [ -f "$pg/filled" ] || free_port >"$pg/port"
        sleep 0.2
    done
    [ -f "$pg/filled" ] || pg_fill
}

pg_stop() {
    pid_in "$pg/data/postmaster.pid" >/dev/null || return 0
    as postgres "$(pg_bin)/pg_ctl" -D "$pg/data" -m fast -t 60 -w stop >/dev/null
}

pg_kill() {
    pid=$(pid_in "$pg/data/postmaster.pid") || return 0
    kill_now "$pid"
    # It and its children are dead; where nobody reaps them their number still looks alive to the next postmaster.
    rm -f "$pg/data/postmaster.pid" "$pg"/.s.PGSQL.*
}

mysqld() { # the path of the server's program
    if [ -n "${HF_TEST_MYSQLD:-}" ]; then
        echo "$HF_TEST_MYSQLD"
        return
    fi
    PATH=$PATH:/usr/sbin command -v mariadbd || die "no MariaDB server is installed: sh tests/packages.sh test"
}

is_mariadb() {
    "$(mysqld)" --no-defaults --version | grep -q MariaDB
}

maria_install() {
    if is_mariadb; then
        as mysql mariadb-install-db --no-defaults --auth-root-authentication-method=normal --skip-test-db --datadir="$maria/data"
    else
        as mysql "$(mysqld)" --no-defaults --initialize-insecure --datadir="$maria/data"
    fi
}

maria_make() {
    mysqld >/dev/null
    own mysql "$maria"
    maria_install >"$maria/install.log" 2>&1 || die "the server's tables cannot be made: $(tail -n 5 "$maria/install.log")"
    if [ "${HF_TEST_FSYNC:-on}" = off ]; then
        as mysql tee "$maria/options" >/dev/null <<OPTIONS
--innodb-flush-log-at-trx-commit=2
--innodb-flush-method=nosync
--skip-innodb-doublewrite
--sync-binlog=0
OPTIONS
    else
        as mysql touch "$maria/options"
    fi
    free_port >"$maria/port"
}

maria_admin() {
    mariadb-admin --no-defaults --user=root --socket="$maria/sock" "$@" >/dev/null 2>&1
}

own_options() { # what only one of the two servers knows
    if is_mariadb; then
        echo --plugin-load-add=metadata_lock_info --plugin-maturity=unknown
    else
        echo --mysqlx=OFF --secure-file-priv=NULL --log-bin-trust-function-creators=1
    fi
}

maria_up() { # setsid: an interrupt from the terminal is for the tests, which then stop the server
    # shellcheck disable=SC2046
    become mysql setsid "$(mysqld)" --no-defaults --datadir="$maria/data" --socket="$maria/sock" \
        --pid-file="$maria/pid" --bind-address=127.0.0.1 --port="$(cat "$maria/port")" --skip-name-resolve \
        --max-connections=300 --character-set-server=utf8mb4 --default-time-zone=-03:30 --max-allowed-packet=64M \
        --performance-schema=ON --performance-schema-instrument='wait/lock/metadata/sql/mdl=ON' \
        $(own_options) $(cat "$maria/options") ${HF_TEST_MYSQLD_OPTIONS:-} \
        </dev/null >>"$maria/server.log" 2>&1 &
    started=$!
    tries=0
    until maria_admin ping; do
        tries=$((tries + 1))
        kill -0 $started 2>/dev/null && [ $tries -le 600 ] || return 1
        sleep 0.1
    done
}

maria_fill() {
    connection_admin='CONNECTION ADMIN'
    is_mariadb || connection_admin=CONNECTION_ADMIN
    mariadb --no-defaults --user=root --socket="$maria/sock" <<SQL
CREATE DATABASE holdfast;
CREATE USER holdfast@'127.0.0.1' IDENTIFIED BY '$password';
GRANT ALL ON holdfast.* TO holdfast@'127.0.0.1';
GRANT PROCESS, $connection_admin ON *.* TO holdfast@'127.0.0.1';
GRANT SELECT ON performance_schema.* TO holdfast@'127.0.0.1';
CREATE USER IF NOT EXISTS root@'127.0.0.1';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
SQL
    touch "$maria/filled"
}

maria_start() {
    ! pid_in "$maria/pid" >/dev/null || return 0
    [ -f "$maria/port" ] || maria_make
    tries=0
    until maria_up; do
        tries=$((tries + 1))
        [ $tries -lt 5 ] || die "$(mysqld) does not start: $(tail -n 5 "$maria/server.log")"
        [ -f "$maria/filled" ] || free_port >"$maria/port"
    done
    [ -f "$maria/filled" ] || maria_fill
}

maria_stop() {
    pid=$(pid_in "$maria/pid") || return 0
    kill -TERM "$pid"
    gone "$pid"
}

maria_kill() {
    pid=$(pid_in "$maria/pid") || return 0
    kill_now "$pid"
}

each() { # start|stop|kill
    case $which in
        all) pg_"$1"; maria_"$1" ;;
        postgres) pg_"$1" ;;
        mariadb) maria_"$1" ;;
        *) usage ;;
    esac
}

print_env() {
    mkdir -p "$dir/sqlite"
    cat <<VARIABLES
export HF_TEST_SERVERS='$dir'
export HF_TEST_SQLITE_DIR='$dir/sqlite'
export HF_TEST_POSTGRES_URL='postgresql://holdfast:$password_in_url@127.0.0.1:$(cat "$pg/port")/holdfast'
export HF_TEST_POSTGRES_ADMIN_URL='postgresql://postgres@127.0.0.1:$(cat "$pg/port")/holdfast'
export HF_TEST_MYSQL_URL='mysql://holdfast:$password_in_url@127.0.0.1:$(cat "$maria/port")/holdfast'
export HF_TEST_MYSQL_ADMIN_URL='mysql://root@127.0.0.1:$(cat "$maria/port")/holdfast'
VARIABLES
}

case $action in
    start | stop) each "$action" ;;
    kill) [ "$which" != all ] || usage; each kill ;;
    restart)
        [ "$which" != all ] || usage
        case $how in fast) each stop ;; kill) each kill ;; *) usage ;; esac
        each start
        ;;
    env) print_env ;;
    *) usage ;;
esac
