# SPDX-License-Identifier: Apache-2.0
# Defines vram::cuda where a CUDA Toolkit is found. Read by the build tree and by the installed package alike.
#
# The search of CMake 3.25 fails on Toolkits that have no nvToolsExt any more (13.0), at a warning that only projects for
# 3.25 or newer would get: so it is told of an older one.
set(vram_minimum ${CMAKE_MINIMUM_REQUIRED_VERSION})
set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
find_package(CUDAToolkit 12.8 QUIET)
set(CMAKE_MINIMUM_REQUIRED_VERSION ${vram_minimum})
unset(vram_minimum)
if(CUDAToolkit_FOUND AND NOT TARGET vram::cuda)
  add_library(vram::cuda INTERFACE IMPORTED) # seen where vram::vram is
  # ${CMAKE_DL_LIBS}: NVML and the newest driver calls are looked up at run time.
  target_link_libraries(vram::cuda INTERFACE vram::vram CUDA::cudart ${CMAKE_DL_LIBS})
endif()
