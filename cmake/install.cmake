# What `cmake --install` puts where: headers, both libraries, tools, manual pages, the CMake package and the pkg-config
# file. The prefix may be moved afterwards; only MPI is named by the place where the build found it.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/peerwin)

install(TARGETS peerwin peerwin_static EXPORT peerwinTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/peerwin DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh")
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
foreach(tool peerwin-info peerwin-bench)
  if(TARGET ${tool})
    install(TARGETS ${tool} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
add_subdirectory(man)

install(EXPORT peerwinTargets NAMESPACE peerwin:: DESTINATION ${package_dir})
configure_package_config_file(cmake/peerwinConfig.cmake.in ${CMAKE_BINARY_DIR}/package/peerwinConfig.cmake
  INSTALL_DESTINATION ${package_dir})
# ABI stability within a major version begins with 1.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(compatibility SameMinorVersion)
else()
  set(compatibility SameMajorVersion)
endif()
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/peerwinConfigVersion.cmake COMPATIBILITY ${compatibility})
install(FILES ${CMAKE_BINARY_DIR}/package/peerwinConfig.cmake ${CMAKE_BINARY_DIR}/package/peerwinConfigVersion.cmake
  DESTINATION ${package_dir})

# pkg-config: the directories are written from the file's own place, so that the prefix can be moved.
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
foreach(kind INCLUDEDIR LIBDIR)
  string(TOLOWER ${kind} name)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${kind}}")
    set(pc_${name} ${CMAKE_INSTALL_${kind}})
  else()
    set(pc_${name} "\${prefix}/${CMAKE_INSTALL_${kind}}")
  endif()
endforeach()
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH pc_up "/prefix/${pc_dir}" "/prefix")
  string(REGEX REPLACE "/$" "" pc_up "${pc_up}")
  set(pc_prefix "\${pcfiledir}/${pc_up}")
endif()
# Plain cc is to work, so MPI's own directories and libraries are spelled out; with mpicc they do no harm.
list(TRANSFORM MPI_C_INCLUDE_DIRS PREPEND "-I" OUTPUT_VARIABLE pc_mpi_cflags)
list(APPEND pc_mpi_cflags ${MPI_C_COMPILE_OPTIONS})
foreach(definition IN LISTS MPI_C_COMPILE_DEFINITIONS)
  list(APPEND pc_mpi_cflags "-D${definition}")
endforeach()
list(REMOVE_DUPLICATES pc_mpi_cflags)
list(JOIN pc_mpi_cflags " " pc_mpi_cflags)
set(pc_mpi_libs ${MPI_C_LINK_FLAGS} ${MPI_C_LIBRARIES})
list(JOIN pc_mpi_libs " " pc_mpi_libs)
set(pc_private_libs ${CMAKE_THREAD_LIBS_INIT} ${CMAKE_DL_LIBS})
list(REMOVE_DUPLICATES pc_private_libs)
list(TRANSFORM pc_private_libs REPLACE "^([^-/].*)$" "-l\\1")
list(JOIN pc_private_libs " " pc_private_libs)
configure_file(cmake/peerwin.pc.in ${CMAKE_BINARY_DIR}/package/peerwin.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/package/peerwin.pc DESTINATION ${pc_dir})
