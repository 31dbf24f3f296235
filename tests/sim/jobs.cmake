# MPI jobs in CUDA space on the simulated driver.
#
#   peerwin_sim_test(<kind> <program> RANKS <n>... ON <topology> [NAME <name>] [ARGS ...] [ENV ...] [TIMEOUT <seconds>])
#     sim.<kind>.<program>.n<ranks>: the program with handles of that kind only ("any": what the library chooses), on
#     a pretended machine. NODE_RANKS <k>: every k ranks are a node. NAME replaces sim.<kind>.<program>.
#
# Each promise is checked with each kind, and each kind on machines of all shapes, but not every pair of them: a job
# costs half a second on a quiet machine, and there are two cores.
function(peerwin_sim_test kind program)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "ON;NAME;TIMEOUT;NODE_RANKS;LIBRARY" "RANKS;ARGS;ENV")
  if(PEERWIN_SANITIZE AND 2 IN_LIST arg_RANKS)
    set(arg_RANKS 2) # more ranks take the same ways, and five times as long
  endif()
  if(NOT arg_NAME)
    set(arg_NAME sim.${kind}.${program})
  endif()
  if(NOT arg_LIBRARY)
    set(arg_LIBRARY simcuda)
  endif()
  set(env PWTEST_SPACE=cuda "PEERWIN_CUDA_LIBRARY=$<TARGET_FILE:${arg_LIBRARY}>"
    "SIMCUDA_KERNELS=$<TARGET_FILE:simkernels>" SIMCUDA_TOPOLOGY=${arg_ON} ${arg_ENV})
  if(NOT kind STREQUAL any)
    list(APPEND env PEERWIN_HANDLES=${kind})
  endif()
  if(kind STREQUAL fabric)
    list(APPEND env SIMCUDA_IMEX=1)
  endif()
  if(arg_NODE_RANKS)
    list(APPEND env SIMCUDA_NODE_RANKS=${arg_NODE_RANKS} PEERWIN_NODE_RANKS=${arg_NODE_RANKS})
  endif()
  if(arg_TIMEOUT)
    set(arg_TIMEOUT TIMEOUT ${arg_TIMEOUT})
  endif()
  peerwin_mpi_test(NAME ${arg_NAME} PROGRAM test_${program} RANKS ${arg_RANKS} ARGS ${arg_ARGS} ENV ${env}
    LABELS sim ${arg_TIMEOUT})
endfunction()

# ---- the MPI tests again ----

peerwin_sim_test(fd context RANKS 1 2 ON same-gpu)
peerwin_sim_test(fd context RANKS 4 ON nvswitch:8 ENV SIMCUDA_VISIBLE=rank)
peerwin_sim_test(fd window RANKS 1 3 ON same-gpu)
# Windows by the hundred are for some kinds and numbers of ranks: the others take the same ways.
set(few_windows !many_cycles_leave_descriptors_mappings_and_memory_flat)
peerwin_sim_test(fd window RANKS 8 ON nvswitch:8 ENV PWTEST_STREAM=own ARGS ${few_windows})
peerwin_sim_test(fd transfer RANKS 1 4 ON pcie:4 ENV PWTEST_STREAM=own)
peerwin_sim_test(fd box RANKS 2 ON nvswitch:8)
peerwin_sim_test(fd sync RANKS 2 ON same-gpu)
peerwin_sim_test(fd sync RANKS 7 ON nvswitch:8 ENV PWTEST_STREAM=own)
peerwin_sim_test(fd misuse RANKS 1 2 ON same-gpu)
peerwin_sim_test(fd process RANKS 2 ON nvswitch:8)
peerwin_sim_test(fd cases RANKS 4 ON same-gpu)

peerwin_sim_test(legacy context RANKS 2 ON pcie:4)
peerwin_sim_test(legacy context RANKS 7 ON same-gpu)
peerwin_sim_test(legacy window RANKS 2 ON nvswitch:8 ENV SIMCUDA_VISIBLE=rank)
peerwin_sim_test(legacy box RANKS 3 ON nvswitch:8 ENV PWTEST_STREAM=own)
peerwin_sim_test(legacy sync RANKS 4 ON pcie:4)
# After an abort nobody waits for anybody, so an owner may free legacy memory that a peer has still open. A driver lets
# that pass.
peerwin_sim_test(legacy process RANKS 2 ON same-gpu ENV PWTEST_STREAM=own SIMCUDA_STRICT=0)
peerwin_sim_test(legacy cases RANKS 2 ON nvswitch:8)

