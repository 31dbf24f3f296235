#!/bin/sh
# Copyright (c) 2026, the peerwin contributors.
# SPDX-License-Identifier: BSD-3-Clause
#
# peerwin-bench beside a program that stands in for NVSHMEM's and a library that does for NCCL's: all columns, the ratios,
# the limits, the files, the charts; and what is said when a side fails, when nothing is installed, and when the command
# line is wrong.
#   test_peers.sh PEERWIN_BENCH "MPIRUN [OPTION...]" NCCL_LIBRARY
set -eu
bench=$1
mpirun=$2
nccl=$3
dir=$(mktemp -d)
trap 'rm -rf -- "$dir"' EXIT

fail() {
    echo "test_peers.sh: $*" >&2
    exit 1
}

# make_peer NAME COMMANDS: what it writes is rank 0's, whatever the MPI.
make_peer() {
    cat >"$dir/$1" <<END
#!/bin/sh
[ "\${OMPI_COMM_WORLD_RANK:-\${PMI_RANK:-0}}" = 0 ] || exit 0
$2
END
    chmod +x "$dir/$1"
}

# shellcheck disable=SC2016 # it is the script that expands them
make_peer good 'printf "%s\n" "version stand-in 1" "row start 268435456 us 1e9" "row stream-barrier 0 us 1e-3" \
    "row stream-put 8 us 1000" "row only-theirs 8 us 5" done >"$1"'
# shellcheck disable=SC2016
make_peer bad 'printf "%s\n" "row stream-put 8 us 1e-3" "at stream-put 65536" >"$1"; echo "it broke" >&2; exit 3'

# run STATUS OPTIONS...: with its output in $dir/out and $dir/err.
run() {
    wanted=$1
    shift
    status=0
    "$bench" --peers --quick --ranks 2 --mpirun "$mpirun" --logs "$dir/logs" --nccl none "$@" \
        >"$dir/out" 2>"$dir/err" || status=$?
    [ "$status" -eq "$wanted" ] || fail "$*: status $status, not $wanted: $(cat "$dir/out" "$dir/err")"
}

says() {
    grep -q -e "$1" "$dir/out" "$dir/err" || fail "nothing says '$1': $(cat "$dir/out" "$dir/err")"
}

svg='' png=''
if command -v gnuplot >/dev/null; then
    svg=--plot=$dir/it\'s.svg png=--plot=$dir/it.png
fi

# The promise of a start is easily kept beside the stand-in, that of the stream barrier not.
run 0 --repeats 2 --nvshmem "$dir/good" --csv "$dir/csv" --json "$dir/json" ${svg:+"$svg"}
says '^2  *start  *256 MiB  us  *[0-9.]* ([0-9.]*\.\.[0-9.]*)  *1000000000 ('
for row in put-1 put-16 get-1 put-signal message fetch-add barrier allreduce; do
    says "^2  *$row  .* [0-9.]* ([0-9.]*\.\.[0-9.]*)  *- *-\$"
done
for row in halo-2d halo-2d-graph halo-2d-copy halo-2d-engine halo-2d-mpi; do
    says "^2  *$row  *16 KiB  us  *[0-9.]* ("
done
says '^2  *stream-reduce  *8 B .* -  *not installed$'
says '^peerwin has no figure for: peer-copy, 2 ranks: .*two devices'
says '^2  *only-theirs  *8 B  us  *- *5\.000 ('
says '^2  *sliced-stream-barrier .* - *-$'
says '^PASS .*start, 256 MiB, 2 ranks  *at most 0.2 x NVSHMEM'
says '^FAIL .*stream-barrier, 2 ranks  *at most 0.65 x NVSHMEM'
says '^[A-Z]*  *halo-2d, 16 KiB, 2 ranks  *at most 0.1 x halo-2d-mpi  *[0-9]'
says '^no figure  *put-16, 256 MiB, 2 ranks'
says '^nvshmem: stand-in 1$'
awk -F, '$1 == "stream-put" && $2 == 8 && $3 == 2 { seen[$4] = $8; ratio[$4] = $13; runs[$4] = $6 }
    END { r = seen["peerwin"] / 1000; exit !(seen["NVSHMEM"] == 1000 && runs["peerwin"] == 2 && r > 0 &&
        ratio["peerwin"] / r < 1.001 && ratio["peerwin"] / r > 0.999) }' "$dir/csv" || fail "odd figures: $(cat "$dir/csv")"
grep -q '"of": "start, 256 MiB, 2 ranks", "limit": "at most 0.2 x NVSHMEM", "measured": [0-9.e-]*, "outcome": "PASS"' \
    "$dir/json" || fail "no limit in the JSON: $(cat "$dir/json")"
if command -v python3 >/dev/null; then
    python3 -m json.tool "$dir/json" >"$dir/tidy" || fail "no JSON: $(cat "$dir/json")"
fi
if [ -n "$svg" ]; then
    grep -q '<svg' "$dir/it's.svg" || fail "no picture: $(cat "$dir/err")"
    grep -q 'NVSHMEM' "$dir/it's.svg" || fail "a picture without NVSHMEM"
fi
for log in peerwin-2 nvshmem-2 peerwin-2-sliced; do
    [ "$(grep -c 'exit status 0$' "$dir/logs/$log.log")" -eq 2 ] || fail "$log.log is not that of two runs"
done
grep -q '^CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50 .* NVSHMEM' "$dir/logs/nvshmem-2.log" || fail "thread shares are not halved"

