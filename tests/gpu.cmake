# The tests of CUDA space on a real GPU: ranks share the one that there is. Registered only where a machine has one.
#
#   peerwin_gpu_test(<kind> <program> RANKS <n>... [NAME <name>] [ARGS <case>...])
#     gpu.<kind>.<program>.n<ranks>, as sim.<kind>.<program>.n<ranks> on the driver of this machine.
option(PEERWIN_TEST_GPU "Register the tests that need a GPU (label gpu)" OFF)
if(NOT PEERWIN_TEST_GPU OR NOT TARGET test_attach)
  return()
endif()

function(peerwin_gpu_test kind program)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "NAME" "RANKS;ARGS")
  if(NOT arg_NAME)
    set(arg_NAME gpu.${kind}.${program})
  endif()
  set(env PWTEST_SPACE=cuda)
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
foreach(program context window sync cases)
  peerwin_gpu_test(fd ${program} RANKS 2 4)
  peerwin_gpu_test(legacy ${program} RANKS 2)
  peerwin_gpu_test(host ${program} RANKS 2)
endforeach()
foreach(program window sync misuse process)
  peerwin_gpu_test(any ${program} RANKS 3)
endforeach()
peerwin_gpu_test(any attach RANKS 2 3 4)
peerwin_gpu_test(any placement RANKS 2 ARGS
  c11_ranks_that_share_a_device_are_told_so_once
  c19_fabric_handles_that_are_refused_are_replaced_and_the_log_names_imex
  fabric_handles_alone_fail_loudly_without_an_imex_channel
  c20_a_wait_before_the_peers_first_put_blocks_the_stream)

# These look at the memory of the whole device.
set_tests_properties(gpu.any.attach.n2 gpu.any.attach.n3 gpu.any.attach.n4 gpu.any.window.n3 gpu.fd.window.n2
  gpu.fd.window.n4 gpu.legacy.window.n2 gpu.host.window.n2 PROPERTIES RUN_SERIAL ON)
