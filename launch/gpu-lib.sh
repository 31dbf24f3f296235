# shellcheck shell=bash
# Copyright (c) 2026, the peerwin contributors.
# SPDX-License-Identifier: BSD-3-Clause
#
# What launch/gpu-check and launch/two-gpu-check share: parts with time limits and a table at the end, an MPS daemon of
# their own, the build. Sourced after lib.sh, not run. The script sets total, gpus, all_parts, parts, build and logs,
# defines usage and run_part, and ends with run_all "$@". All that it prints is in output.txt among the logs, too.

# shellcheck disable=SC2034,SC2154 # what the scripts set and use, and what lib.sh does

scratch=     # private directories: of the MPS daemon, and of none; the writer's pipe
daemon=      # its pid while it runs, or "unknown"
child=       # the limited command that is running
mps_problem= # why there is no MPS
writer=      # of output.txt
ahead=       # builds NVSHMEM's side beside the first parts
rows=()      # of the table: result|seconds|what|note
failures=0

bad_usage() {
    printf '%s: %s (see launch/%s --help)\n' "$me" "$1" "$me" >&2
    exit 2
}

parse_parts() {
    local part
    IFS=, read -ra parts <<<"$1"
    [ ${#parts[@]} -gt 0 ] || bad_usage "--only needs a part"
    for part in "${parts[@]}"; do
        [[ " ${all_parts[*]} " == *" $part "* ]] || bad_usage "there is no part '$part'"
    done
}

parse() {
    while [ $# -gt 0 ]; do
        case $1 in
        --help | -h)
            usage
            exit 0
            ;;
        --logs | --build | --only | --seconds)
            [ $# -ge 2 ] || bad_usage "$1 needs a value"
            case $1 in
            --seconds)
                [[ $2 =~ ^[1-9][0-9]{0,4}$ ]] || bad_usage "--seconds $2: a number is wanted"
                total=$2
                ;;
            --logs) logs=$(realpath -m -- "$2") ;;
            --build) build=$(realpath -m -- "$2") ;;
            --only) parse_parts "$2" ;;
            esac
            shift 2
            ;;
        *) bad_usage "unexpected argument '$1'" ;;
        esac
    done
}

# ------------------------------------------------------------------------------------------------- the end

