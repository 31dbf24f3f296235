# shellcheck shell=bash
# Copyright (c) 2026, the peerwin contributors.
# SPDX-License-Identifier: BSD-3-Clause
#
# For the packaging tests: SOURCE, PREFIX (the installed copy), WORK (an own, empty directory), CC and MPIEXEC come from
# CTest. Each test builds like a user outside the tree, and runs what it built on 2 ranks.
set -euo pipefail
export LC_ALL=C
: "${SOURCE:?}" "${PREFIX:?}" "${WORK:?}" "${CC:?}" "${MPIEXEC:?}"

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
mpi_flags=()
if "$MPIEXEC" --version 2>/dev/null | grep -e 'Open MPI' -e OpenRTE >/dev/null; then
    mpi_flags=(--oversubscribe --bind-to none --timeout 60)
fi

# run PROGRAM: on 2 ranks; the program has to say what exchange.c says.
run() {
    local output
    output=$("$MPIEXEC" "${mpi_flags[@]}" -n 2 "$1") || fail "$1 ended with exit status $?: $output"
    [ "$output" = "2 ranks exchanged" ] || fail "$1 printed: $output"
    echo "ok: $1"
}

export PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig
for dir in "$PREFIX"/lib*/pkgconfig "$PREFIX"/lib/*/pkgconfig; do
    [ ! -d "$dir" ] || export PKG_CONFIG_PATH=$dir
done
rm -rf -- "$WORK"
mkdir -p -- "$WORK"
cd -- "$WORK"
