#!/bin/sh
# Copyright (c) 2026, the peerwin contributors.
# SPDX-License-Identifier: BSD-3-Clause
#
# survivors.sh LIMIT MPIRUN... @VERDICT@ ...: runs a job some of whose ranks die on purpose, and passes if the survivors
# left a verdict; 77 if that says that they could not begin. The launcher's status means nothing then: 0 after a kill and
# even after an abort. "@VERDICT@" among the arguments stands for the path of the verdict.
limit=$1
shift
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
verdict=$folder/verdict
count=$#
while [ "$count" -gt 0 ]; do
    [ "$1" = @VERDICT@ ] && set -- "$@" "$verdict" || set -- "$@" "$1"
    shift
    count=$((count - 1))
done
timeout -k 5 "$limit" "$@"
status=$?
case $(cat "$verdict" 2>/dev/null) in
PASSED)
    echo "verdict: passed"
    exit 0
    ;;
SKIPPED)
    echo "verdict: skipped"
    exit 77
    ;;
esac
echo "verdict: none (the launcher exited with $status)"
exit 1
