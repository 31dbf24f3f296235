#!/usr/bin/env bash
# Copyright (c) 2026, the peerwin contributors.
# SPDX-License-Identifier: BSD-3-Clause
#
# pkg-config's flags are enough for the plain compiler, do no harm with mpicc, and work for the static library.
here=$(dirname -- "${BASH_SOURCE[0]}")
# shellcheck source=tests/packaging/common.sh
source "$here/common.sh"

# pkg-config writes for a shell to read; the build directory may have a space in its name.
cflags=() libs=() libdir=()
flags() {
    eval "cflags=($(pkg-config --cflags "$@" peerwin)) libs=($(pkg-config --libs "$@" peerwin))"
    eval "libdir=($(pkg-config --variable=libdir peerwin))"
}

flags
strict=(-std=c11 -Wall -Wextra -Wpedantic -Werror)

"$CC" "${strict[@]}" "${cflags[@]}" "$here/exchange.c" -o shared "${libs[@]}" "-Wl,-rpath,${libdir[0]}"
run "$WORK/shared"

if command -v mpicc >/dev/null; then
    mpicc "${cflags[@]}" "$here/exchange.c" -o by_mpicc "${libs[@]}" "-Wl,-rpath,${libdir[0]}"
    run "$WORK/by_mpicc"
fi

# Without the shared library beside it, the linker takes the static one.
cp -R -- "$PREFIX" only_static
find only_static -name 'libpeerwin.so*' -delete
PKG_CONFIG_PATH=${PKG_CONFIG_PATH/#"$PREFIX"/$WORK/only_static}
flags --static
"$CC" "${cflags[@]}" "$here/exchange.c" -o static "${libs[@]}"
if readelf -d static | grep libpeerwin; then
    fail "the static program needs the shared library"
fi
run "$WORK/static"
