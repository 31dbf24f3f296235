#!/bin/sh
# Copyright (c) 2026, the peerwin contributors.
# SPDX-License-Identifier: BSD-3-Clause
#
# same_checksum.sh PROGRAM LAUNCHER...: stencil3d gets the same bits however its cells are spread. PROGRAM is stencil3d,
# LAUNCHER an mpirun without the number of ranks.
set -eu
program=$1
shift

# answer POINTS RANKS ARGUMENTS LAUNCHER...: checksum and verdict of each way, once if they are the same.
answer() {
    points=$1
    ranks=$2
    arguments=$3
    shift 3
    # shellcheck disable=SC2086 # words of their own
    "$@" "$ranks" "$program" --points "$points" --size 9,10,11 --fields 2 --steps 7 --csv $arguments |
        cut -d, -f20,21 | tail -n +2 | sort -u | tee /dev/stderr
}

expected=$(answer 7 1 "" "$@")
[ "$(answer 7 6 "--grid 1,2,3 --overlap off" "$@")" = "$expected" ]
expected=$(answer 27 1 "" "$@")
[ "$(answer 27 3 "--grid 1,1,3 --comm peerwin,mpi" "$@")" = "$expected" ]
case $expected in
*,PASSED) ;;
*) exit 1 ;;
esac