peerwin_sim_test(fabric context RANKS 3 ON same-gpu)
peerwin_sim_test(fabric window RANKS 2 ON nodes:2x1 NODE_RANKS 1 ARGS ${few_windows})
peerwin_sim_test(fabric box RANKS 2 ON nodes:2x1 NODE_RANKS 1)
peerwin_sim_test(fabric sync RANKS 4 ON nodes:2x1 NODE_RANKS 2 ENV PWTEST_STREAM=own)
peerwin_sim_test(fabric cases RANKS 3 ON nodes:3x1 NODE_RANKS 1)

peerwin_sim_test(host context RANKS 2 ON pcie-no-peer:2)
peerwin_sim_test(host window RANKS 2 ON pcie-no-peer:2)
peerwin_sim_test(host box RANKS 2 ON pcie-no-peer:2 ENV PWTEST_STREAM=own)
peerwin_sim_test(host sync RANKS 3 ON pcie-no-peer:2)
peerwin_sim_test(host cases RANKS 2 ON same-gpu)
peerwin_sim_test(host bound RANKS 2 ON pcie-no-peer:2)

# Some 700 random plans in all, and 200 below with packed faces.
peerwin_sim_test(any halo RANKS 1 2 ON same-gpu)
peerwin_sim_test(any halo RANKS 3 ON same-gpu ENV SIMCUDA_MPS=1 CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=33)
peerwin_sim_test(any halo RANKS 4 6 8 ON nvswitch:8 ENV PWTEST_STREAM=own)
peerwin_sim_test(any halo RANKS 5 7 ON nvswitch:8)
peerwin_sim_test(legacy halo_misuse RANKS 2 ON pcie:4)
peerwin_sim_test(any halo_steps RANKS 3 ON same-gpu ENV PWTEST_STREAM=own)
peerwin_sim_test(any halo_steps NAME sim.onequeue.halo_steps RANKS 2 ON nvswitch:8
  ENV SIMCUDA_ONE_QUEUE=1 PEERWIN_HALO_PACK=always)

# All streams of a context in one queue: what leads to a wait's end must stand before it.
peerwin_sim_test(any sync NAME sim.onequeue.sync RANKS 2 ON same-gpu ENV SIMCUDA_ONE_QUEUE=1)
peerwin_sim_test(any cases NAME sim.onequeue.cases RANKS 4 ON nvswitch:8 ENV SIMCUDA_ONE_QUEUE=1 PWTEST_STREAM=own)

# Barriers of each kind, and all-reduces by kernels that wait and in parts; with one queue for all streams, too.
function(peerwin_sim_kind kind program)
  peerwin_sim_test(any ${program} NAME sim.${kind}.${program} ${ARGN} ENV PEERWIN_BARRIER=${kind} SIMCUDA_ONE_QUEUE=1)
endfunction()
peerwin_sim_kind(kernel sync RANKS 3 ON same-gpu)
peerwin_sim_kind(kernel cases RANKS 2 ON same-gpu)
peerwin_sim_kind(event sync RANKS 3 ON nvswitch:8)
peerwin_sim_test(any allreduce RANKS 3 ON same-gpu)
peerwin_sim_test(any allreduce NAME sim.kernel.allreduce RANKS 1 4 ON nvswitch:8 ENV SIMCUDA_ONE_QUEUE=1)

# ---- programs of CUDA space ----

foreach(name attach captures halo_streams placement sweep many teardown)
  peerwin_mpi_program(test_${name} ${name}.c script.c)
