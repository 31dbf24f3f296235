#!/bin/sh
# Copyright (c) 2026, the peerwin contributors.
# SPDX-License-Identifier: BSD-3-Clause
#
# What scripts rely on: the CSV of peerwin-bench can be parsed and its figures are figures; a wrong command line is
# reported once and ends with status 2.
#   test_bench.sh csv|cuda|usage PEERWIN_BENCH MPIRUN [OPTION...]
set -eu
part=$1
bench=$2
shift 2
errors=$(mktemp)
trap 'rm -f -- "$errors"' EXIT

fail() {
    echo "test_bench.sh: $*" >&2
    exit 1
}

# Every line: as many fields as the head has names (the quoted ones come last), positive figures, min <= median <= max.
check_csv() {
    awk -F, '
        NR == 1 {
            if ($0 !~ /^case,bytes,ranks,implementation,unit,repeats,batch,median,min,q1,q3,max,ratio,/) exit 1
            names = NF
            next
        }
        NF < names || $1 != "put" || $2 !~ /^[0-9]+$/ || $3 != 2 || $5 != "us" || $6 < 9 { print "odd line: " $0; exit 1 }
        {
            for (i = 7; i <= 17; i++)
                if ($i !~ /^[0-9.]+(e[-+][0-9]+)?$/ || $i + 0 <= 0) { print "odd figure " i ": " $0; exit 1 }
            if ($9 > $8 + 0 || $8 > $12 + 0) { print "out of order: " $0; exit 1 }
            seen[$4]++
        }
        END {
            if (seen["peerwin"] < 2 || seen["MPI"] != seen["peerwin"] || seen["memcpy"] != seen["peerwin"]) exit 1
        }'
}

case $part in
csv)
    csv=$("$@" "$bench" --quick --only put --csv -) || fail "ended with status $?"
    printf '%s\n' "$csv" | check_csv || fail "cannot be parsed: $csv"
    ;;
cuda)
    # Every kind that is to be had has all its rows; fabric is not, without an IMEX channel, and says so.
    csv=$("$@" "$bench" --space cuda --quick --largest 1 --only start,register,put --csv - 2>"$errors") ||
        fail "ended with status $?: $(cat "$errors")"
    grep -q '^peerwin-bench: fabric is not to be had: .*IMEX' "$errors" || fail "no word on fabric: $(cat "$errors")"
    for kind in legacy fd pool host; do
        for row in start-1st start start-init win win-create win-rest win-free put; do
            printf '%s\n' "$csv" | grep -q "^$row,[0-9]*,2,peerwin,.*,$kind,[0-9]" || fail "no $row of $kind: $csv"
        done
        printf '%s\n' "$csv" | grep -q "^put,8,2,cuMemcpyAsync,us,9,.*,$kind," || fail "nothing beside $kind: $csv"
    done
    # Every stage of virtual memory takes time.
    printf '%s\n' "$csv" | awk -F, '
        $1 ~ /^win-(create|export|import|map|access|rest)$/ && $18 == "fd" && $8 > 0 { stages++ }
        END { exit stages != 6 }' || fail "stages without time: $csv"
    ;;
usage)
    for option in --no-such-option --repeats=1 --only=no-such-case --space=moon surplus --kinds=fd --place=core \
        --block=3 --block=4,8 --block=2,8,9 --block=1,8,1,1,17 '--block=1,8,' --block=3,100000 --block=2,x \
        '--space=cuda --kinds=moon' '--space=cuda --largest=0'; do
        status=0
        # shellcheck disable=SC2086 # some are two words
        text=$("$@" "$bench" $option 2>&1) || status=$?
        [ "$status" -eq 2 ] || fail "$option: status $status, not 2: $text"
        said=$(printf '%s\n' "$text" | grep -c '^peerwin-bench: ') || true
        [ "$said" -eq 1 ] || fail "$option: $said messages, not 1: $text"
    done
    ;;
*)
    fail "unknown part $part"
    ;;
esac
