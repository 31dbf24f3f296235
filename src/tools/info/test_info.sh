#!/bin/sh
# Copyright (c) 2026, the peerwin contributors.
# SPDX-License-Identifier: BSD-3-Clause
#
# peerwin-info tells what is there, as text and as JSON, and fails once, with the right exit status.
#   test_info.sh PART RANKS PEERWIN_INFO SOURCE MPIRUN [OPTION...]
set -eu
part=$1
ranks=$2
info=$3
source=$4
shift 4

fail() {
    echo "test_info.sh: $*" >&2
    exit 1
}

# The lines of stdin from the one that begins with $1 to the next empty one.
section() {
    awk -v head="$1" 'index($0, head) == 1 { on = 1; next } $0 == "" { on = 0 } on'
}

# has TEXT PATTERN: a line of TEXT has PATTERN.
has() {
    printf '%s\n' "$1" | grep -q -e "$2" || fail "no line has '$2': $1"
}

# The names of variables, one a line, of what is on stdin.
names() {
    grep -o 'PEERWIN_[A-Z_]*[A-Z]' | sort -u
}

# Is stdin JSON with so many ranks, all pairs, and for each pair that is not direct a reason?
check_json() {
    if command -v python3 >/dev/null; then
        python3 -c '
import json, sys
n = int(sys.argv[1])
d = json.load(sys.stdin)
assert d["tool"] == "peerwin-info" and d["error"] is None, d["error"]
for key in "compiler", "build_type", "mpi_library":
    assert d["build"][key] not in ("", "unknown"), key
assert d["machine"]["cpus_allowed"] >= 1 and d["machine"]["descriptors_soft_limit"] != 0
states = {c["name"]: c["state"] for c in d["capabilities"]}
assert states["memfd"] == "supported" and states["CUDA"] == "refused", states
assert [r["rank"] for r in d["ranks"]] == list(range(n))
assert len({r["pid"] for r in d["ranks"]}) == n and all(r["node"] == 0 for r in d["ranks"])
assert [(p["from"], p["to"]) for p in d["pairs"]] == [(a, b) for a in range(n) for b in range(n)]
for p in d["pairs"]:
    wanted = "self" if p["from"] == p["to"] else "direct"
    assert (p["path"], p["link"], p["reason"]) == (wanted, "host", None), p
assert any(v["name"] == "PEERWIN_LOG" and v["value"] == "error" for v in d["environment"])
' "$1"
    else
        # As many opening brackets as closing ones, all ranks and all pairs.
        awk -v n="$1" '
            { line = $0; gsub(/"[^"]*"/, "", line); up += gsub(/[{[]/, "", line); down += gsub(/[]}]/, "", line) }
            /"rank": / { seen++ }
            /"from": / { pairs++ }
            END { exit !(up > 0 && up == down && seen == n && pairs == n * n) }'
    fi
}

case $part in
report)
    text=$("$@" "$info") || fail "ended with status $?"
    has "$text" '^  compiler  *[a-z]'
    has "$text" '^  memfd  *supported'
    has "$text" '^  descriptors soft limit  *[0-9u]'
    rows=$(printf '%s\n' "$text" | section ranks | awk '$1 ~ /^[0-9]+$/ && $2 == 0' | wc -l)
    [ "$rows" -eq "$ranks" ] || fail "$rows ranks on node 0, not $ranks: $text"
    cells=$(printf '%s\n' "$text" | section pairs | awk '$1 ~ /^[0-9]+$/ { for (i = 2; i <= NF; i++)
        if ($i == (i - 2 == $1 ? "self" : "host")) cells++ } END { print cells + 0 }')
    [ "$cells" -eq $((ranks * ranks)) ] || fail "$cells cells are right: $text"
    ;;
json)
    export PEERWIN_LOG=error
    text=$("$@" "$info" --json) || fail "ended with status $?"
    printf '%s\n' "$text" | check_json "$ranks" || fail "wrong: $text"
    ;;
