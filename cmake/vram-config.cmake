# SPDX-License-Identifier: Apache-2.0
# find_package(vram): vram::vram, and vram::cuda where a CUDA Toolkit is found.
# find_package(vram COMPONENTS cuda) insists on the second.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/vram-targets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/vram-cuda.cmake)

if(TARGET vram::cuda)
  set(vram_cuda_FOUND TRUE)
endif()
foreach(component IN LISTS vram_FIND_COMPONENTS)
  if(vram_FIND_REQUIRED_${component} AND NOT vram_${component}_FOUND)
    set(vram_FOUND FALSE)
    set(vram_NOT_FOUND_MESSAGE "vram: the component '${component}' needs a CUDA Toolkit, and none is found")
  endif()
endforeach()