# Ends the command that is running, the daemon and what they left, however the script ends; shows what there is to show.
finish() {
    local status=$?
    trap '' INT TERM HUP
    # A signal in the middle of a part comes while the output is that part's log.
    if [ -n "$writer" ] && kill -0 "$writer" 2>/dev/null; then
        exec >"$scratch/output" 2>&1
    fi
    stop_child
    stop_reporter
    [ -z "$ahead" ] || kill "$ahead" 2>/dev/null || true
    stop_mps
    [ ${#rows[@]} -eq 0 ] || show_table | tee "$logs/table.txt"
    stop_writer
    [ -z "$scratch" ] || rm -rf -- "$scratch"
    exit "$status"
}

# What is printed from now on goes to output.txt, too. The writer outlives the signals that end this script.
start_writer() {
    mkfifo -- "$scratch/output"
    (trap '' INT TERM HUP && exec tee "$logs/output.txt" <"$scratch/output") &
    writer=$!
    exec >"$scratch/output" 2>&1
}

# It ends when nobody has its pipe any more. A program that was left behind may have it for ever.
stop_writer() {
    local i
    [ -n "$writer" ] || return 0
    exec >/dev/null 2>&1
    for ((i = 0; i < 50; i++)); do
        kill -0 "$writer" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -KILL "$writer" 2>/dev/null || true
}

stop_child() {
    [ -n "$child" ] || return 0
    kill "$child" 2>/dev/null || true # timeout(1) hands it on to all that it has started
    wait "$child" 2>/dev/null || true
    child=
}

# result WHAT RESULT SECONDS NOTE
result() {
    rows+=("$2|$3|$1|$4")
    [ "$2" != FAILED ] || failures=$((failures + 1))
}

show_table() {
    local row outcome seconds what note
    printf '\n%-8s %7s  %-42s %s\n' result seconds part note
    for row in "${rows[@]}"; do
        IFS='|' read -r outcome seconds what note <<<"$row"
        printf '%-8s %7s  %-42s %s\n' "$outcome" "$seconds" "$what" "$note"
    done
    printf '\n%s: %d s in all, %d failed; the logs are in %s\n' "$me" "$SECONDS" "$failures" "$logs"
}

# -------------------------------------------------------------------------------------------- limited steps

# limited SECONDS COMMAND...: in the background, so that a signal ends the wait at once and finish() what is running.
limited() {
    local seconds=$1 status=0
    shift
    timeout --kill-after=10 "$seconds" "$@" &
    child=$!
    wait "$child" || status=$?
    child=
    return "$status"
}

time_left() {
    echo $((total - SECONDS))
}

# Something worth knowing from the log of a part: ctest's summary, memcheck's, times and results of the examples, else a
# message.
note_from() {
    {
        grep -o '[0-9]*% tests passed,.*' "$1" ||
            grep -o -E 'ERROR SUMMARY.*|No tests were found' "$1" | sort | uniq -c ||
            grep -E '^heat: ([0-9]+ iterations|result)' "$1" | sed 's/^heat: //; s/, published .*: /: /' ||
            sed -n -E 's/^stencil3d: ([a-z]+): error (.*): ([A-Z]+).*/\1 \3, error \2/p' "$1" | grep . ||
            grep -m 1 -E '^(heat|stencil3d|peerwin-[a-z]*): ' "$1" ||
            tail -n 1 "$1"
    } | sed 's/^ *//; s/|/ /g' | paste -sd ';' | cut -c 1-170
}

# failure_from LOG: the first line that sounds like the reason, or what it ends with.
failure_from() {
    awk '
        !/^\[/ && tolower($0) ~ /fail|error|wrong|cannot|refused/ { print; found = 1; exit }
        !/^[-[:space:]]*$/ { last = $0 }
        END { if (!found) print last }' "$1" | tr '|' ' ' | cut -c 1-170
}

# part WHAT LOGNAME LIMIT COMMAND...: a row of the table.
part() {
    local what=$1 log=$2 limit=$3 begin=$SECONDS status=0 note cut=
    shift 3
    if [ "$(time_left)" -lt 10 ]; then
        rm -f -- "$logs/$log.log" # of an earlier run
        result "$what" "not run" 0 "the $total seconds were used up"
        return
    fi
    if [ "$limit" -gt "$(time_left)" ]; then
        limit=$(time_left)
        cut=yes
    fi
    try_step "$what" "$log" limited "$limit" "$@" || status=$?
    note=$(note_from "$logs/$log.log")
    case $status in
    0) result "$what" passed $((SECONDS - begin)) "$note" ;;
    124 | 137)
        if [ -n "$cut" ] && grep -q -F '***Failed' "$logs/$log.log"; then
            result "$what" FAILED $((SECONDS - begin)) "and not to its end: the $total seconds were used up"
        elif [ -n "$cut" ]; then
            result "$what" "not run" $((SECONDS - begin)) "not to its end: the $total seconds were used up"
        else
            result "$what" FAILED $((SECONDS - begin)) "ran into its limit of $limit s; $note"
        fi
        ;;
    *)
        if grep -q 'Device not supported' "$logs/$log.log"; then
            result "$what" "not run" $((SECONDS - begin)) "compute-sanitizer does not support this device or machine"
        else
            grep -q -E 'tests passed|ERROR SUMMARY' "$logs/$log.log" || note=$(failure_from "$logs/$log.log")
            result "$what" FAILED $((SECONDS - begin)) "exit status $status; $note"
        fi
        ;;
    esac
}

# ----------------------------------------------------------------------------------------------------- MPS

mps_control() {
    env "${mps[@]}" timeout --kill-after=5 20 nvidia-cuda-mps-control "$@"
}