# NCCL, where each rank has a GPU of its own: its rows beside ours, and a reason where it has none. Other promises.
two() {
    CUDA_VISIBLE_DEVICES=0,1 SIMCUDA_TOPOLOGY=nvswitch:2 run "$@"
}
two 0 --repeats 1 --only stream-signal,stream-reduce,graph-reduce,halo-2d,stream-put,peer-copy --nvshmem "$dir/good" --nccl "$nccl" \
    --csv "$dir/csv"
says '^nccl: NCCL 2.99.99$'
says '^nccl on CPUs: 2 ranks: [0-9]'
says '^nccl has no figure for: graph-reduce, 2 ranks: .*ncclAllReduce'
for row in 'stream-signal  *8 B' 'stream-signal  *1 MiB' 'stream-reduce  *8 B' 'halo-2d  *16 KiB'; do
    says "^2  *$row  us  *[0-9.]* ([0-9.]*\.\.[0-9.]*)  *-  *-  *[0-9.]* ([0-9.]*\.\.[0-9.]*)  *[0-9.]* ("
done
says '^2  *graph-reduce .* -  *no figure$'
says '^2  *stream-put  *8 B .* ([0-9.]*\.\.[0-9.]*)$'
says 'stream-reduce, 8 B, 2 ranks  *at most 5 us'
says '^[A-Z]*  *stream-put, 64 KiB, 2 ranks  *at most 1.1 x peer-copy  *[0-9]'
awk -F, '$1 == "stream-signal" { seen[$4]++ } END { exit !(seen["peerwin"] == 2 && seen["NCCL"] == 2) }' "$dir/csv" ||
    fail "odd figures: $(cat "$dir/csv")"

# A side that fails: what it had written counts, what it ended in is left out, its turns end, and the rest goes on.
run 0 --repeats 4 --only stream-put --nvshmem "$dir/bad" ${png:+"$png"}
says 'it broke$' # the end of the log is shown
says 'nvshmem on 2 ranks: exit status .*; see .*/logs/nvshmem-2.log$'
says '^2  *stream-put  *8 B .* 0\.0010 ('
[ "$(grep -c 'it broke' "$dir/logs/nvshmem-2.log")" -eq 3 ] || fail "not three attempts: $(cat "$dir/logs/nvshmem-2.log")"
says 'nvshmem on 2 ranks ended in stream-put, which is left out from now on$'
grep -q ' PEER_WORKS=0 ' "$dir/logs/nvshmem-2.log" || fail "it is not left out: $(cat "$dir/logs/nvshmem-2.log")"
[ "$(grep -c 'exit status 0$' "$dir/logs/peerwin-2.log")" -eq 7 ] || fail "peerwin's turns ended too"
[ -z "$png" ] || [ -s "$dir/it.png" ] || fail "no picture: $(cat "$dir/err")"

# A promise that is not kept, or cannot be told, makes the exit status 1 if that is asked for.
run 1 --repeats 1 --only stream-signal --limits --nvshmem "$dir/good"
run 1 --repeats 1 --only stream-put --nvshmem "$dir/good" --mpirun false
says 'peerwin on 2 ranks: exit status 1'

# Processors: what a job is given, it has. (Where there are too few cores, it is given none.)
run 0 --repeats 1 --only stream-put,stream-signal --nccl "$nccl" --place spread --nvshmem "$dir/good"
says '^peerwin on CPUs: 2 ranks: [0-9]'
says '^2  *stream-signal  *8 B .* -  *no: ranks share a GPU$'
cpus=$(sed -n 's/.* PEER_CPUS=\([0-9,;]*\) .*/\1/p' "$dir/logs/peerwin-2.log" | tail -n 1)
[ -z "$cpus" ] || says "^peerwin on CPUs: 2 ranks: ${cpus%%[,;]*}[-,;]"

# Time that is up.
run 0 --repeats 9 --only stream-put --seconds 1 --nvshmem "$dir/good"
says 'peerwin-bench: [1-8] rounds of 9: '

# No gnuplot: what to install.
mkdir "$dir/bin"
status=0
PATH=$dir/bin "$bench" --peers --only stream-put --nvshmem "$dir/good" --logs "$dir/logs" --plot "$dir/none.svg" \
    >"$dir/out" 2>&1 || status=$?
[ "$status" -eq 2 ] || fail "without gnuplot: status $status"
says 'gnuplot, and there is none; install it'
[ ! -e "$dir/none.svg" ] || fail "a picture without gnuplot"

# Nothing installed: peerwin alone.
for name in python3 python; do
    printf '#!/bin/sh\nexit 1\n' >"$dir/bin/$name"
    chmod +x "$dir/bin/$name"
done
PATH=$dir/bin:$PATH NVSHMEM_HOME='' run 0 --repeats 1 --only stream-put
if ! grep -q '^NVSHMEM: in ' "$dir/out"; then
    says '^NVSHMEM: not found .*peerwin alone'
    says '^2  *stream-put  *8 B  us .* - *-$'
fi

# wrong OPTIONS...: one message, status 2.
wrong() {
    status=0
    "$bench" "$@" >"$dir/out" 2>&1 || status=$?
    [ "$status" -eq 2 ] || fail "$*: status $status: $(cat "$dir/out")"
    [ "$(grep -c '^peerwin-bench: ' "$dir/out")" -eq 1 ] || fail "$*: not one message: $(cat "$dir/out")"
}
wrong --peers --ranks 1
wrong --peers --ranks 2,
wrong --peers --only no-such-row
wrong --peers --repeats 100
wrong --peers --seconds 0
wrong --peers --kinds fd
wrong --peers --one-side x
wrong --peers --plot x.gif
wrong --peers --place everywhere
wrong --peers --block 2,8
OMPI_COMM_WORLD_SIZE=2 wrong --peers
