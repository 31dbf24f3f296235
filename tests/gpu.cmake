# The tests of CUDA space on a real GPU: ranks share the one that there is. Registered only where a machine has one.
#
#   peerwin_gpu_test(<kind> <program> RANKS <n>... [NAME <name>] [ARGS <case>...] [ENV <VAR=value>...])
#     gpu.<kind>.<program>.n<ranks>, as sim.<kind>.<program>.n<ranks> on the driver of this machine.
option(PEERWIN_TEST_GPU "Register the tests that need a GPU (label gpu)" OFF)
if(NOT PEERWIN_TEST_GPU OR NOT TARGET test_attach)
  return()
endif()

function(peerwin_gpu_test kind program)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "NAME" "RANKS;ARGS;ENV")
  if(NOT arg_NAME)
    set(arg_NAME gpu.${kind}.${program})
  endif()
  set(env PWTEST_SPACE=cuda ${arg_ENV})
  if(NOT kind STREQUAL any)
    list(APPEND env PEERWIN_HANDLES=${kind})
  endif()
  peerwin_mpi_test(NAME ${arg_NAME} PROGRAM test_${program} RANKS ${arg_RANKS} ARGS ${arg_ARGS} ENV ${env}
    LABELS gpu TIMEOUT 120)
endfunction()

foreach(program transfer box)
  foreach(kind fd legacy host)
    peerwin_gpu_test(${kind} ${program} RANKS 2 3 4)
  endforeach()
endforeach()
# Windows by the hundred look at the memory of the whole device: jobs of their own, 3500 cycles in all.
set(cycles many_cycles_leave_descriptors_mappings_and_memory_flat)
foreach(program context window sync cases)
  set(args "")
  if(program STREQUAL window)
    set(args ARGS !${cycles})
  endif()
  peerwin_gpu_test(fd ${program} RANKS 2 4 ${args})
  peerwin_gpu_test(legacy ${program} RANKS 2 ${args})
  peerwin_gpu_test(host ${program} RANKS 2 ${args})
endforeach()
peerwin_gpu_test(fd window NAME gpu.fd.cycles RANKS 2 4 ARGS ${cycles})
peerwin_gpu_test(legacy window NAME gpu.legacy.cycles RANKS 2 ARGS ${cycles})
peerwin_gpu_test(host window NAME gpu.host.cycles RANKS 2 ARGS ${cycles})
peerwin_gpu_test(any window NAME gpu.any.cycles RANKS 3 ARGS ${cycles})
# Barriers of each kind, and all-reduces: by kernels that wait under MPS, in parts elsewhere.
foreach(kind event memop)
  peerwin_gpu_test(any sync NAME gpu.${kind}.sync RANKS 2 4 ENV PEERWIN_BARRIER=${kind})
endforeach()
peerwin_gpu_test(any sync NAME gpu.kernel.sync RANKS 2 ENV PEERWIN_BARRIER=kernel ARGS
  nobody_passes_a_barrier_early a_late_rank_is_named_and_the_barrier_can_be_repeated)
peerwin_gpu_test(any allreduce RANKS 2 4)
peerwin_gpu_test(any captures RANKS 2 ARGS !a_plan_that_fails_late_leaves_a_capture_valid
  !every_failure_in_making_leaves_a_capture_valid) # those need a driver that fails when it is told to
# What the library relies on beside captures, and was not recorded yet.
if(TARGET conformance)
  set(simcuda ${PROJECT_SOURCE_DIR}/tests/simcuda)
  add_test(NAME gpu.conformance COMMAND sh ${simcuda}/compare.sh $<TARGET_FILE:conformance> libcuda.so.1
    ${simcuda}/expected/documented.txt ${simcuda}/expected/differences.txt capture_modes capture_joined
    capture_joined_more context_event capture_making capture_opening)
  set_tests_properties(gpu.conformance PROPERTIES LABELS gpu TIMEOUT 120)
endif()
foreach(program sync misuse process)
  peerwin_gpu_test(any ${program} RANKS 3)
endforeach()
peerwin_gpu_test(any window RANKS 3 ARGS !${cycles})
peerwin_gpu_test(host bound RANKS 2 ARGS !a_rank_that_is_alone_on_its_machine_has_helpers_there)
# Halo plans.
foreach(program halo halo_steps halo_streams)
  peerwin_gpu_test(any ${program} RANKS 2 4)
endforeach()
peerwin_gpu_test(any halo RANKS 1 3 8)
peerwin_gpu_test(legacy halo RANKS 2)
peerwin_gpu_test(any halo_misuse RANKS 2)
# The same with all thin faces packed, as they are between devices.
function(peerwin_gpu_packed program)
  peerwin_gpu_test(any ${program} NAME gpu.packed.${program} ${ARGN} ENV PEERWIN_HALO_PACK=always)
