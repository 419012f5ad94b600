# SPDX-License-Identifier: Apache-2.0
# The requirements of vram's targets on the project that uses them. Read by the build tree and by the installed package. All of
# it is in functions, so that no variable of that project changes.

# vram_usage(TARGET [BUILD_INTERFACE]): properties that depend on the CMake and on the languages of the project.
function(vram_usage target)
  set(cuda_20 cuda_std_20)
  set(option)
  if(CMAKE_VERSION VERSION_LESS 3.25.2) # it does not know that nvcc 12 and later compile C++20
    set(cuda_20)
    set(option $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
  endif()

  set(threads pthread) # find_package(Threads) fails in a project that is CUDA only
  if(CMAKE_C_COMPILER_LOADED OR CMAKE_CXX_COMPILER_LOADED)
    find_package(Threads QUIET)
    if(TARGET Threads::Threads)
      set(threads Threads::Threads)
    endif()
  endif()

  if("BUILD_INTERFACE" IN_LIST ARGN) # the installed package decides again
    foreach(value IN ITEMS cuda_20 option threads)
      if(${value})
        set(${value} $<BUILD_INTERFACE:${${value}}>)
      endif()
    endforeach()
  endif()
  set_property(TARGET ${target} APPEND PROPERTY INTERFACE_COMPILE_FEATURES ${cuda_20})
  set_property(TARGET ${target} APPEND PROPERTY INTERFACE_COMPILE_OPTIONS ${option})
  set_property(TARGET ${target} APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${threads})
endfunction()

# vram_cuda(PROBLEM): defines vram::cuda, or says in the variable PROBLEM why not.
function(vram_cuda problem)
  set(needed 12.8)
  set(${problem} "" PARENT_SCOPE)
  if(TARGET vram::cuda)
    return()
  endif()
  if(NOT (CUDAToolkit_FOUND AND TARGET CUDA::cudart)) # the project's own, if it has one
    # The search of CMake 3.25.0 fails with Toolkits that have no nvToolsExt (13.0), at a warning for projects of 3.25 and
    # later.
    set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
    # It also looks for Threads, which fails if a compiler is set and its language is not enabled.
    foreach(language IN ITEMS C CXX)
      if(NOT CMAKE_${language}_COMPILER_LOADED)
        set(CMAKE_${language}_COMPILER "")
      endif()
    endforeach()
    find_package(CUDAToolkit QUIET)
  endif()
  if(NOT TARGET CUDA::cudart)
    set(${problem} "no CUDA Toolkit was found, vram::cuda needs ${needed} or later" PARENT_SCOPE)
  elseif(CUDAToolkit_VERSION VERSION_LESS needed)
    string(REGEX MATCH "^[0-9]+\\.[0-9]+" found "${CUDAToolkit_VERSION}")
    set(${problem} "CUDA Toolkit: found ${found}, vram::cuda needs ${needed}" PARENT_SCOPE)
  else()
    add_library(vram::cuda INTERFACE IMPORTED) # visible like vram::vram
    # CMake links the runtime to targets with CUDA sources, by default statically, so those do not get a second copy here.
    # ${CMAKE_DL_LIBS}: NVML and the newest driver calls are looked up at run time.
    target_link_libraries(vram::cuda INTERFACE vram::vram CUDA::toolkit $<$<NOT:$<LINK_LANGUAGE:CUDA>>:CUDA::cudart>
      ${CMAKE_DL_LIBS})
    # CUDA 13 has CCCL in a folder that only nvcc knows. It is the last one to be searched, so that a CCCL of the project is used.
    get_target_property(folders CUDA::toolkit INTERFACE_INCLUDE_DIRECTORIES)
    foreach(folder IN LISTS folders)
      if(EXISTS ${folder}/cccl/cuda/memory_resource)
        target_compile_options(vram::cuda INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-idirafter${folder}/cccl>)
      endif()
    endforeach()
  endif()
endfunction()
