#!/bin/sh
# Copyright (c) 2026, the peerwin contributors.
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs the conformance program on the simulated driver and compares what it says with what it said on a real one.
#
#   compare.sh CONFORMANCE LIBRARY EXPECTED DIFFERENCES [SECTION...]
#
# COMPARE_ALSO names a file with further lines, of sections that have not been recorded; comments in it do not count.
# COMPARE_WITHOUT names a section that this build cannot run.
# DIFFERENCES holds the lines that may differ, as the simulator prints them, with comments. A line there that the real
# driver prints too, or whose name it does not print, is an error: the list must not outlive its reasons.
set -eu
program=$1 library=$2 expected=$3 differences=$4
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk -v sections="$*" '
    function name(line) { return substr(line, 1, index(line, ":") - 1) }
    BEGIN { count = split(sections, list, " "); for (i in list) wanted[list[i]] = 1 }
    FNR == NR { if ($0 !~ /^#/ && $0 != "") { instead[name($0)] = $0 } next }
    /^#/ { next }
    { section = substr($0, 1, index($0, ".") - 1); if (count > 0 && !(section in wanted)) { next } }
    name($0) in instead { used[name($0)] = 1; same = instead[name($0)] == $0; print instead[name($0)];
        if (same) { print "needless difference: " $0 > "/dev/stderr"; bad = 1 } next }
    { print }
    END { for (n in instead) { split(n, parts, "."); if (!(n in used) && (count == 0 || parts[1] in wanted)) {
        print "difference without a line: " n > "/dev/stderr"; bad = 1 } } exit bad }
' "$differences" "$expected" ${COMPARE_ALSO:+"$COMPARE_ALSO"} >"$work/expected"

SIMCUDA_STRICT=0 "$program" -l "$library" "$@" >"$work/simulated" || true # sections that crash are facts, too
for side in expected simulated; do
    sed "/^${COMPARE_WITHOUT:-none}\\./d" "$work/$side" >"$work/$side.compared"
done
diff "$work/expected.compared" "$work/simulated.compared"
echo "$(wc -l <"$work/expected.compared") lines as expected"