endfunction()
peerwin_gpu_packed(halo RANKS 2 4)
peerwin_gpu_packed(halo_streams RANKS 2 4)
peerwin_gpu_packed(halo_steps RANKS 2 ARGS ghosts_of_thin_rows_stay_too two_buffers_by_turns_exchange_without_barriers)
peerwin_gpu_packed(halo_cases RANKS 2 ARGS c18_large_thin_faces_are_exact)
# Cases from the field, by name, by calls and by halo plans.
function(peerwin_gpu_case name program case)
  peerwin_gpu_test(any ${program} NAME gpu.case.${name} ARGS ${case} ${ARGN})
endfunction()
set(walls c6_ghosts_at_the_walls_keep_their_values)
set(itself c13_a_process_can_be_its_own_neighbour)
peerwin_gpu_case(C6 cases ${walls} RANKS 3)
peerwin_gpu_case(C6_by_plan halo_cases ${walls} RANKS 3)
peerwin_gpu_case(C7 cases c7_empty_parts_are_legal_and_their_signals_arrive RANKS 4)
peerwin_gpu_case(C7_by_plan halo_cases c7_empty_parts_are_legal_and_are_waited_for RANKS 4)
peerwin_gpu_case(C13 cases ${itself} RANKS 1)
peerwin_gpu_case(C13_by_plan halo_cases ${itself} RANKS 1)
peerwin_gpu_case(C13_attached attach c13_the_own_pointer_is_the_programs_and_not_opened RANKS 1)
peerwin_gpu_case(C18 halo_cases c18_large_thin_faces_are_exact RANKS 2)
peerwin_gpu_case(regrid halo_cases regrid_2000_times_leaves_memory_flat RANKS 2)
peerwin_gpu_test(any attach RANKS 2 3 4)
peerwin_gpu_test(any device RANKS 2 3 4)
peerwin_gpu_test(host device RANKS 2)
peerwin_gpu_test(any placement RANKS 2 ARGS
  c11_ranks_that_share_a_device_are_told_so_once
  c19_fabric_handles_that_are_refused_are_replaced_and_the_log_names_imex
  fabric_handles_alone_fail_loudly_without_an_imex_channel
  c20_a_wait_before_the_peers_first_put_blocks_the_stream)

# These look at the memory of the whole device.
set_tests_properties(gpu.any.attach.n2 gpu.any.attach.n3 gpu.any.attach.n4 gpu.any.cycles.n3 gpu.fd.cycles.n2
  gpu.fd.cycles.n4 gpu.legacy.cycles.n2 gpu.host.cycles.n2 PROPERTIES RUN_SERIAL ON)
# The longest begin first.
set_tests_properties(gpu.case.regrid.n2 gpu.any.halo_steps.n4 gpu.any.halo_steps.n2 PROPERTIES COST 100)
# Their kernels wait for each other, so that every further job that takes turns with them makes them longer.
set_tests_properties(gpu.any.device.n2 gpu.any.device.n3 gpu.any.device.n4 gpu.host.device.n2 gpu.kernel.sync.n2
  PROPERTIES RUN_SERIAL ON)

# Litmus tests and soaks (label gpu-sync, one after the other: launch/gpu-check --only sync,mps-sync). With equal shares
# of the device, as library kernels that wait ask for under MPS. PWTEST_SECONDS shortens what has no number of rounds.
#   peerwin_gpu_sync(<name> <program> RANKS <n>... [ENV <VAR=value>...] [ARGS <arg>...])
function(peerwin_gpu_sync name program)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "RANKS;ENV;ARGS")
  foreach(ranks IN LISTS arg_RANKS)
    math(EXPR share "100 / ${ranks}")
    peerwin_mpi_test(NAME gpu.sync.${name} PROGRAM test_${program} RANKS ${ranks} ARGS ${arg_ARGS} LABELS gpu-sync
      TIMEOUT 150 ENV PWTEST_SPACE=cuda PWTEST_STREAM=own CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=${share} ${arg_ENV})
    set_tests_properties(gpu.sync.${name}.n${ranks} PROPERTIES RUN_SERIAL ON)
  endforeach()
endfunction()

# Kernels that wait for other ranks belong where ranks run side by side; forced elsewhere they take milliseconds each.
# Where ranks take turns on a device a round of eight ranks takes milliseconds, too.
set(one barriers_keep_the_ranks_together)
set(two ${one} barriers_on_two_streams_are_one_sequence)
set(graphs graphs_of_add_and_consume_keep_neighbours_together graphs_of_barriers_keep_the_ranks_together
  graphs_of_allreduces_sum_in_rank_order)
