#!/bin/sh
# header.sh CC c|c++ HEADER [FLAG...]: compiles one public header alone. 77: skipped, there is no C++ compiler.
set -eu
compiler=$1
language=$2
header=$3
shift 3

case $language in
    c) standard=c11 ;;
    c++) standard=c++11 ;;
esac
if ! echo 'int i;' | "$compiler" -x "$language" -fsyntax-only - 2>/dev/null; then
    echo "skipped: $compiler has no compiler for $language"
    exit 77
fi
echo "#include \"$header\"" |
    "$compiler" -x "$language" -std="$standard" -Wall -Wextra -Wpedantic -Wundef -Werror -fsyntax-only "$@" -
