#!/bin/sh
# install.sh CMAKE BUILD: installs the build into a scratch prefix and builds a program against it, through pkg-config and
# through the CMake package, against the shared and the static library.
set -eu
cmake=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --prefix "$work/prefix" >/dev/null

mkdir "$work/user"
cat >"$work/user/main.c" <<'SOURCE'
#include <holdfast.h>
#include <stdio.h>

int main(void)
{
    return puts(hf_status_name(HF_OK)) < 0;
}
SOURCE
cat >"$work/user/CMakeLists.txt" <<'PROJECT'
cmake_minimum_required(VERSION 3.25)
project(user C)
find_package(holdfast 0.1 REQUIRED)
foreach(kind holdfast holdfast_static)
    add_executable(user_${kind} main.c)
    target_link_libraries(user_${kind} PRIVATE holdfast::${kind})
endforeach()
PROJECT

says_ok() { # PROGRAM
    answer=$("$1")
    [ "$answer" = HF_OK ] || { echo "$1 says $answer"; exit 1; }
}

pc=$(find "$work/prefix" -name holdfast.pc)
export PKG_CONFIG_PATH="${pc%/*}"
flags() {
    pkg-config "$@" holdfast
}
# shellcheck disable=SC2046
cc -o "$work/shared" "$work/user/main.c" $(flags --cflags --libs)
export LD_LIBRARY_PATH="${pc%/pkgconfig/*}"
says_ok "$work/shared"
# The archive with the client libraries shared: pkg-config's own --static wants them as archives too.
# shellcheck disable=SC2046
cc -o "$work/static" "$work/user/main.c" $(flags --cflags) "${pc%/pkgconfig/*}/libholdfast.a" \
    $(pkg-config --libs $(flags --print-requires-private)) -pthread
says_ok "$work/static"

"$cmake" -S "$work/user" -B "$work/user/build" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
"$cmake" --build "$work/user/build" >/dev/null
says_ok "$work/user/build/user_holdfast"
says_ok "$work/user/build/user_holdfast_static"

case $(readelf -d "$work/shared") in
    *'libholdfast.so.0]'*) ;;
    *) echo "the program does not ask for libholdfast.so.0"; exit 1 ;;
esac