alone)
    text=$("$info") || fail "ended with status $?"
    has "$text" '^  *0 self$'
    has "$text" 'mpirun -n RANKS peerwin-info'
    if [ -w /dev/full ]; then
        status=0
        "$info" >/dev/full 2>/dev/null || status=$?
        [ "$status" -eq 1 ] || fail "output that cannot be written: status $status, not 1"
    fi
    ;;
env)
    list=$("$info" --env) || fail "ended with status $?"
    dir=$(mktemp -d)
    trap 'rm -rf -- "$dir"' EXIT
    printf '%s\n' "$list" | grep '^PEERWIN_' | names >"$dir/tool"
    # The tables' rows; what the text says elsewhere of build options has the same prefix.
    grep '^| `PEERWIN_' "$source/README.md" | cut -d '|' -f 2 | names >"$dir/readme"
    awk '/^\.SH/ { on = /ENVIRONMENT/ } on && /^\.B/' "$source/man/peerwin.7.in" | names >"$dir/manual"
    "$info" --env --json | grep '"name"' | names >"$dir/json"
    [ "$(wc -l <"$dir/tool")" -ge 12 ] || fail "too short: $list"
    for other in readme manual json; do
        diff "$dir/tool" "$dir/$other" || fail "the variables of --env (<) are not those of the $other (>)"
    done
    has "$(PEERWIN_TIMEOUT=12.5 "$info" --env)" '^  now:   12\.5$'
    status=0
    text=$(PEERWIN_TIMEOUT=soon "$info" --env) || status=$?
    [ "$status" -eq 1 ] || fail "a value that is not valid: status $status, not 1: $text"
    has "$text" '^not valid: .*PEERWIN_TIMEOUT=soon'
    ;;
reasons)
    export PEERWIN_NODE_RANKS=2
    text=$("$@" "$info" 2>/dev/null) || fail "ended with status $?"
    has "$text" '^  *1 host self    -    -$'
    reasons=$(printf '%s\n' "$text" | section 'not direct, because')
    has "$reasons" 'another pretended node (PEERWIN_NODE_RANKS=2)'
    has "$reasons" '^ *from 0-1 to 2-3$'
    has "$reasons" '^ *from 2-3 to 0-1$'
    nodes=$(printf '%s\n' "$text" | section ranks | awk '$1 ~ /^[0-9]+$/ { printf "%s ", $2 }')
    [ "$nodes" = "0 0 1 1 " ] || fail "nodes $nodes: $text"
    json=$("$@" "$info" --json 2>/dev/null) || fail "--json ended with status $?"
    [ "$(printf '%s\n' "$json" | grep -c '"reason": ".*pretended node')" -eq 8 ] || fail "not 8 reasons: $json"
    ;;
refused)
    # What needs no context is there all the same, and the reason, once.
    export PEERWIN_NODE_RANKS=1 PEERWIN_STRICT=1
    status=0
    text=$("$@" "$info" 2>&1) || status=$?
    [ "$status" -eq 1 ] || fail "status $status, not 1: $text"
    has "$text" '^  not known, because there is no context: .*strict'
    has "$text" '^  memfd  *supported'
    said=$(printf '%s\n' "$text" | grep -c '^peerwin-info: ') || true
    [ "$said" -eq 1 ] || fail "$said messages, not 1: $text"
    ;;
gpu)
    # On whatever GPU there is: one that both ranks use, by some kind of handle that works.
    text=$("$@" "$info") || fail "ended with status $?"
    has "$text" '^  CUDA  *supported'
    has "$text" '^  *1 \(GPU\|MIG\)-'
    has "$text" '^  *0 self *\(same\|nvl\|pcie\)'
    has "$(printf '%s\n' "$text" | section 'kinds of memory handle')" 'proved: 2 of 2 pairs'
    ;;