# Starts the daemon once; false, with the reason in mps_problem, if it cannot be had.
start_mps() {
    local pid_file=$scratch/mps/nvidia-cuda-mps-control.pid
    [ -z "$daemon" ] || return 0
    [ -z "$mps_problem" ] || return 1
    if ! have nvidia-cuda-mps-control; then
        mps_problem="there is no nvidia-cuda-mps-control"
        return 1
    fi
    mkdir -p -- "$logs/mps"
    if ! mps_control -d >"$logs/mps-start.log" 2>&1 </dev/null; then
        mps_problem="the MPS daemon did not start: see $logs/mps-start.log"
        return 1
    fi
    daemon=$(cat "$pid_file" 2>/dev/null || echo unknown)
}

# Asks the daemon to end; what does not follow within ten seconds is ended.
stop_mps() {
    local i
    [ -n "$daemon" ] || return 0
    echo quit | mps_control >/dev/null 2>&1 || true
    [ "$daemon" != unknown ] || return 0
    for ((i = 0; i < 20; i++)); do
        kill -0 "$daemon" 2>/dev/null || break
        sleep 0.5
    done
    kill "$daemon" 2>/dev/null || true
    daemon=
}

# --------------------------------------------------------------------------------------------------- parts

# stencil3d_times LOGNAME: a row of the times of each way, and how the exchanges compare.
stencil3d_times() {
    local way text
    [ -s "$logs/$1.log" ] || return 0
    while IFS='|' read -r way text; do
        result "  $way" figures "" "$text"
    done < <(awk '
        / us a step/ {
            way = $2
            sub(/:$/, "", way)
            text = $0
            sub(/^stencil3d: [a-z]+: /, "", text)
            print way "|" text
            match(text, /exchange alone [0-9.]+/)
            alone[++n] = substr(text, RSTART + 15, RLENGTH - 15)
        }
        END { if (n == 2 && alone[2] > 0) printf "ratio|exchange alone %.3f of that by messages\n", alone[1] / alone[2] }' \
        "$logs/$1.log")
}

# gpu_tests WHAT LOGNAME EXCLUDED PREFIX...
gpu_tests() {
    # What the user has set for peerwin is not what the tests test.
    part "$1" "$2" 240 env "${clean[@]}" "${@:4}" ctest --test-dir "$build" -L '^gpu$' -E "$3" --output-on-failure \
        --no-tests=error -j 8
}

# sync_tests WHAT LOGNAME SECONDS FILTER EXCLUDED PREFIX...: one after the other, and what they have measured, a line
# each.
sync_tests() {
    part "$1" "$2" "$3" env "${clean[@]}" "${@:6}" ctest --test-dir "$build" -L '^gpu-sync$' -R "$4" -E "$5" -V \
        --no-tests=error
    [ ! -s "$logs/$2.log" ] ||
        sed -n -E 's/^[0-9]+: ((litmus|soak|stuck) )/\1/p' "$logs/$2.log" | tee "$logs/$2-figures.txt"
}

# NVSHMEM's side is built while other parts run: its jobs, which come to nothing here, would find it built later.
build_ahead() {
    timeout --kill-after=10 120 "$build/bin/peerwin-bench" --peers --mpirun false --repeats 1 --ranks 2 --only start \
        --logs "$logs/peers" >"$logs/peers-build.log" 2>&1 </dev/null &
    ahead=$!
}

wait_ahead() {
    [ -z "$ahead" ] || wait "$ahead" || true
    ahead=
}

# peers WHAT LIMIT OPTIONS PREFIX...: peerwin-bench starts the jobs itself, and keeps the time.
peers() {
    local what=$1 limit=$2 options files=(--csv "$logs/peers.csv" --json "$logs/peers.json")
    read -ra options <<<"$3"
    ! have gnuplot || files+=(--plot "$logs/peers.svg")
    part "$what" peers "$limit" env "${clean[@]}" "${@:4}" "$build/bin/peerwin-bench" --peers "${options[@]}" \
        --logs "$logs/peers" "${files[@]}"
}

# promises WHAT FILE: a row of how many are kept, and which are not.
promises() {
    result "  $1" figures "" "$(awk '
        /^ *PASS/ { kept++ } /^ *FAIL/ { broken++ } /^ *no figure/ { none++ }
        END { printf "%d kept, %d broken, %d without a figure", kept, broken, none }' "$2")"
}

# --------------------------------------------------------------------------------------------------- build

# The architectures of the GPUs that are here, as CMake wants them: 90, or 80;90. Nothing if that is not known.
architectures() {
    local list
    list=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d '. ' | sort -u | paste -sd ';') ||
        true
    [[ ! $list =~ ^[0-9]+(;[0-9]+)*$ ]] || printf '%s\n' "$list"
}

