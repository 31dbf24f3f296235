# shellcheck shell=bash
# Copyright (c) 2026, the peerwin contributors.
# SPDX-License-Identifier: BSD-3-Clause
#
# What launch/demo, launch/check and .ci/run share: installing what is missing, running a step with its output in a
# log, building. Sourced, not run. What is missing is found by trying it, not by asking the package manager, so that
# compilers and MPIs from modules or one's own prefix count, and a second run touches no network.

set -euo pipefail
export LC_ALL=C

root=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
build=$root/build
logs=$root/out/log
me=$(basename -- "$0")
reporter=
updated= # the package lists, by this script

say() {
    printf '%s: %s\n' "$me" "$*"
}

# die LINES...
die() {
    printf '%s\n' "${@/#/$me: }" >&2
    exit 1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# ------------------------------------------------------------------------------------------------- packages

# compiles COMPILER INCLUDES...: does the compiler work, and does it find these headers?
compiles() {
    local compiler
    read -ra compiler <<<"$1"
    shift
    have "${compiler[0]}" && printf '#include <%s>\n' "$@" | "${compiler[@]}" -fsyntax-only -x c - >/dev/null 2>&1
}

# library MODULE INCLUDES...: by pkg-config, else by its headers.
library() {
    local module=$1
    shift
    { have pkg-config && pkg-config --exists "$module"; } || compiles "${CC:-cc}" "$@"
}

cmake_version() {
    cmake --version 2>/dev/null | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p'
}

cmake_is_new_enough() {
    have cmake && [ "$(printf '%s\n' 3.25 "$(cmake_version)" | sort -V | head -n 1)" = 3.25 ]
}

# The Debian and Ubuntu packages that a build and its tests lack here, one per line.
missing_packages() {
    compiles "${CC:-cc}" stdio.h || printf '%s\n' gcc libc6-dev
    cmake_is_new_enough && have ctest || printf '%s\n' cmake
    have ninja || printf '%s\n' ninja-build
    have pkg-config || printf '%s\n' pkg-config
    have mpirun || have mpiexec || printf '%s\n' openmpi-bin
    compiles mpicc mpi.h || printf '%s\n' libopenmpi-dev
    library cmocka stdarg.h stddef.h setjmp.h stdint.h cmocka.h || printf '%s\n' libcmocka-dev
    library libpng png.h || printf '%s\n' libpng-dev
}

cmake_hint() {
    if have cmake && ! cmake_is_new_enough; then
        printf ' (cmake here is %s, needed is 3.25 or later: https://cmake.org/download)' "$(cmake_version)"
    fi
}

may_install() {
    [ "$(id -u)" = 0 ] && have apt-get
}

# tell_what_to_install PACKAGES...: for those who may not, or cannot, do it from here.
tell_what_to_install() {
    printf '%s: these packages are missing: %s%s\n' "$me" "$*" "$(cmake_hint)"
    if have apt-get; then
        printf '%s\n' "Installing them takes root. Run, or ask your administrator to run:" "" \
            "    sudo apt-get update" \
            "    sudo apt-get install -y --no-install-recommends $*" ""
    else
        printf '%s\n' "This machine has no apt-get; the names above are Debian's. Needed are: a C compiler, CMake 3.25 or" \
            "later, Ninja, pkg-config, an MPI with mpicc and mpirun, and the development files of cmocka and libpng." ""
    fi
    printf '%s\n' "Nothing was changed. Start this again afterwards."
}

apt() {
    DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"
}

# fetch_packages PACKAGES...
fetch_packages() {
    say "missing packages: $*"
    # One broken source among many is no reason to give up.
    updated=yes
    try_step "apt-get update" apt-update apt update || say "going on with the package lists that are here"
    step "apt-get install" apt-install apt install -y --no-install-recommends "$@"
    hash -r
}

# install_packages FINDER PACKAGES...: afterwards FINDER finds nothing missing, or we end here.
install_packages() {
    local finder=$1 packages
    shift
    fetch_packages "$@"
    mapfile -t packages < <("$finder")
    [ ${#packages[@]} -eq 0 ] ||
        die "still missing after the installation: ${packages[*]}$(cmake_hint)" "the log is $logs/apt-install.log"
}

# offer_packages COMMANDS...: packages named like their commands, which are good to have. Where they cannot be had, as
# without a network, that is no reason to stop.
offer_packages() {
    local command missing=() soon=(-o Acquire::Retries=0 -o Acquire::http::Timeout=10 -o Acquire::https::Timeout=10)
    for command in "$@"; do
        have "$command" || missing+=("$command")
    done
    [ ${#missing[@]} -gt 0 ] && may_install || return 0
    [ -n "$updated" ] || try_step "apt-get update" apt-update apt "${soon[@]}" update || true
    for command in "${missing[@]}"; do
        try_step "apt-get install $command" "apt-$command" apt "${soon[@]}" install -y --no-install-recommends "$command" ||
            say "going on without $command; what needs it is left out"
    done
    hash -r
}

# --------------------------------------------------------------------------------------------------- steps

# report LOG: says every now and then how far a step is, by the last [n/m] in its log. Runs beside the step.
report() {
    local log=$1 seconds=0 every=20 count
    [ -t 1 ] && every=1
    while sleep "$every" >/dev/null 2>&1; do
        seconds=$((seconds + every))
        count=$(tail -c 4000 "$log" 2>/dev/null | grep -o '^\[ *[0-9]*/[0-9]*\]' | tail -n 1) || true
        if [ -t 1 ]; then
            printf '\r%s: %s ... %s%d s ' "$me" "$what" "${count:+$count, }" "$seconds"
        else
            say "$what: ${count:+$count, }$seconds s so far"
        fi
    done
}

stop_reporter() {
    if [ -n "$reporter" ]; then
        kill "$reporter" 2>/dev/null || true
        wait "$reporter" 2>/dev/null || true
        reporter=
    fi
}
trap stop_reporter EXIT

# try_step WHAT LOGNAME COMMAND...: runs the command with its output in a log; returns its exit status.
try_step() {
    local what=$1 log=$logs/$2.log begin=$SECONDS status=0
    shift 2
    mkdir -p -- "$logs"
    : >"$log"
    if [ -t 1 ]; then printf '%s: %s ...' "$me" "$what"; else say "$what ..."; fi
    report "$log" &
    reporter=$!
    "$@" >"$log" 2>&1 </dev/null || status=$?
    stop_reporter
    [ ! -t 1 ] || printf '\r\033[K'
    if [ "$status" -eq 0 ]; then
        say "$what: ok, $((SECONDS - begin)) s"
    else
        tail -n 25 "$log" | sed 's/^/    /' >&2
        printf '%s: FAILED: %s (exit status %d)\n%s: the log is %s\n' "$me" "$what" "$status" "$me" "$log" >&2
    fi
    return "$status"
}

# step WHAT LOGNAME COMMAND...: the same, and ends the script if the command fails.
step() {
    try_step "$@" || exit 1
}

# --------------------------------------------------------------------------------------------------- build

# A cache from a copy of the tree elsewhere, another generator or other options would be a different build.
cache_is_ours() {
    local cache=$build/CMakeCache.txt
    grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache" &&
        grep -qxF "CMAKE_CACHEFILE_DIR:INTERNAL=$build" "$cache" &&
        grep -qxF "CMAKE_GENERATOR:INTERNAL=Ninja" "$cache" &&
        ! grep -qE '^PEERWIN_SANITIZE:[A-Z]+=.' "$cache" &&
        ! grep -qE '^(PEERWIN_EXAMPLES|PEERWIN_TOOLS|BUILD_TESTING):[A-Z]+=(OFF|0|NO|FALSE)$' "$cache"
}

configure() {
    if [ -e "$build/CMakeCache.txt" ] && cache_is_ours; then
        cmake -S "$root" --preset release && return 0
        echo "That did not work; once more without what the last configuration left."
    fi
    rm -rf -- "$build/build.ninja" "$build/.ninja_deps" "$build/.ninja_log"
    cmake -S "$root" --preset release --fresh
}

# The tree has to be writable, by us, before anything is begun.
check_writable() {
    local dir
    for dir in "$root" "$build" "$root/out" "$logs"; do
        [ ! -e "$dir" ] || [ -w "$dir" ] ||
            die "cannot write in $dir as $(id -un); nothing was done" \
                "remove it, or use a copy of the tree that belongs to you"
    done
}

# prepare FINDER [COMMANDS...]: packages, configuration, build. FINDER prints the names of the packages that are missing.
prepare() {
    local packages
    mapfile -t packages < <("$1")
    if [ ${#packages[@]} -gt 0 ] && ! may_install; then
        tell_what_to_install "${packages[@]}" >&2
        exit 1
    fi
    check_writable
    [ ${#packages[@]} -eq 0 ] || install_packages "$1" "${packages[@]}"
    offer_packages "${@:2}"
    suit_machine
    step "configuring" configure configure
    # What the configuration leaves out, it says.
    sed -n -e 's/^-- peerwin: /    /p' -e 's/^-- \(.* left out.*\)/    \1/p' "$logs/configure.log"
    step "building" build cmake --build "$build"
}

# ----------------------------------------------------------------------------------------------------- mpi

# Open MPI asks root to confirm. Others are not asked, and nothing is set for them.
if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# Bare roots lack things that MPI asks for. Without the machine's own name in /etc/hosts every mpirun asks name servers:
# let it wait for one second only. Without /sys, hwloc complains on every rank about what does not matter here.
suit_machine() {
    if ! timeout 2 getent hosts localhost >/dev/null 2>&1 || ! timeout 2 getent hosts "$HOSTNAME" >/dev/null 2>&1; then
        export RES_OPTIONS="timeout:1 attempts:1"
        say "note: /etc/hosts lacks localhost or $HOSTNAME, so every start of mpirun may take a second longer"
    fi
    [ -d /sys/devices/system/cpu ] || export HWLOC_HIDE_ERRORS=2
}

# mpi RANKS PROGRAM ARGUMENTS...: by the MPI that the build has found; more ranks than cores are fine.
mpi() {
    local ranks=$1 launcher flags=()
    shift
    launcher=$(sed -n 's/^MPIEXEC_EXECUTABLE:[A-Z]*=//p' "$build/CMakeCache.txt")
    if "$launcher" --version 2>/dev/null | grep -e 'Open MPI' -e OpenRTE >/dev/null; then
        flags=(--oversubscribe --bind-to none --timeout 300)
    fi
    "$launcher" "${flags[@]}" -n "$ranks" "$@" </dev/null
}

# Solves the benchmark. The program names the picture, and ends with the computed and the published value.
run_demo() {
    local picture=$root/out/heat.png log=$logs/demo.log status=0
    rm -f -- "$picture"
    say "heat conduction, 250 x 250 cells, 10 steps, 4 ranks that share memory windows"
    mpi 4 "$build/bin/heat" -n 250 --steps 10 --image "$picture" 2>&1 | tee "$log" || status=$?
    if [ "$status" -ne 0 ] || ! tail -n 1 "$log" | grep 'PASSED$' >/dev/null || [ ! -s "$picture" ]; then
        die "FAILED: the demo (exit status $status)" "the log is $log"
    fi
}

# run_tests BUILD LOGNAME CTEST-ARGUMENTS...: shows ctest's output, and its summary once more as the last line.
run_tests() {
    local dir=$1 log=$logs/$2.log status=0
    shift 2
    mkdir -p -- "$logs"
    # What the user has set for peerwin is not what the tests test.
    # Jobs wait more than they compute, so there are more of them than processors; few of these want a few more, since
    # beside another program's work it is by their number that jobs get their share.
    (unset "${!PEERWIN_@}" &&
        ctest --test-dir "$dir" --output-on-failure --no-tests=error -j "$((3 * $(nproc) + 4))" "$@") \
        2>&1 </dev/null | tee "$log" || status=$?
    [ "$status" -eq 0 ] || printf '%s: FAILED: the tests\n%s: the log is %s\n' "$me" "$me" "$log" >&2
    grep 'tests passed,.* failed out of' "$log" || true
    return "$status"
}
