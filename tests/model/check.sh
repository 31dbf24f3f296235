#!/usr/bin/env bash
# Copyright (c) 2026, the peerwin contributors.
# SPDX-License-Identifier: BSD-3-Clause
#
# Checks one form of a model with spin.
#   check.sh holds MODEL.pml DIR [-DNAME=VALUE...]                         it has no error, and all of it was searched
#   check.sh breaks assertion|deadlock MODEL.pml DIR [-DNAME[=VALUE]...]   it has an error of this kind
# DIR is emptied, and holds what spin ($SPIN) and the compilers make of it: $CC preprocesses, $PAN_CC, which may be
# another, compiles the verifier. To see how a form breaks:
#   cd DIR && spin -t -p -l -g DEFINITIONS MODEL.pml
#
# A model that holds must also be without dead code: a statement that is never reached guards nothing.
set -euo pipefail
export LC_ALL=C

fail() {
    printf 'FAILED: %s: %s\n' "$name" "$1" >&2
    [ ! -s pan.log ] || cat pan.log >&2
    exit 1
}

verdict=$1
shift
kind=none
if [ "$verdict" = breaks ]; then
    kind=$1
    shift
fi
model=$(readlink -f -- "$1")
work=$2
shift 2
name="$(basename -- "$model" .pml) $*"

rm -rf -- "$work"
mkdir -p -- "$work"
cd -- "$work"
cp -- "$model" .
model=$(basename -- "$model")

"${SPIN:-spin}" "-P${CC:-cc} -E -x c" -a "$@" "$model" >spin.log 2>&1 || fail "spin does not take it: $(cat spin.log)"
! grep -iE 'error|warning' spin.log >&2 || fail "spin has something to say"
"${PAN_CC:-${CC:-cc}}" -O0 -w -DSAFETY -DMEMLIM=2048 -o pan pan.c || fail "the verifier does not compile"

# One kind of error hides the other, whichever comes first: what is not asked for is not looked at.
case $kind in
none) options=() ;;
assertion) options=(-E) ;;
deadlock) options=(-A) ;;
*) fail "no such kind of error: $kind" ;;
esac
limits=(-m10000 -w18)
timeout 60 ./pan "${limits[@]}" "${options[@]}" >pan.log 2>&1 || fail "the search did not end (exit status $?)"

grep -q '^State-vector.*errors: ' pan.log || fail "the search has no result"
if [ "$verdict" = holds ]; then
    grep -q '^State-vector.*errors: 0$' pan.log || fail "there is an error"
    ! grep -qiE 'max search depth too small|out of memory|search not completed|reached .*limit' pan.log ||
        fail "not everything was searched"
    ! sed -n '/^unreached in /,$p' pan.log | grep -E '^	[^(]|^	\([1-9]' >/dev/null || fail "a statement is never reached"
else
    ! grep -q '^State-vector.*errors: 0$' pan.log || fail "no $kind is found, with the guard taken out"
    case $kind in
    assertion) grep -q '^pan:1: assertion violated' pan.log || fail "it breaks otherwise than by an assertion" ;;
    deadlock) grep -q '^pan:1: invalid end state' pan.log || fail "it breaks otherwise than by a deadlock" ;;
    esac
fi
grep -E '^pan:1|^State-vector|states, stored|elapsed time' pan.log
printf 'ok: %s %s\n' "$name" "$verdict"