# The build needs no package that is not there already, except an MPI and the CUDA headers: without cmocka it leaves the
# unit tests out, which need no GPU. Kernels are compiled for the GPUs that are here.
build_all() {
    local status=0 begin=$SECONDS limit
    suit_machine
    try_step "configuring" configure limited 60 cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DPEERWIN_CUDA=ON -DPEERWIN_TEST_GPU=ON -DPEERWIN_CUDA_ARCHITECTURES="$(architectures)" || return 1
    limit=$(time_left)
    try_step "building" build limited $((limit < 240 ? limit : 240)) cmake --build "$build" -- -k 0 || status=$?
    [ -x "$build/bin/heat" ] && [ -x "$build/bin/peerwin-info" ] || return 1
    if [ "$status" -eq 0 ]; then
        result build passed $((SECONDS - begin)) "$(sed -n 's/^-- \(cmocka was not found.*\)/\1/p' "$logs/configure.log")"
    else
        say "going on with what was built"
        result build partly $((SECONDS - begin)) "$(grep -c '^FAILED' "$logs/build.log") steps failed: see build.log"
    fi
}

find_gpu() {
    have nvidia-smi || die "there is no nvidia-smi: this machine has no NVIDIA GPU; nothing was done"
    mkdir -p -- "$logs"
    limited 30 nvidia-smi -L >"$logs/gpus.log" 2>&1 || die "nvidia-smi finds no GPU" "the log is $logs/gpus.log"
    start_writer
    sed "s/^/$me: /" "$logs/gpus.log"
    [ "$(grep -c '^GPU ' "$logs/gpus.log")" -ge "$gpus" ] || die "$gpus GPUs are wanted; nothing was done"
}

find_mpirun() {
    mpirun=("$(sed -n 's/^MPIEXEC_EXECUTABLE:[A-Z]*=//p' "$build/CMakeCache.txt")")
    if "${mpirun[0]}" --version 2>/dev/null | grep -e 'Open MPI' -e OpenRTE >/dev/null; then
        mpirun+=(--oversubscribe --bind-to none)
    fi
}

# -------------------------------------------------------------------------------------------------- course

# run_all ARGUMENTS...: the exit status is 0 if nothing failed.
run_all() {
    local name
    parse "$@"
    trap finish EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    # -u NAME for everything that is set for peerwin.
    clean=()
    for name in "${!PEERWIN_@}"; do
        clean+=(-u "$name")
    done
    scratch=$(mktemp -d -t "peerwin-$me.XXXXXX")
    find_gpu
    mkdir -- "$scratch/none" "$scratch/mps"
    # Programs find no daemon in an empty directory: the one of the machine, if there is one, stays out of it.
    none=(CUDA_MPS_PIPE_DIRECTORY="$scratch/none")
    mps=(CUDA_MPS_PIPE_DIRECTORY="$scratch/mps" CUDA_MPS_LOG_DIRECTORY="$logs/mps")
    build_all || die "the build failed" "the logs are in $logs"
    find_mpirun
    [[ " ${parts[*]} " != *" peers "* ]] || build_ahead
    for name in "${parts[@]}"; do
        run_part "$name"
    done
    [ "$failures" -eq 0 ]
}
