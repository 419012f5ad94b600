# SPDX-License-Identifier: Apache-2.0
# Defines vram::cuda where a CUDA Toolkit is found. Read by the build tree and by the installed package alike.
find_package(CUDAToolkit 12.8 QUIET)
if(CUDAToolkit_FOUND AND NOT TARGET vram::cuda)
  add_library(vram::cuda INTERFACE IMPORTED GLOBAL)
  # ${CMAKE_DL_LIBS}: NVML and the newest driver calls are looked up at run time.
  target_link_libraries(vram::cuda INTERFACE vram::vram CUDA::cudart ${CMAKE_DL_LIBS})
endif()
