#!/bin/sh
# without_databases.sh CMAKE SOURCE: the library builds with each database alone, and then links none of the other client libraries.
set -eu
cmake=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

linked() { # LIBRARY: the client libraries that it asks for, in order
    readelf -d "$1" | grep -oE 'lib(pq|mariadb|sqlite3)\.so' | sort | tr '\n' ' '
}

build() { # NAME: with this database alone
    "$cmake" -S "$source" -B "$work/$1" -DCMAKE_BUILD_TYPE=None -DHOLDFAST_WERROR=ON -DHOLDFAST_TESTS=OFF -DHOLDFAST_BENCH=OFF \
        -DHOLDFAST_POSTGRES=OFF -DHOLDFAST_MYSQL=OFF -DHOLDFAST_SQLITE=OFF "-DHOLDFAST_$1=ON" &&
        "$cmake" --build "$work/$1" -j 2
}

status=0
for alone in POSTGRES=libpq.so MYSQL=libmariadb.so SQLITE=libsqlite3.so; do
    name=${alone%%=*}
    if ! build "$name" >"$work/log" 2>&1; then
        echo "with $name alone it does not build:"
        grep -E 'error:|Error|undefined' "$work/log" || cat "$work/log"
        status=1
        continue
    fi
    links=$(linked "$work/$name/libholdfast.so")
    if [ "$links" != "${alone#*=} " ]; then
        echo "with $name alone it links: $links"
        status=1
    fi
done
exit $status