sim-*)
    # On the simulated driver: who has which device, how pairs are linked, and which kinds of handle are proved.
    text=$("$@" "$info" 2>/dev/null) || fail "ended with status $?"
    kinds=$(printf '%s\n' "$text" | section 'kinds of memory handle')
    devices=$(printf '%s\n' "$text" | section 'devices of ranks' | awk '$1 ~ /^[0-9]+$/ { print $2 }' | sort -u | wc -l)
    has "$text" '^  CUDA  *supported'
    no_channel='fabric  refused: .*CUDA_ERROR_NOT_PERMITTED.*IMEX'
    case $part in
    sim-same)
        [ "$devices" -eq 1 ] || fail "$devices devices, not 1: $text"
        has "$text" '^  *0 self same'
        for kind in 'legacy ' 'fd     ' 'host   '; do
            has "$kinds" "^  $kind proved: $((ranks * (ranks - 1))) of $((ranks * (ranks - 1))) pairs"
        done
        has "$kinds" "$no_channel"
        ;;
    sim-nvswitch)
        [ "$devices" -eq "$ranks" ] || fail "$devices devices, not $ranks: $text"
        has "$text" '^  *0 self  nvl'
        has "$kinds" 'fd  *proved: 12 of 12'
        has "$kinds" "$no_channel"
        ;;
    sim-no-peer)
        has "$kinds" 'legacy  refused: 0 of 2'
        has "$kinds" '^  cuIpcOpenMemHandle failed with CUDA_ERROR_PEER_ACCESS_UNSUPPORTED'
        has "$kinds" 'fd  *refused: 0 of 2'
        has "$kinds" '^    from 0 to 1'
        has "$kinds" 'host  *proved: 2 of 2'
        ;;
    sim-cliques)
        has "$text" '^  *0 self  nvl    -    -'
        has "$kinds" 'fabric  partly proved: 4 of 12'
        has "$kinds" '^    from 0-1 to 2-3'
        has "$text" 'cuMemImportFromShareableHandle failed'
        ;;
    sim-nodes)
        has "$text" '^  *0 self  nvl  fab  fab'
        has "$kinds" 'fabric  proved: 12 of 12'
        has "$kinds" 'fd  *partly proved: 4 of 12'
        has "$kinds" 'another pretended node'
        ;;
    sim-mig)
        has "$text" '^  *1 MIG-.* yes  yes$'
        has "$kinds" 'legacy  refused: 0 of 2'
        has "$kinds" 'fd  *proved: 2 of 2'
        ;;
    sim-limited)
        has "$kinds" 'fabric  not tried: PEERWIN_HANDLES'
        has "$kinds" 'fd  *proved: 2 of 2'
        ;;
    *)
        fail "unknown part $part"
        ;;
    esac
    json=$("$@" "$info" --json 2>/dev/null) || fail "--json ended with status $?"
    for state in proved 'partly proved' refused 'not tried'; do
        there=$(printf '%s\n' "$json" | grep -c "\"state\": \"$state\"," | cat)
        here=$(printf '%s\n' "$kinds" | grep -c "^  [a-z]*  *$state: " | cat)
        # JSON says of what the kernel allows that it is refused, too.
        [ "$there" -eq "$here" ] || [ "$state" = refused ] || fail "$there times '$state', not $here: $json"
    done
    [ "$(printf '%s\n' "$json" | grep -c '"pci": "0000:')" -ge "$ranks" ] || fail "no devices of ranks: $json"
    if command -v python3 >/dev/null; then
        printf '%s\n' "$json" | python3 -c 'import json, sys; d = json.load(sys.stdin); assert len(d["kinds"]) == 4' ||
            fail "no JSON: $json"
    fi
    ;;
usage)
    for option in --no-such-option surplus --env=1; do
        status=0
        text=$("$@" "$info" "$option" 2>&1) || status=$?
        [ "$status" -eq 2 ] || fail "$option: status $status, not 2: $text"
        said=$(printf '%s\n' "$text" | grep -c '^peerwin-info: ') || true
        [ "$said" -eq 1 ] || fail "$option: $said messages, not 1: $text"
    done
    text=$("$@" "$info" --help) || fail "--help ended with status $?"
    [ "$(printf '%s\n' "$text" | grep -c '^Usage: ')" -eq 1 ] || fail "not one help: $text"
    ;;
*)
    fail "unknown part $part"
    ;;
esac
