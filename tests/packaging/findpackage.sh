#!/usr/bin/env bash
# Copyright (c) 2026, the peerwin contributors.
# SPDX-License-Identifier: BSD-3-Clause
#
# find_package(peerwin) gives targets for both libraries; a version that is too new, and a project without C, are
# refused with a reason.
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/packaging/common.sh
source "$here/common.sh"

configure() {
    "$CMAKE" -G Ninja -S "$here/consumer" -B "$1" -D CMAKE_PREFIX_PATH="$PREFIX" -D CMAKE_C_COMPILER="$CC" "${@:2}"
}

configure build -D CMAKE_BUILD_TYPE=Release >configure.log 2>&1 || { cat configure.log; fail "configuring"; }
"$CMAKE" --build build
run "$WORK/build/shared"
run "$WORK/build/static"
if readelf -d build/static | grep libpeerwin; then
    fail "the static program needs the shared library"
fi

if configure too_new -D wanted=99.0 >too_new.log 2>&1; then
    fail "version 99.0 was found"
fi
grep -q 'compatible with requested version' too_new.log || { cat too_new.log; fail "no reason given"; }

if configure without_c -D languages=NONE >without_c.log 2>&1; then
    fail "a project without C was configured"
fi
grep -q 'LANGUAGES C CXX' without_c.log || { cat without_c.log; fail "no reason given"; }
