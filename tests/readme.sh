#!/bin/sh
# What the README says is run: holdfast is built and installed as it says, its files are written, its program is built against that,
# its commands are run one block after the other in an empty directory.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/here"

# Fenced blocks: "json NAME" and "c NAME" are files; "sh install" is run here, and "sh run" there.
awk -v dir="$work/here" '
    /^```/ && !inside { inside = 1; kind = substr($1, 4); name = $2
                        out = kind == "sh" ? dir "/../" name ".sh" : dir "/" name; next }
    /^```/ { inside = 0; next }
    inside { print > out }' README.md

export PREFIX="$work/prefix"
# The block's exports serve the commands, too.
printf 'cd "$HERE"\nset -x\n' | cat "$work/install.sh" - "$work/run.sh" >"$work/all.sh"

export HERE="$work/here"
sh -eu "$work/all.sh" >"$work/output" 2>&1 || { cat "$work/output"; exit 1; }
for wanted in 'job 1, attempt 1: mail to ada@example.org' 'job 2, attempt 1: mail to grace@example.org' 'mail to alan@example.org' \
    'CREATE TABLE "mail_jobs"' 'strategy: lease' 'due  *3' '"delayed": 1' 'ada: third, attempt 1' 'ada: broken, attempt 2' 'dead  *1' \
    'in the till: 1250' 'a batch of [0-9]'; do
    grep -q "$wanted" "$work/output" || { cat "$work/output"; echo "the README's commands did not print: $wanted"; exit 1; }
done

echo "The README's program and commands did what it says."
