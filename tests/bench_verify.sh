#!/bin/sh
# How well does holdfast-bench verify predict? Every strategy of each database, workers and handler times side by side, the pool as
# recommended and one that is too small. Prints a line for each point and how many held; fails when one did not. A timing: it wants a
# machine that does nothing else, and is no part of ctest. A machine whose speed changes between the plan and the run looks like a plan
# that was wrong, so a point that is off is verified twice more, and holds if the plan was right both times.
#
#   bench_verify.sh HOLDFAST_BENCH [WORKERS [HANDLERS [DATABASES]]]     "1 4 16 64", "0 5 50 exp:5" and "postgres mariadb sqlite" unless given
set -eu
[ $# -ge 1 ] || {
    sed -n 's/^#   *\(bench_verify.sh .*\)/\1/p' "$0" >&2
    exit 2
}
bench=$1
workers=${2:-1 4 16 64}
handlers=${3:-0 5 50 exp:5}
databases=${4:-postgres mariadb sqlite}
work=$(mktemp -d /tmp/hf-XXXXXX)
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

url_of() {
    case $1 in
    postgres) url=${HF_TEST_POSTGRES_URL:-} ;;
    mariadb) url=${HF_TEST_MYSQL_URL:-} ;;
    sqlite) url="sqlite:$work/verify.db?create=1" ;;
    *) url= ;;
    esac
    [ -n "$url" ] || {
        echo "bench_verify.sh: there is no URL for $1: eval \"\$(sh tests/servers.sh env DIR)\"" >&2
        exit 2
    }
}

# Prints the line of jobs/s, and the other figures where they are off.
verify_once() { # STRATEGY WORKERS HANDLER OPTION...
    strategy=$1 n=$2 handler=$3
    shift 3
    holds=0
    "$bench" verify --db "$url" --strategy "$strategy" --workers "$n" --handler-ms "$handler" "$@" >"$work/out" 2>"$work/err" || holds=$?
    figures=$(awk '/^jobs\/s / { printf "%9.1f predicted %9.1f measured %6s", $2, $3, $4 }
                   /too far off/ && !/^jobs/ { sub(/ *too far off.*/, ""); gsub(/  +/, " "); printf "; %s", $0 }' "$work/out")
    echo "$name  ${figures:-$(tail -n 1 "$work/err")}"
    return "$holds"
}

verify() { # DATABASE STRATEGY WORKERS HANDLER OPTION...
    name=$(printf '%-9s %-9s %3s workers  %6s ms %9s' "$1" "$2" "$3" "$4" "${5:-}")
    url_of "$1"
    shift
    points=$((points + 1))
    if verify_once "$@"; then
        held=$((held + 1))
    elif name="  again" && verify_once "$@" && verify_once "$@"; then
        held=$((held + 1))
        repeated=$((repeated + 1))
    else
        echo "  OFF"
    fi
}

# A third of the workers run at once. A lease holds nothing: it is only where the database sets the pace that it lacks connections.
verify_small() { # DATABASE STRATEGY WORKERS
    case $2:$3 in
    *:1) ;;
    lease:*) verify "$@" 0 --pool=1 ;;
    *) verify "$@" 50 --pool=$(($3 * 3 / 8 + 1)) ;;
    esac
}

points=0
held=0
repeated=0
for database in $databases; do
    strategies='row_lock lease advisory'
    [ "$database" != sqlite ] || strategies='lease advisory'
    for strategy in $strategies; do
        for n in $workers; do
            for handler in $handlers; do
                verify "$database" "$strategy" "$n" "$handler"
            done
            verify_small "$database" "$strategy" "$n"
        done
    done
done
echo "$held of $points points held, $repeated of them only when verified again"
[ "$held" -eq "$points" ]
