# SPDX-License-Identifier: Apache-2.0
# find_package(vram): vram::vram, and vram::cuda if a CUDA Toolkit is found.
# find_package(vram COMPONENTS cuda) fails if none is found, and says why.
cmake_policy(VERSION 3.25) # of this file only
include(${CMAKE_CURRENT_LIST_DIR}/vram-usage.cmake)

vram_cuda(_vram_problem)
set(vram_cuda_FOUND FALSE)
if(TARGET vram::cuda)
  set(vram_cuda_FOUND TRUE)
elseif(NOT vram_FIND_QUIETLY AND NOT "cuda" IN_LIST vram_FIND_COMPONENTS)
  message(STATUS "vram: without the target vram::cuda: ${_vram_problem}")
endif()

set(_vram_usable TRUE)
foreach(_vram_component IN LISTS vram_FIND_COMPONENTS)
  if(vram_FIND_REQUIRED_${_vram_component} AND NOT vram_${_vram_component}_FOUND)
    set(_vram_usable FALSE)
    if(_vram_component STREQUAL "cuda")
      set(vram_NOT_FOUND_MESSAGE "vram: the component 'cuda' cannot be used: ${_vram_problem}")
    else()
      set(vram_NOT_FOUND_MESSAGE "vram has no component '${_vram_component}'; its only one is 'cuda'")
    endif()
  endif()
endforeach()

if(NOT _vram_usable)
  set(vram_FOUND FALSE)
elseif(NOT TARGET vram::vram)
  include(${CMAKE_CURRENT_LIST_DIR}/vram-targets.cmake)
  vram_usage(vram::vram)
endif()
unset(_vram_component)
unset(_vram_problem)
unset(_vram_usable)
