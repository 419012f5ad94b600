# SPDX-License-Identifier: Apache-2.0
# The compile options of vram's own tests, examples and benchmarks.

add_library(vram_warnings INTERFACE)
# In clang -Wconversion includes conversions of signs, in g++ it does not. These warnings are those of g++.
set(warnings -Wall -Wextra -Wconversion -Wno-sign-conversion $<$<BOOL:${VRAM_WERROR}>:-Werror>)
if(NOT CMAKE_UNITY_BUILD) # in files that are compiled together, a local name of one may be a global name of another
  list(APPEND warnings -Wshadow)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
  list(APPEND warnings -Wno-tsan) # it does not support fences, and warns of them
endif()
list(JOIN warnings "," warnings_for_nvcc)
target_compile_options(vram_warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${warnings};-Wpedantic>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${warnings_for_nvcc}>"
  "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${VRAM_WERROR}>>:-Werror=all-warnings>")

# Options that make g++ faster without optimisation: no garbage collection below a gigabyte, and no calls of std::move.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(vram_warnings INTERFACE
    "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Debug>>:-pipe;--param=ggc-min-heapsize=1000000;-ffold-simple-inlines>")
endif()

# Clang's sanitizers as a shared library: otherwise theirs would replace the operators of tests/doubles/bombing.hpp.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_FLAGS MATCHES "-fsanitize=(address|thread)")
  string(REGEX REPLACE ".*-fsanitize=(a|t)(ddress|hread).*" "\\1san" sanitizer "${CMAKE_CXX_FLAGS}")
  execute_process(OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE sanitizer_library COMMAND
    ${CMAKE_CXX_COMPILER} -print-file-name=libclang_rt.${sanitizer}-${CMAKE_SYSTEM_PROCESSOR}.so)
  get_filename_component(sanitizer_folder "${sanitizer_library}" DIRECTORY)
  target_link_options(vram_warnings INTERFACE -shared-libsan -Wl,-rpath,${sanitizer_folder})
endif()

if(TARGET CUDA::toolkit)
  get_target_property(CUDAToolkit_INCLUDE_DIRS CUDA::toolkit INTERFACE_INCLUDE_DIRECTORIES)
endif()

# nvcc, for the .cu files. The lookup follows the Toolkit that vram::cuda uses, so both are one Toolkit.
if(VRAM_ON_DEVICE AND TARGET vram::cuda AND NOT CMAKE_CUDA_COMPILER)
  if(NOT DEFINED ENV{CUDACXX} AND EXISTS "${CUDAToolkit_NVCC_EXECUTABLE}")
    set(CMAKE_CUDA_COMPILER "${CUDAToolkit_NVCC_EXECUTABLE}")
  endif()
  include(CheckLanguage)
  check_language(CUDA)
endif()
if(VRAM_ON_DEVICE AND CMAKE_CUDA_COMPILER)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 75) # with its PTX: newer devices compile that when the program is loaded
  endif()
  enable_language(CUDA)
  set(VRAM_HAS_NVCC ON)
endif()
