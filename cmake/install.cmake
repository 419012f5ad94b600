# SPDX-License-Identifier: Apache-2.0
# The installed package: headers, CMake package files, vram.pc.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/vram) # share/: nothing in it depends on the architecture

install(TARGETS vram EXPORT vram-targets FILE_SET HEADERS)
install(EXPORT vram-targets NAMESPACE vram:: DESTINATION ${package_dir})

write_basic_package_version_file(${PROJECT_BINARY_DIR}/vram-config-version.cmake
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES cmake/vram-config.cmake cmake/vram-cuda.cmake ${PROJECT_BINARY_DIR}/vram-config-version.cmake
  DESTINATION ${package_dir})

# Relative to the file itself, so that an installed tree may be moved.
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_DATADIR}/pkgconfig /)
configure_file(cmake/vram.pc.in vram.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/vram.pc DESTINATION ${CMAKE_INSTALL_DATADIR}/pkgconfig)
