# CUDA is found, never required: only its headers are needed to build, and a driver to run. Sets peerwin_cuda_include, empty
# without CUDA.
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
