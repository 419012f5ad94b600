# SPDX-License-Identifier: Apache-2.0
# cmake -D WAY=... -D SOURCE=... -D BUILD=... -D GENERATOR=... -D COMPILER=... -P run.cmake
# Builds and runs the consumer project WAY from nothing. pkg_config has no project: the compiler is called directly.
file(REMOVE_RECURSE ${BUILD})
file(MAKE_DIRECTORY ${BUILD})

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(common -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${COMPILER})

if(WAY MATCHES "find_package|pkg_config")
  run(${CMAKE_COMMAND} -S ${SOURCE} -B ${BUILD}/vram ${common}
    -D VRAM_BUILD_TESTS=OFF -D VRAM_BUILD_EXAMPLES=OFF -D CMAKE_INSTALL_PREFIX=${BUILD}/first)
  run(${CMAKE_COMMAND} --install ${BUILD}/vram)
  file(RENAME ${BUILD}/first ${BUILD}/prefix) # an installed tree may be moved
endif()

if(WAY STREQUAL "pkg_config")
  find_program(pkg_config NAMES pkg-config pkgconf)
  if(NOT pkg_config)
    message("skipped: package/pkg_config: pkg-config is not installed")
    return()
  endif()
  set(ENV{PKG_CONFIG_PATH} ${BUILD}/prefix/share/pkgconfig)
  execute_process(COMMAND ${pkg_config} --cflags --libs vram COMMAND_ERROR_IS_FATAL ANY
    OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run(${COMPILER} -std=c++20 ${CMAKE_CURRENT_LIST_DIR}/main.cpp ${flags} -o ${BUILD}/consumer)
  run(${BUILD}/consumer)
  return()
endif()

run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/${WAY} -B ${BUILD}/consumer ${common}
  -D CMAKE_PREFIX_PATH=${BUILD}/prefix -D VRAM_SOURCE=${SOURCE} -D FETCHCONTENT_SOURCE_DIR_VRAM=${SOURCE})
run(${CMAKE_COMMAND} --build ${BUILD}/consumer)
run(${BUILD}/consumer/consumer)
