#!/usr/bin/env bash
# Copyright (c) 2026, the peerwin contributors.
# SPDX-License-Identifier: BSD-3-Clause
#
# README.md's program, compiled and started by README.md's own command lines, prints what README.md says.
here=$(dirname -- "${BASH_SOURCE[0]}")
# shellcheck source=tests/packaging/common.sh
source "$here/common.sh"

# block LANGUAGE: the text of all code blocks of that language.
block() {
    awk -v fence="\`\`\`$1" '$0 == fence { inside = 1; next } /^```/ { inside = 0 } inside' "$SOURCE/README.md"
}

block c >ring.c
grep -q 'int main' ring.c || fail "README.md has no program"
compile=$(block sh | grep '^cc ') || fail "README.md has no line that compiles it"
start=$(block sh | grep '^mpirun ') || fail "README.md has no line that starts it"
block text >expected
[ -s expected ] || fail "README.md has no output"

# The README's lines are for a prefix without spaces, like most of its readers'.
prefix=$(mktemp -d)
trap 'rm -rf -- "$prefix"' EXIT
cp -R -- "$PREFIX/." "$prefix"
export PKG_CONFIG_PATH=${PKG_CONFIG_PATH/#"$PREFIX"/$prefix}

# On the command lines of the README the compiler is cc; here it is the build's.
cc() {
    "$CC" -Wall -Wextra -Werror "$@"
}
mpirun() {
    "$MPIEXEC" "$@"
}
echo "$compile"
eval "$compile"
echo "$start"
eval "$start" | tee output
diff expected output || fail "the output is not README.md's"
