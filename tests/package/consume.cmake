# SPDX-License-Identifier: Apache-2.0
# The common end of the consumer projects: what vram hands over must be enough, and must be all.
add_executable(consumer ${CMAKE_CURRENT_LIST_DIR}/main.cpp)
target_link_libraries(consumer PRIVATE vram::vram)

get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if(NOT languages STREQUAL "CXX")
  message(FATAL_ERROR "vram enabled a language for its user: ${languages}")
endif()
get_target_property(options vram::vram INTERFACE_COMPILE_OPTIONS)
if(options)
  message(FATAL_ERROR "vram forces compiler flags on its user: ${options}")
endif()
if(TARGET vram-tests OR TARGET vram_warnings)
  message(FATAL_ERROR "vram brings its tests to its user")
endif()

# Where a CUDA Toolkit is found, vram::cuda must be usable from here as well.
if(TARGET vram::cuda)
  add_executable(consumer_cuda ${CMAKE_CURRENT_LIST_DIR}/main.cpp)
  target_link_libraries(consumer_cuda PRIVATE vram::cuda)
endif()
