# SPDX-License-Identifier: Apache-2.0
# The installed package: headers, CMake package files, vram.pc. The rules exist even if VRAM_INSTALL is off, because
# a project that links vram can export its own libraries only then; `cmake --install` then leaves them out.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/vram) # share/: nothing in it depends on the architecture
set(rule COMPONENT vram)
if(NOT VRAM_INSTALL)
  list(APPEND rule EXCLUDE_FROM_ALL)
endif()

install(TARGETS vram EXPORT vram-targets FILE_SET HEADERS ${rule})
install(EXPORT vram-targets NAMESPACE vram:: DESTINATION ${package_dir} ${rule})

write_basic_package_version_file(${PROJECT_BINARY_DIR}/vram-config-version.cmake
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES cmake/vram-config.cmake cmake/vram-usage.cmake ${PROJECT_BINARY_DIR}/vram-config-version.cmake
  DESTINATION ${package_dir} ${rule})

# Relative to the file itself, so that an installed tree may be moved, unless a folder is an absolute path.
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(pc_includedir ${CMAKE_INSTALL_INCLUDEDIR})
elseif(IS_ABSOLUTE "${CMAKE_INSTALL_DATADIR}")
  set(pc_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
  file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_DATADIR}/pkgconfig /)
  set(pc_includedir \${pcfiledir}/${pc_to_prefix}${CMAKE_INSTALL_INCLUDEDIR})
endif()
configure_file(cmake/vram.pc.in vram.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/vram.pc DESTINATION ${CMAKE_INSTALL_DATADIR}/pkgconfig ${rule})

# The same package in the build tree, for export() of a project that links vram.
export(EXPORT vram-targets NAMESPACE vram:: FILE ${PROJECT_BINARY_DIR}/vram-targets.cmake)
file(COPY cmake/vram-config.cmake cmake/vram-usage.cmake DESTINATION ${PROJECT_BINARY_DIR})
