#!/bin/sh
# symbols.sh LIBRARY HEADER...: the shared library exports what the headers declare with HF_API, and nothing else.
set -eu
library=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

nm -D --defined-only "$library" | awk '{print $3}' | sed 's/@.*//' | sort -u >"$work/exported"
# A declaration may be broken into lines: read each up to its opening bracket.
cat "$@" | tr '\n' ' ' | grep -oE 'HF_API [^;(]*\(' | grep -oE 'hf_[a-z0-9_]+ *\($' | tr -d ' (' | sort -u >"$work/declared"

status=0
for name in $(comm -23 "$work/exported" "$work/declared"); do
    echo "exported, but in no public header: $name"
    status=1
done
for name in $(comm -13 "$work/exported" "$work/declared"); do
    echo "declared with HF_API, but not exported: $name"
    status=1
done
for name in $(grep -vE '^hf_[a-z0-9]' "$work/exported" || true); do
    echo "not in our name space: $name"
    status=1
done
[ -s "$work/exported" ] || { echo "$library exports nothing"; status=1; }
exit $status