foreach(kind memop kernel)
  set(kind_env ENV PEERWIN_BARRIER=${kind})
  peerwin_gpu_sync(soak.${kind} soak RANKS 2 4 ${kind_env} ARGS ${two} barriers_alone_take_turns ${graphs})
  peerwin_gpu_sync(soak.${kind} soak RANKS 3 8 ${kind_env} ARGS ${one} ${graphs})
endforeach()
peerwin_gpu_sync(soak.event soak RANKS 2 4 ENV PEERWIN_BARRIER=event ARGS ${two} barriers_alone_take_turns)
peerwin_gpu_sync(soak.event soak RANKS 3 8 ENV PEERWIN_BARRIER=event ARGS ${one})
peerwin_gpu_sync(soak.forced soak RANKS 2 4 ENV PEERWIN_BARRIER=kernel ARGS --rounds 200 ${two})
peerwin_gpu_sync(rounds rounds RANKS 2 3 4 8 ARGS --seconds 3)
peerwin_gpu_sync(late sync RANKS 2 4 ARGS a_stream_that_waits_too_long_may_be_waited_for_again
  a_late_rank_is_named_and_the_barrier_can_be_repeated)
peerwin_gpu_sync(c20 placement RANKS 3 4 8 ARGS c20_a_wait_before_the_peers_first_put_blocks_the_stream)
peerwin_gpu_sync(soak.other soak RANKS 2 ARGS c5_a_put_waits_for_the_kernel_that_makes_its_data
  without_barriers_the_ranks_are_seen_apart)
peerwin_gpu_sync(litmus.kernels litmus RANKS 2 ARGS --seconds 3 --blocks 32 message_passing_from_kernel_to_kernel
  message_passing_by_calls_in_kernels messages_arrive_whole_and_in_order store_buffering_between_kernels
  without_fences_the_tests_fail)
peerwin_gpu_sync(litmus.kernels litmus RANKS 4 ARGS --seconds 3 --blocks 32 --bytes 64
  message_passing_by_calls_in_kernels messages_arrive_whole_and_in_order store_buffering_between_kernels
  without_fences_the_tests_fail)
peerwin_gpu_sync(litmus.streams litmus_streams RANKS 2 ARGS --seconds 1 message_passing_from_kernel_to_stream
  message_passing_from_calls_to_stream message_passing_from_puts_to_stream message_passing_from_puts_to_kernel
  message_passing_from_copy_engine_to_stream message_passing_from_copy_engine_to_kernel
  store_buffering_between_streams without_the_streams_order_the_tests_fail)
# Epochs that start just below where they wrap.
foreach(kind memop event kernel)
  set(aged ${two})
  if(NOT kind STREQUAL event)
    list(APPEND aged ${graphs})
  endif()
  peerwin_gpu_sync(soak.${kind}.aged soak_aged RANKS 2 ENV PEERWIN_BARRIER=${kind} ARGS --rounds 300 ${aged})
endforeach()
peerwin_gpu_sync(rounds.aged rounds_aged RANKS 2 ARGS --rounds 300)
peerwin_gpu_sync(messages.aged litmus_aged RANKS 2 ARGS --rounds 3000 messages_arrive_whole_and_in_order)
# A program as users build it: CUDA code of nvcc and the CUDA runtime.
set(on_gpus OFF)
if(TARGET stencil1d)
  get_target_property(on_gpus stencil1d STENCIL1D_ON_GPUS)
endif()
if(on_gpus)
  peerwin_mpi_test(NAME gpu.stencil1d PROGRAM stencil1d RANKS 1 2 4 ARGS --space cuda --steps 100 LABELS gpu TIMEOUT 60)
endif()
set(on_gpus OFF)
if(TARGET stencil3d)
  get_target_property(on_gpus stencil3d STENCIL3D_ON_GPUS)
endif()
if(on_gpus)
  set(small --space cuda --size 40,36,33 --fields 2)
  peerwin_mpi_test(NAME gpu.stencil3d.7 PROGRAM stencil3d RANKS 1 2 4 LABELS gpu TIMEOUT 60
    ARGS ${small} --points 7 --steps 45 --comm peerwin,mpi)
  peerwin_mpi_test(NAME gpu.stencil3d.27 PROGRAM stencil3d RANKS 1 2 4 LABELS gpu TIMEOUT 60
    ARGS ${small} --points 27 --steps 15 --comm peerwin,staged)
  peerwin_mpi_test(NAME gpu.stencil3d.eager PROGRAM stencil3d RANKS 2 LABELS gpu TIMEOUT 60
    ARGS ${small} --points 27 --steps 15 --graph off --overlap off --grid 1,1,2)
endif()
