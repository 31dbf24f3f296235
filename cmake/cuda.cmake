# CUDA is found, never required: its headers are needed to build, nvcc for kernels that real devices run, and a driver to
# run. Sets peerwin_cuda_include, empty without CUDA, and peerwin_nvcc, empty without nvcc.
set(PEERWIN_CUDA AUTO CACHE STRING "Build with the CUDA headers: AUTO (if they are found), ON, OFF")
set_property(CACHE PEERWIN_CUDA PROPERTY STRINGS AUTO ON OFF)

set(peerwin_cuda_include "")
if(PEERWIN_CUDA)
  find_path(PEERWIN_CUDA_INCLUDE cudaTypedefs.h
    HINTS $ENV{CUDA_HOME}/include $ENV{CUDA_PATH}/include /usr/local/cuda/include /opt/cuda/include)
  mark_as_advanced(PEERWIN_CUDA_INCLUDE)
  if(PEERWIN_CUDA_INCLUDE)
    set(peerwin_cuda_include ${PEERWIN_CUDA_INCLUDE})
  elseif(NOT PEERWIN_CUDA STREQUAL AUTO)
    message(FATAL_ERROR "PEERWIN_CUDA is ON, and cudaTypedefs.h was not found: set CUDA_HOME or PEERWIN_CUDA_INCLUDE")
  endif()
endif()
if(NOT peerwin_cuda_include)
  message(STATUS "peerwin: devices are left out: no CUDA headers")
endif()

set(peerwin_nvcc "")
if(peerwin_cuda_include)
  enable_language(ASM) # the kernels are embedded by the assembler
  find_program(PEERWIN_NVCC nvcc
    HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin ${peerwin_cuda_include}/../bin /usr/local/cuda/bin /opt/cuda/bin
    DOC "The compiler of the kernels; OFF builds without, for the simulated driver only")
  mark_as_advanced(PEERWIN_NVCC)
  if(PEERWIN_NVCC)
    # It needs a C++ compiler that it knows, and says so only when it has to do something.
    file(WRITE ${CMAKE_BINARY_DIR}/CMakeFiles/nothing.cu "")
    execute_process(COMMAND ${PEERWIN_NVCC} -std=c++17 -E ${CMAKE_BINARY_DIR}/CMakeFiles/nothing.cu
      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE why)
    if(failed)
      message(WARNING "peerwin: ${PEERWIN_NVCC} does not work: the library has no kernels for real devices. ${why}")
    else()
      set(peerwin_nvcc ${PEERWIN_NVCC})
    endif()
  else()
    message(STATUS "peerwin: no nvcc: the library has no kernels for real devices")
  endif()
endif()

set(PEERWIN_CUDA_ARCHITECTURES "" CACHE STRING
  "Architectures to compile kernels for, a list like 80;90; empty: one of each generation, and PTX for those to come")

# Code for the first architecture of each generation from Volta on that this nvcc knows, and PTX for those to come. That
# is -arch=all-major without generations that lack memory operations of system scope. nvcc's front end, which takes the
# longer half of the time, makes the same PTX of our kernels for generations 8 and 9, and the same for all from 10 on, so
# it runs once for each of these families: the machine code is the same, bit by bit, as if each had a run of its own.
function(peerwin_cuda_code out)
  if(PEERWIN_CUDA_ARCHITECTURES)
    list(TRANSFORM PEERWIN_CUDA_ARCHITECTURES REPLACE "(.+)" "-gencode=arch=compute_\\1,code=sm_\\1" OUTPUT_VARIABLE code)
    set(${out} ${code} PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${peerwin_nvcc} --list-gpu-arch OUTPUT_VARIABLE known RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${peerwin_nvcc} --list-gpu-arch failed; -DPEERWIN_NVCC=OFF builds without nvcc")
  endif()
  string(REGEX MATCHALL "compute_[0-9]+" known "${known}")
  list(SORT known COMPARE NATURAL)
  set(code "")
  set(generations "")
  set(family "")
  foreach(arch IN LISTS known)
    string(REGEX REPLACE "^compute_([0-9]+)[0-9]$" "\\1" generation ${arch})
    if(generation GREATER_EQUAL 7 AND NOT generation IN_LIST generations)
      list(APPEND generations ${generation})
      if(NOT family OR generation EQUAL 8 OR generation EQUAL 10)
        set(family ${arch})
      endif()
      string(REPLACE compute_ sm_ real ${arch})
      list(APPEND code -gencode=arch=${family},code=${real})
    endif()
  endforeach()
  set(${out} ${code} -gencode=arch=${family},code=${family} PARENT_SCOPE)
endfunction()

# The same for examples, measurements and tests, which no program is linked to: code for the devices that most machines of
# the field have, and PTX for all others, which their drivers compile at the first start. One run of the front end, for the
# oldest, is enough: what is measured has the same machine code as if each device had a run of its own.
function(peerwin_cuda_program_code out)
  peerwin_cuda_code(code)
  if(NOT PEERWIN_CUDA_ARCHITECTURES)
    list(GET code 0 oldest)
    string(REGEX REPLACE ",.*" "" oldest ${oldest})
    string(REGEX REPLACE ".*=" "code=" ptx ${oldest})
    set(code ${oldest},code=sm_80 ${oldest},code=sm_90 ${oldest},${ptx})
  endif()
  set(${out} ${code} PARENT_SCOPE)
endfunction()

# peerwin_fatbin(<output> <source> <code> <include directory>...): the rule that compiles kernels, without CUDA's runtime,
# for what one of the functions above has said.
function(peerwin_fatbin output source code)
  list(TRANSFORM ARGN PREPEND -I)
  list(TRANSFORM MPI_C_INCLUDE_DIRS PREPEND -isystem= OUTPUT_VARIABLE mpi_includes)
  add_custom_command(OUTPUT ${output}
    COMMAND ${peerwin_nvcc} -std=c++17 --threads 0 ${code} -Werror=all-warnings ${ARGN} ${mpi_includes}
            -fatbin -MD -MF ${output}.d -MT ${output} -o ${output} ${source}
    DEPENDS ${source}
    DEPFILE ${output}.d
    COMMENT "Compiling the kernels"
    VERBATIM)
endfunction()
