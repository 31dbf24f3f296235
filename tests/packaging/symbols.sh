#!/usr/bin/env bash
# Copyright (c) 2026, the peerwin contributors.
# SPDX-License-Identifier: BSD-3-Clause
#
# The shared library exports exactly what the list in src/peerwin.map says, which is what the headers declare; the
# static one has no global name outside peerwin_ and pw_, so that it clashes with no user's.
here=$(dirname -- "${BASH_SOURCE[0]}")
# shellcheck source=tests/packaging/common.sh
source "$here/common.sh"

nm -D --defined-only "$BUILD/lib/libpeerwin.so" | awk '$2 ~ /[A-Z]/ && $2 != "A" { sub(/@.*/, "", $3); print $3 }' |
    sort >exported
sed -e 's|/\*.*\*/||' -e 's|#.*||' "$SOURCE/src/peerwin.map" | grep -o 'peerwin_[a-z0-9_]*;' | tr -d ';' | sort >listed
# A declaration may break its line before or after the name.
cat "$SOURCE"/include/peerwin/*.h "$SOURCE"/include/peerwin/*.cuh "$SOURCE"/include/peerwin/device/*.h | tr '\n' ' ' |
    grep -oE '(PEERWIN_API|PW_DEV_IMPORT) [A-Za-z_][^(;]*\(' |
    sed -nE 's/.*[ *](peerwin_[a-z0-9_]+) *\($/\1/p' | sort >declared

[ -s listed ] || fail "src/peerwin.map lists nothing"
diff listed exported || fail "exported (>) is not what src/peerwin.map lists (<)"
diff listed declared || fail "declared in the header (>) is not what src/peerwin.map lists (<)"
nm -g --defined-only "$BUILD/lib/libpeerwin.a" | awk 'NF == 3 { print $3 }' | grep -vE '^(peerwin|pw)_' >strangers || true
[ ! -s strangers ] || fail "the static library defines $(tr '\n' ' ' <strangers)"
echo "ok: $(wc -l <exported) symbols"
