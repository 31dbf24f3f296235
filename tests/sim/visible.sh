#!/bin/sh
# Copyright (c) 2026, the peerwin contributors.
# SPDX-License-Identifier: BSD-3-Clause
#
# visible.sh index|uuid INFO PROGRAM ARGUMENT...: a launcher's wrapper that shows each rank of a node one device, its
# own. INFO is peerwin-info, which lists the devices and their UUIDs; it is no rank of the job, so it sees nothing of it.
# Without a launcher Open MPI starts a daemon, and refuses to where there is no ssh, which it would not use.
set -eu
how=$1 info=$2
shift 2
device=$OMPI_COMM_WORLD_LOCAL_RANK
if [ "$how" = uuid ]; then
  device=$(env -i PATH="$PATH" LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}" \
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=sh \
    PEERWIN_CUDA_LIBRARY="${PEERWIN_CUDA_LIBRARY-}" SIMCUDA_TOPOLOGY="${SIMCUDA_TOPOLOGY-}" \
    ${CUDA_MPS_PIPE_DIRECTORY+CUDA_MPS_PIPE_DIRECTORY="$CUDA_MPS_PIPE_DIRECTORY"} "$info" |
    grep -o 'GPU-[0-9a-f-]*' | awk '!seen[$0]++' | sed -n "$((device + 1))p")
  [ -n "$device" ] || { echo "visible.sh: no UUID for rank $OMPI_COMM_WORLD_LOCAL_RANK" >&2; exit 1; }
fi
CUDA_VISIBLE_DEVICES=$device exec "$@"
