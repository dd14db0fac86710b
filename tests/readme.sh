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
sh -eu "$work/install.sh" >"$work/output" 2>&1 || { cat "$work/output"; exit 1; }
libdir=$(dirname "$(dirname "$(find "$PREFIX" -name holdfast.pc)")")

# The pkg-config file names the prefix of the configuration; here it is installed elsewhere.
mkdir "$work/pc"
sed -e "s|^prefix=.*|prefix=$work/prefix|" -e "s|^libdir=.*|libdir=$libdir|" -e "s|^includedir=.*|includedir=$work/prefix/include|" \
    "$libdir/pkgconfig/holdfast.pc" >"$work/pc/holdfast.pc"
export PKG_CONFIG_PATH="$work/pc" LD_LIBRARY_PATH="$libdir" PATH="$work/prefix/bin:$PATH"

cd "$work/here"
sh -eux ../run.sh >"$work/output" 2>&1 || { cat "$work/output"; exit 1; }
for wanted in 'job 1, attempt 1: mail to ada@example.org' 'job 2, attempt 1: mail to grace@example.org' 'mail to alan@example.org' \
    'CREATE TABLE "mail_jobs"' 'strategy: lease' 'due  *3'; do
    grep -q "$wanted" "$work/output" || { cat "$work/output"; echo "the README's commands did not print: $wanted"; exit 1; }
done

echo "The README's program and commands did what it says."
