#!/usr/bin/env bash
# Copyright (c) 2026, the peerwin contributors.
# SPDX-License-Identifier: BSD-3-Clause
#
# Installs into one place and moves the result to PREFIX: what is installed must not know where it was built or put.
here=$(dirname -- "${BASH_SOURCE[0]}")
# shellcheck source=tests/packaging/common.sh
source "$here/common.sh"

"$CMAKE" --install "$BUILD" --prefix "$WORK/first" >"$WORK/install.log"
rm -rf -- "$PREFIX"
mv -- "$WORK/first" "$PREFIX"

while read -r file; do
    cmp "$SOURCE/$file" "$PREFIX/$file" || fail "$file is not installed as it is in the tree"
done < <(cd "$SOURCE" && find include/peerwin -type f)
for name in libpeerwin.so libpeerwin.a peerwin.pc peerwinConfig.cmake peerwinConfigVersion.cmake peerwin.7 peerwin_put.3 \
    peerwin_dev_wait.3; do
    [ -n "$(find "$PREFIX" -name "$name")" ] || fail "$name is not installed"
done
if grep -rIlF -e "$SOURCE" -e "$WORK" "$PREFIX"; then
    fail "the files above name directories of this build"
fi
readelf -d "$PREFIX"/lib*/libpeerwin.so "$PREFIX"/lib/*/libpeerwin.so 2>/dev/null >"$WORK/dynamic" || true
grep -q 'SONAME.*libpeerwin\.so\.[0-9]' "$WORK/dynamic" || fail "libpeerwin.so has no versioned SONAME"
if grep -E 'R(UN)?PATH' "$WORK/dynamic" | grep -F -e "$SOURCE" -e "$BUILD"; then
    fail "libpeerwin.so looks for libraries in the build"
fi

# The tools find the library where they are now, if they were built at all.
for tool in peerwin-info peerwin-bench; do
    [ -x "$BUILD/bin/$tool" ] || continue
    [ -n "$(find "$PREFIX" -name "$tool.1")" ] || fail "$tool has no manual page"
    "$PREFIX/bin/$tool" --help >"$WORK/help" || fail "the installed $tool does not run"
    grep -q "$tool" "$WORK/help" || fail "the installed $tool has no help"
done