endforeach()
add_library(simspy MODULE spy.c)
target_include_directories(simspy SYSTEM PRIVATE ${peerwin_cuda_include})
target_compile_definitions(simspy PRIVATE _GNU_SOURCE)
# Needed for what it has, though nothing here names it.
target_link_options(simspy PRIVATE LINKER:--no-as-needed)
target_link_libraries(simspy PRIVATE simcuda peerwin_flags ${CMAKE_DL_LIBS})
set_target_properties(simspy PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
# It has its own copy of the library, whose nonces it sees.
add_executable(test_secrets secrets.c script.c $<TARGET_OBJECTS:peerwin_support_objects>)
target_include_directories(test_secrets PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_include_directories(test_secrets SYSTEM PRIVATE ${peerwin_cuda_include})
target_compile_definitions(test_secrets PRIVATE _GNU_SOURCE)
target_link_libraries(test_secrets PRIVATE peerwin_static MPI::MPI_C Threads::Threads m ${CMAKE_DL_LIBS} peerwin_flags)
target_link_options(test_secrets PRIVATE LINKER:--wrap=getrandom)
set_target_properties(test_secrets PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

peerwin_sim_test(any captures RANKS 2 ON same-gpu)
# Drivers before 12.5 wait for a whole context at once, and not by an event.
if(NOT PEERWIN_SANITIZE)
  peerwin_sim_test(any captures NAME sim.old.captures RANKS 2 ON same-gpu ENV SIMCUDA_DRIVER_VERSION=12040)
endif()
# Where kernels may not wait, where each rank has a device, and side by side on one.
peerwin_sim_test(any halo_streams RANKS 2 ON same-gpu)
peerwin_sim_test(any halo_streams NAME sim.nvswitch.halo_streams RANKS 2 ON nvswitch:8)
peerwin_sim_test(any halo_streams NAME sim.mps.halo_streams RANKS 3 ON same-gpu
  ENV SIMCUDA_MPS=1 CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=33)
# Thin faces that come packed: by themselves over a link, and wherever they come from.
set(rows thin_faces_are_packed_where_they_come_over_a_link)
peerwin_sim_test(any halo_streams NAME sim.links.halo_streams RANKS 4 ON nvswitch:2 ARGS ${rows})
function(peerwin_sim_packed program)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "ON" "RANKS;ARGS;ENV")
  peerwin_sim_test(any ${program} NAME sim.packed.${program} RANKS ${arg_RANKS} ON ${arg_ON} ARGS ${arg_ARGS}
    ENV PEERWIN_HALO_PACK=always ${arg_ENV})
endfunction()
peerwin_sim_packed(halo RANKS 2 ON same-gpu)
# With few multiprocessors to a rank plans soon have more blocks than may wait.
peerwin_sim_packed(halo RANKS 4 ON same-gpu ARGS random_lists_of_faces_arrive_byte_for_byte
  ENV SIMCUDA_MPS=1 CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=4)
peerwin_sim_packed(halo_cases RANKS 2 ON same-gpu ARGS c18_large_thin_faces_are_exact)
peerwin_sim_packed(halo_streams RANKS 2 ON nvswitch:8 ARGS !thin_faces_of_cells_of_every_size_are_exact)
peerwin_sim_packed(halo_streams RANKS 4 ON same-gpu ARGS all_faces_and_fields_are_one_launch
  small_faces_are_exact_in_graphs graphs_run_again_and_again_with_ranks_apart ${rows})
peerwin_sim_test(any attach RANKS 1 ON nvswitch:8)
peerwin_sim_test(any attach RANKS 3 ON pcie:4 ENV PWTEST_STREAM=own)

peerwin_sim_test(any sweep RANKS 2 ON same-gpu TIMEOUT 120 ARGS
  attach_of_an_allocation_survives_a_failure_of_any_driver_call
  attach_of_a_pools_memory_survives_a_failure_of_any_driver_call)
peerwin_sim_test(any sweep NAME sim.any.sweep_init RANKS 2 ON same-gpu TIMEOUT 120 ARGS init_survives_a_failure_of_any_driver_call
  transfers_survive_a_failure_of_any_driver_call free_survives_a_failure_of_any_driver_call)
peerwin_sim_test(any sweep NAME sim.any.sweep_alloc RANKS 3 ON same-gpu TIMEOUT 120 ARGS alloc_survives_a_failure_of_any_driver_call
  attach_of_virtual_memory_survives_a_failure_of_any_driver_call finalize_survives_a_failure_of_any_driver_call)
peerwin_sim_test(any sweep NAME sim.any.sweep_plan RANKS 2 ON nvswitch:8 TIMEOUT 120 ARGS
  plans_survive_a_failure_of_any_driver_call)
peerwin_sim_test(any sweep NAME sim.event.sweep RANKS 2 ON same-gpu ENV PEERWIN_BARRIER=event PWTEST_CALLS=Event
  TIMEOUT 120 ARGS init_survives_a_failure_of_any_driver_call transfers_survive_a_failure_of_any_driver_call
  finalize_survives_a_failure_of_any_driver_call)
peerwin_sim_test(legacy sweep RANKS 2 ON nvswitch:8 TIMEOUT 120 ARGS alloc_survives_a_failure_of_any_driver_call)
peerwin_sim_test(fabric sweep RANKS 2 ON nodes:2x1 NODE_RANKS 1 TIMEOUT 120
  ARGS alloc_survives_a_failure_of_any_driver_call)
peerwin_sim_test(host sweep RANKS 2 ON pcie-no-peer:2 TIMEOUT 120 ARGS alloc_survives_a_failure_of_any_driver_call)

peerwin_sim_test(any secrets RANKS 2 ON nvswitch:8 LIBRARY simspy ENV SIMCUDA_IMEX=1)
peerwin_sim_test(fabric many RANKS 72 ON nodes:9x8 NODE_RANKS 8 TIMEOUT 120)

peerwin_sim_test(any placement NAME sim.fabric_refused RANKS 2 ON same-gpu
  ARGS fabric_handles_alone_fail_loudly_without_an_imex_channel)
peerwin_sim_test(fabric placement NAME sim.nodes RANKS 8 ON nodes:4x2 NODE_RANKS 2
  ARGS nodes_of_one_fabric_clique_reach_each_other)
peerwin_sim_test(any placement NAME sim.cliques RANKS 4 ON cliques:2x2 NODE_RANKS 2 ENV SIMCUDA_IMEX=1
  ARGS cliques_reach_only_themselves_and_say_why)

# ---- cases from the field, by name ----

function(peerwin_sim_case name program case)
  peerwin_sim_test(any ${program} NAME sim.case.${name} ARGS ${case} ${ARGN})
endfunction()
peerwin_sim_case(C1 placement c1_ranks_that_see_one_device_each_are_matched_by_uuid
  RANKS 1 4 ON nvswitch:4 ENV SIMCUDA_VISIBLE=rank)
peerwin_sim_case(C1_pcie placement c1_ranks_that_see_one_device_each_are_matched_by_uuid
  RANKS 2 ON pcie:2 ENV SIMCUDA_VISIBLE=rank)
# The same by a launcher that sets CUDA_VISIBLE_DEVICES.
if(TARGET peerwin-info)
  foreach(how index uuid)
    add_test(NAME sim.case.C1_${how}.n3
      COMMAND ${MPIEXEC_EXECUTABLE} ${PEERWIN_MPIRUN_FLAGS} --timeout 60 ${MPIEXEC_NUMPROC_FLAG} 3
              ${CMAKE_CURRENT_SOURCE_DIR}/visible.sh ${how} $<TARGET_FILE:peerwin-info> $<TARGET_FILE:test_placement>
              c1_ranks_that_see_one_device_each_are_matched_by_uuid)
    set_tests_properties(sim.case.C1_${how}.n3 PROPERTIES PROCESSORS 3 TIMEOUT 80 LABELS sim
      ENVIRONMENT "${peerwin_test_env};PWTEST_SPACE=cuda;PEERWIN_CUDA_LIBRARY=$<TARGET_FILE:simcuda>;SIMCUDA_KERNELS=$<TARGET_FILE:simkernels>;SIMCUDA_TOPOLOGY=nvswitch:4")
  endforeach()
endif()
peerwin_sim_case(C2 attach c2_managed_memory_is_refused_on_all_ranks_by_name RANKS 2 ON same-gpu)
peerwin_sim_case(C3 attach
  c3_stream_ordered_memory_is_refused_by_name_and_attached_from_a_pool_that_can_be_shared RANKS 2 ON same-gpu)
peerwin_sim_case(C4 attach c4_offsets_inside_an_allocation_reach_exactly_those_bytes RANKS 2 ON nvswitch:8)
peerwin_sim_case(C4_small attach c4_twenty_small_allocations_do_not_touch_each_other RANKS 2 ON same-gpu)
peerwin_sim_case(C6 cases c6_ghosts_at_the_walls_keep_their_values RANKS 3 ON nvswitch:8)
peerwin_sim_case(C6_by_plan halo_cases c6_ghosts_at_the_walls_keep_their_values RANKS 3 ON same-gpu)
peerwin_sim_case(C7 cases c7_empty_parts_are_legal_and_their_signals_arrive RANKS 4 ON nvswitch:8)
peerwin_sim_case(C7_by_plan halo_cases c7_empty_parts_are_legal_and_are_waited_for RANKS 4 ON same-gpu)
peerwin_sim_case(C8 attach c8_memory_freed_and_made_again_is_never_stale RANKS 2 ON same-gpu)
peerwin_sim_case(C9 attach c9_freed_memory_is_free_again_after_every_cycle RANKS 2 ON same-gpu)
foreach(way mpi-first device-first window-left all-left destructor)
  string(REPLACE - _ name ${way})
  # A program that leaves everything behind has leaks.
  peerwin_sim_case(C10_${name} teardown ${way} RANKS 2 ON nvswitch:8 ENV ASAN_OPTIONS=detect_leaks=0)
endforeach()
peerwin_sim_case(C11 placement c11_ranks_that_share_a_device_are_told_so_once RANKS 2 ON same-gpu)
peerwin_sim_case(C12 placement c12_instances_of_one_device_have_no_path_and_the_reason_says_mig
  RANKS 2 ON nvswitch:2 ENV SIMCUDA_MIG=1)
peerwin_sim_case(C13 cases c13_a_process_can_be_its_own_neighbour RANKS 1 ON same-gpu)
peerwin_sim_case(C13_by_plan halo_cases c13_a_process_can_be_its_own_neighbour RANKS 1 ON same-gpu)
peerwin_sim_case(C13_attached attach c13_the_own_pointer_is_the_programs_and_not_opened RANKS 1 ON same-gpu)
peerwin_sim_case(C14 placement c14_without_peer_access_there_is_no_path_a_notice_and_strict_mode_refuses
  RANKS 2 ON pcie-no-peer:2)
peerwin_sim_case(C15 attach c15_the_window_is_on_the_pointers_device_whatever_is_current RANKS 2 ON nvswitch:2)
peerwin_sim_case(C17_differ namespaces c17_different_host_names_on_one_node_are_one_node RANKS 2 ON nvswitch:8)
peerwin_sim_case(C17_agree namespaces c17_one_host_name_on_several_nodes_is_several_nodes RANKS 3 ON nvswitch:8)
peerwin_sim_case(C18 halo_cases c18_large_thin_faces_are_exact RANKS 2 ON same-gpu)
peerwin_sim_case(C19 placement c19_fabric_handles_that_are_refused_are_replaced_and_the_log_names_imex
  RANKS 2 ON same-gpu)
peerwin_sim_case(C20 placement c20_a_wait_before_the_peers_first_put_blocks_the_stream RANKS 2 ON same-gpu)
peerwin_sim_case(C21 placement c21_a_failed_export_or_import_is_everyones_at_once RANKS 4 ON nvswitch:8)
peerwin_sim_case(C22 transfer every_alignment_and_length_to_300_moves_exactly_its_bytes RANKS 2 ON same-gpu)
peerwin_sim_case(C22_large transfer large_copies_around_one_mebibyte_move_exactly_their_bytes RANKS 2 ON nvswitch:8)
peerwin_sim_case(C23 limits twenty_windows_with_48_descriptors RANKS 8 ON nvswitch:8)
peerwin_sim_case(C23_cycles limits a_thousand_cycles_with_48_descriptors_stay_flat RANKS 8 ON nvswitch:8)
peerwin_sim_case(regrid halo_cases regrid_2000_times_leaves_memory_flat RANKS 2 ON nvswitch:8)
