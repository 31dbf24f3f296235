#!/bin/sh
# Copyright (c) 2026, the peerwin contributors.
# SPDX-License-Identifier: BSD-3-Clause
#
# There is a page for every function and tool, and it says what the header and the help say; with "format", every page
# is set without a warning.
#   test_man.sh PAGES SOURCE [format]
set -eu
export LC_ALL=C
pages=$1
source=$2
failed=0

complain() {
    echo "test_man.sh: $*" >&2
    failed=1
}

if [ "${3:-}" = format ]; then
    count=0
    for page in "$pages"/man*/*.[137]; do
        if command -v groff >/dev/null; then
            warnings=$(groff -man -Tutf8 -ww -rLL=120n "$page" 2>&1 >/dev/null)
        else
            # No date is given, so that a build can be repeated; lines of code are as long as in the header.
            warnings=$(mandoc -T lint -W warning "$page" 2>&1 | grep -v 'missing date' || true)
        fi
        [ -z "$warnings" ] || complain "$page: $warnings"
        count=$((count + 1))
    done
    [ "$count" -gt 30 ] || complain "only $count pages"
    exit "$failed"
fi

# The functions that the library exports; those that are inline come on top.
functions=$(grep -o 'peerwin_[a-z0-9_]*;' "$source/src/peerwin.map" | tr -d ';' | grep -v '^peerwin_inline_')
[ -n "$functions" ] || complain "src/peerwin.map lists nothing"
device=$(grep -o '^PW_DEV [a-z].* \**peerwin_dev_[a-z0-9_]*(' "$source/include/peerwin/device.cuh" | sed 's/.*[ *]//; s/($//')
[ -n "$device" ] || complain "peerwin/device.cuh has no calls"
for name in $functions $device peerwin_config_init peerwin_win_config_init peerwin_win_view; do
    page=$pages/man3/$name.3
    if [ ! -s "$page" ]; then
        complain "$name has no page"
        continue
    fi
    grep -q "^$name \\\\- [a-zA-Z0-9]" "$page" || complain "$name: no summary"
    awk -v name="$name" '/^\.SH/ { on = /SYNOPSIS/ } on && index($0, name "(") { found = 1 } END { exit !found }' "$page" ||
        complain "$name: no prototype"
    awk '/^\.SH/ { on = /DESCRIPTION/ } on && /^[^.]/ { found = 1 } END { exit !found }' "$page" ||
        complain "$name: no description"
done
for page in "$pages"/man3/*.3; do
    name=$(basename -- "$page" .3)
    grep -q "[ *]$name(" "$source/include/peerwin/peerwin.h" "$source/include/peerwin/device.cuh" ||
        complain "there is no function $name"
done

# A thing said in the header has to arrive.
grep -q 'PERMISSION' "$pages/man3/peerwin_put.3" || complain "peerwin_put: the statuses of all transfers are missing"
grep -q '^Statuses, the same on every rank' "$pages/man3/peerwin_init.3" || complain "peerwin_init: no statuses"
grep -q 'timeout_ms' "$pages/man3/peerwin_init.3" || complain "peerwin_init: no options"
statuses=$(grep -o '^ *X([A-Z_]*, [0-9]*' "$source/include/peerwin/peerwin.h" | sed 's/.*X(//; s/,.*//')
[ -n "$statuses" ] || complain "the header lists no statuses"
for name in $statuses; do
    grep -q "^\.B PEERWIN_$name\$" "$pages/man7/peerwin.7" || complain "peerwin(7) lacks PEERWIN_$name"
done

# Every option of the help is in the manual, and the other way round.
for tool in info bench; do
    sed -n '/help_text/,/;$/p' "$source/src/tools/$tool/options.c" | grep -o '^ *"  --[a-z]*' | grep -o -e '--[a-z]*' |
        sort -u >"$pages/$tool.help"
    awk '/^\.SH/ { on = /OPTIONS/ } on && /^\.BI? \\-\\-/' "$pages/man1/peerwin-$tool.1" | sed 's/\\-/-/g' |
        grep -o '^\.BI* --[a-z]*' | grep -o -e '--[a-z]*' | sort -u >"$pages/$tool.manual"
    [ -s "$pages/$tool.help" ] || complain "peerwin-$tool: no options in the help"
    diff "$pages/$tool.help" "$pages/$tool.manual" >&2 ||
        complain "peerwin-$tool: the options of the help (<) are not those of the manual (>)"
done
exit "$failed"
