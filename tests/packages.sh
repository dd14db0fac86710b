#!/bin/sh
# Installs the Debian packages that a task needs where they are missing, and does nothing where they are not.
#
#   packages.sh build-sqlite    the library and the command with SQLite alone
#   packages.sh build           with all three databases
#   packages.sh test            and what the tests need: CUnit, the servers, a C++ compiler for the headers, a browser for the bench's page
#   packages.sh lint            and cppcheck and clang-tidy
set -eu

sqlite='cmake gcc libc6-dev make pkg-config libsqlite3-dev libjansson-dev'
build="$sqlite libpq-dev libmariadb-dev"
browser='chromium fonts-dejavu-core' # opens the page of holdfast-bench; nothing but the tests wants it
test="$build g++ libcunit1-dev postgresql mariadb-server sqlite3 pgbouncer $browser"

case ${1:-} in
    build-sqlite) packages=$sqlite ;;
    build) packages=$build ;;
    test) packages=$test ;;
    lint) packages="$test cppcheck clang-tidy" ;;
    *)
        sed -n '4,7s/^# *//p' "$0" >&2
        exit 2
        ;;
esac

if ! command -v dpkg-query >/dev/null; then
    echo "packages.sh: this is no Debian system: install what matches these packages by hand: $packages" >&2
    exit 0
fi

missing=
for package in $packages; do
    case $(dpkg-query -W -f '${db:Status-Status} ' "$package" 2>/dev/null || true) in
        installed\ *) ;; # not: not-installed
        *) missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0

echo "packages.sh: installing$missing"
root=
if [ "$(id -u)" != 0 ]; then
    root=sudo
    if ! command -v sudo >/dev/null; then
        echo "packages.sh: not root and no sudo; run as root: apt-get install$missing" >&2
        exit 1
    fi
fi

apt() {
    $root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"
}
# shellcheck disable=SC2086
if ! apt update >/dev/null || ! apt install --no-install-recommends $missing >/dev/null; then
    echo "packages.sh: apt-get could not install$missing" >&2
    exit 1
fi
