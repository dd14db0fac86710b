#!/bin/sh
# Is the hand-written loop of holdfast-bench --raw as fast as pgbench with the same statements on PostgreSQL? Row lock or lease, handlers
# that do nothing, as many clients, threads and rows, in turns. (Not advisory lock: there the threads tell each other which keys are
# taken, which pgbench's clients cannot.) Prints the rate of each round, medians and spread; fails when the loop is more than 10 % slower.
# A timing: it wants a machine that does nothing else, and is no part of ctest. And a server that is durable, as real ones are: one that
# waits for no disk shares the processors with its clients, and on few of them that decides (0.7 to 1.1 of pgbench on two).
#
#   bench_raw.sh HOLDFAST_BENCH [STRATEGY [ROUNDS [CLIENTS [JOBS]]]]     row_lock, 5 rounds, 4 clients, 20000 jobs
#
# The server is that of HF_TEST_POSTGRES_URL.
set -eu
[ $# -ge 1 ] || {
    sed -n 's/^#   *\(bench_raw.sh .*\)/\1/p' "$0" >&2
    exit 2
}
bench=$1
strategy=${2:-row_lock}
rounds=${3:-5}
clients=${4:-4}
jobs=${5:-20000}
work=$(mktemp -d /tmp/hf-XXXXXX)
table=bench_raw_pgbench_$$

die() {
    echo "bench_raw.sh: $*" >&2
    exit 1
}

[ -n "${HF_TEST_POSTGRES_URL:-}" ] || die "HF_TEST_POSTGRES_URL is not set: eval \"\$(sh tests/servers.sh env DIR)\""
command -v pgbench >/dev/null || die "pgbench is not installed"

sql() {
    PGOPTIONS='-c client_min_messages=warning' psql -X -q -v ON_ERROR_STOP=1 "$HF_TEST_POSTGRES_URL" -c "$1" >/dev/null
}

finish() {
    status=$?
    trap - EXIT INT TERM HUP
    sql "DROP TABLE IF EXISTS $table" || status=1
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# The statements of bench/raw.c, which are holdfast's own; pgbench wants a name for each column. The second SELECT is for a first page
# that the other clients have worked off meanwhile.
attempt='GREATEST(COALESCE(attempt, 1), 1)'
columns="id, $attempt AS stored, NULL AS a, NULL AS b, NULL AS c, NULL AS d, payload, NULL AS e, NULL AS f, NULL AS g"
row_lock_script() {
    cat <<SCRIPT
\\set id 0
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT $columns, CASE WHEN TRUE THEN 1 ELSE 0 END AS still FROM (SELECT id AS chosen FROM ONLY $table ORDER BY id LIMIT 128) AS page,
LATERAL (SELECT * FROM ONLY $table WHERE id = chosen FOR UPDATE SKIP LOCKED) AS locked LIMIT 1 \\aset
\\if :id = 0
SELECT $columns FROM ONLY $table ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED \\gset
\\endif
DELETE FROM ONLY $table WHERE id = :id AND $attempt = :stored;
COMMIT;
SCRIPT
}

# The times are values, as the loop's are; that they stay the same costs nothing.
lease_script() {
    cat <<SCRIPT
UPDATE ONLY $table SET locked_until = :expiry, attempt = LEAST($attempt, 2147483646) + 1
WHERE ctid = ANY (ARRAY(SELECT ctid FROM ONLY $table WHERE (locked_until IS NULL OR locked_until <= :now)
ORDER BY id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)) RETURNING $columns \\gset
DELETE FROM ONLY $table WHERE id = :id AND locked_until = :expiry AND $attempt = :stored;
SCRIPT
}

case $strategy in
row_lock) row_lock_script >"$work/script" ;;
lease) lease_script >"$work/script" ;;
*) die "the strategy is row_lock or lease, not \"$strategy\"" ;;
esac
now=$(date -u +'%Y-%m-%d %H:%M:%S+00')
expiry=$(date -u -d '+1 day' +'%Y-%m-%d %H:%M:%S+00')

theirs() { # each transaction finds a row: there are as many
    sql "DROP TABLE IF EXISTS $table;
         CREATE TABLE $table (id bigserial PRIMARY KEY, payload bytea, attempt integer NOT NULL DEFAULT 1, locked_until timestamptz);
         INSERT INTO $table (payload) SELECT convert_to(n || ' 0 0 0', 'UTF8') FROM generate_series(0, $jobs - 1) AS n"
    pgbench -n -M prepared -D now="$now" -D expiry="$expiry" -c "$clients" -j "$clients" -t $((jobs / clients)) -f "$work/script" "$HF_TEST_POSTGRES_URL" \
        >"$work/pgbench" 2>&1 || die "pgbench failed: $(cat "$work/pgbench")"
    sed -n 's/^tps = \([0-9.]*\) (without.*/\1/p' "$work/pgbench"
}

ours() { # holdfast itself is measured along with the loop
    "$bench" run --db "$HF_TEST_POSTGRES_URL" --strategy "$strategy" --workers "$clients" --jobs "$jobs" --raw --rounds 1 --json \
        >"$work/json" || die "$bench failed"
    tr -d '\n' <"$work/json" | sed 's/.*"rounds_ours": \[ *\([0-9.e+]*\) *\].*"rounds_raw": \[ *\([0-9.e+]*\) *\].*/\2 \1/'
}

# NAME: median, and how far the rounds lie from it, of the numbers on standard input
summary() {
    sort -g | awk -v name="$1" '{ v[NR] = $1 }
        END { m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
              printf "%-18s median %10.1f   %.1f to %.1f\n", name, m, v[1], v[NR] }'
}

jobs=$((jobs / clients * clients))
echo "$strategy, $clients clients, $jobs rows: jobs/s"
echo "round     pgbench    the loop    holdfast  loop/pgbench"
i=0
while [ $i -lt "$rounds" ]; do
    i=$((i + 1))
    a=$(theirs)
    b=$(ours)
    echo "$a $b" >>"$work/rounds"
    tail -n 1 "$work/rounds" | awk -v i=$i '{ printf "%5d  %10.1f  %10.1f  %10.1f  %12.3f\n", i, $1, $2, $3, $2 / $1 }'
done
awk '{ print $1 }' "$work/rounds" | summary pgbench
awk '{ print $2 }' "$work/rounds" | summary 'the loop'
awk '{ print $3 }' "$work/rounds" | summary holdfast
awk '{ print 1000 * $2 / $1 }' "$work/rounds" | summary '1000 loop/pgbench' | tee "$work/ratio"
awk '{ exit !($4 >= 900) }' "$work/ratio" || die "the loop is more than 10 % slower than pgbench"
