# How tests are declared.
#
#   peerwin_mpi_program(<target> <source>...)          a program of the MPI harness (support/test.h)
#   peerwin_mpi_test(NAME <name> PROGRAM <target> RANKS <n>... [ARGS <arg>...] [LABELS <label>...] [ENV <VAR=value>...]
#                    [TIMEOUT <seconds>] [MPIRUN <option>...])
#     One ctest test <name>.n<ranks> for every number of ranks.
#   peerwin_unit_test(NAME <name> SOURCES <source>... [LIBRARIES <target>...])
#     A cmocka program unit_<name> in one process, linked to the library's internals. Where cmocka is not installed
#     there are none.
#
# The launcher's time limit is the shorter one: it ends all ranks cleanly. A job claims as many of ctest's processors
# as it has ranks, so that two jobs do not fight for the cores.

set(PEERWIN_MPIRUN_FLAGS --oversubscribe --bind-to none CACHE STRING "Options for every mpirun of the tests")
mark_as_advanced(PEERWIN_MPIRUN_FLAGS)

# A launcher whose job fails, as many are meant to, need not give its ranks two more seconds. Looking for networks with a layer of
# their own, which pml=ob1 leaves out, takes the ranks of Open MPI a quarter of a second; these jobs are on one machine.
# Open MPI's ranks yield when they wait only where they alone outnumber the processors; these have other jobs beside them.
set(peerwin_test_env
  "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_odls_base_sigkill_timeout=0;OMPI_MCA_pml=ob1;OMPI_MCA_mpi_yield_when_idle=1")
set(peerwin_time_factor 1)
if(PEERWIN_SANITIZE)
  # Leak reports need stacks through MPI's components, which are unloaded by then: hence the slow unwinder.
  list(APPEND peerwin_test_env
    "ASAN_OPTIONS=detect_leaks=1:fast_unwind_on_malloc=0:abort_on_error=0"
    "LSAN_OPTIONS=suppressions='${CMAKE_CURRENT_LIST_DIR}/support/lsan.supp':print_suppressions=0"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "TSAN_OPTIONS=suppressions='${CMAKE_CURRENT_LIST_DIR}/support/tsan.supp'"
    "OMPI_MCA_memory=^patcher")
  set(peerwin_time_factor 4)
endif()

function(peerwin_mpi_program target)
  add_executable(${target} ${ARGN})
  target_link_libraries(${target} PRIVATE peerwin_test_support peerwin_flags)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()

function(peerwin_mpi_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;PROGRAM;TIMEOUT" "RANKS;ARGS;LABELS;ENV;MPIRUN")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS host)
  endif()
  math(EXPR launcher_limit "${arg_TIMEOUT} * ${peerwin_time_factor}")
  math(EXPR ctest_limit "${launcher_limit} + 20")
  if(PEERWIN_SANITIZE)
    # Sanitized jobs take ten times as long, and learn little from more ranks.
    list(FILTER arg_RANKS INCLUDE REGEX "^[24]$")
  endif()
  foreach(ranks IN LISTS arg_RANKS)
    set(name ${arg_NAME}.n${ranks})
    set(processors ${ranks})
    if(ranks GREATER 4)
      set(processors 4) # so many wait for each other most of the time, and leave processors idle
    endif()
    if(arg_LABELS STREQUAL sim AND ranks LESS_EQUAL 2)
      set(processors 1) # nothing is timed there, and a small job waits more than it computes
    endif()
    add_test(NAME ${name}
      COMMAND ${MPIEXEC_EXECUTABLE} ${PEERWIN_MPIRUN_FLAGS} --timeout ${launcher_limit} ${arg_MPIRUN}
              ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${arg_PROGRAM}> ${arg_ARGS})
    set_tests_properties(${name} PROPERTIES
      PROCESSORS ${processors} TIMEOUT ${ctest_limit} SKIP_RETURN_CODE 77 LABELS "${arg_LABELS}"
      ENVIRONMENT "${peerwin_test_env};${arg_ENV}")
  endforeach()
endfunction()

find_path(PEERWIN_CMOCKA_INCLUDE cmocka.h)
find_library(PEERWIN_CMOCKA_LIBRARY cmocka)
mark_as_advanced(PEERWIN_CMOCKA_INCLUDE PEERWIN_CMOCKA_LIBRARY)
get_property(peerwin_said GLOBAL PROPERTY peerwin_said_cmocka)
if(NOT peerwin_said AND NOT (PEERWIN_CMOCKA_INCLUDE AND PEERWIN_CMOCKA_LIBRARY))
  message(STATUS "cmocka was not found: the unit tests are not built")
  set_property(GLOBAL PROPERTY peerwin_said_cmocka ON) # this file is read more than once
endif()

function(peerwin_unit_test)
  if(NOT PEERWIN_CMOCKA_INCLUDE OR NOT PEERWIN_CMOCKA_LIBRARY)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;LIBRARIES")
  string(REPLACE "." "_" target unit_${arg_NAME})
  add_executable(${target} ${arg_SOURCES})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_include_directories(${target} SYSTEM PRIVATE ${PEERWIN_CMOCKA_INCLUDE})
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
  target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:-O1>") # as all tests, also those of tools
  target_link_libraries(${target} PRIVATE peerwin_static ${arg_LIBRARIES} ${PEERWIN_CMOCKA_LIBRARY} Threads::Threads peerwin_flags)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME unit.${arg_NAME} COMMAND ${target})
  set_tests_properties(unit.${arg_NAME} PROPERTIES TIMEOUT 60 LABELS unit ENVIRONMENT "${peerwin_test_env}")
endfunction()
