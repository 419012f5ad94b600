# SPDX-License-Identifier: Apache-2.0
# Other GPU allocators, each in a library that a benchmark loads. One that is not installed, or does not compile, is
# left out, and the benchmarks print the reason.
#
#   bench_peers             the targets that can be built
#   bench_peer_definitions  VRAM_BENCH_PEER_NAME="file", or VRAM_BENCH_NO_NAME="reason"
set(bench_peers)
set(bench_peer_definitions)
set(VRAM_WHEELS ${PROJECT_SOURCE_DIR}/.deps/wheels)
set(VRAM_CCCL_WHEEL_DIR ${VRAM_WHEELS}/nvidia/cu13/include/cccl CACHE PATH "CCCL newer than the Toolkit's")
set(VRAM_RMM_WHEEL_DIR ${VRAM_WHEELS} CACHE PATH "The folder that contains librmm/ and rapids_logger/")
option(VRAM_BENCH_PEERS "Compare with other GPU allocators that are installed" ON)
option(VRAM_BENCH_TORCH "Compare with the PyTorch that python3 imports" ON)

# bench_peer(NAME why INCLUDES directories... LIBRARIES files... DEFINITIONS macros...)
# Adds subjects/NAME.cpp, unless `why` is a reason to leave it out.
function(bench_peer name why)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "INCLUDES;LIBRARIES;DEFINITIONS")
  string(TOUPPER ${name} upper)
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/subjects/${name}.cpp)
  set(includes ${arg_INCLUDES} ${PROJECT_SOURCE_DIR}/include ${CUDAToolkit_INCLUDE_DIRS})
  if(NOT why)
    list(TRANSFORM arg_DEFINITIONS PREPEND -D OUTPUT_VARIABLE definitions)
    set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
    # A success is remembered until one of these files changes. A failure is tried again.
    file(SHA256 ${source} key)
    string(SHA256 key "${key};${arg_LIBRARIES};${includes}")
    if(NOT VRAM_BENCH_${upper}_COMPILES OR NOT "${VRAM_BENCH_${upper}_TRIED}" STREQUAL "${key}")
      message(STATUS "Trying to compile subjects/${name}.cpp")
      unset(VRAM_BENCH_${upper}_COMPILES CACHE)
      try_compile(VRAM_BENCH_${upper}_COMPILES ${CMAKE_CURRENT_BINARY_DIR}/try-${name} SOURCES ${source}
        CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${includes}"
        COMPILE_DEFINITIONS ${definitions} CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON OUTPUT_VARIABLE output)
      file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/try-${name}.log "${output}")
      set(VRAM_BENCH_${upper}_TRIED ${key} CACHE INTERNAL "")
    endif()
    if(NOT VRAM_BENCH_${upper}_COMPILES)
      set(why "its headers do not compile here: ${CMAKE_CURRENT_BINARY_DIR}/try-${name}.log")
    endif()
  endif()
  if(why)
    message(STATUS "Benchmarks without ${name}: ${why}")
    set(bench_peer_definitions ${bench_peer_definitions} "VRAM_BENCH_NO_${upper}=\"${why}\"" PARENT_SCOPE)
    return()
  endif()
  add_library(bench-peer-${name} MODULE ${source})
  target_include_directories(bench-peer-${name} SYSTEM BEFORE PRIVATE ${arg_INCLUDES})
  target_compile_definitions(bench-peer-${name} PRIVATE ${arg_DEFINITIONS})
  target_link_libraries(bench-peer-${name} PRIVATE
    vram::cuda ${arg_LIBRARIES})
  # Without vram_warnings, because a newer peer may deprecate functions.
  set_target_properties(bench-peer-${name} PROPERTIES UNITY_BUILD OFF)
  set(bench_peers ${bench_peers} bench-peer-${name} PARENT_SCOPE)
  set(bench_peer_definitions ${bench_peer_definitions}
    "VRAM_BENCH_PEER_${upper}=\"$<TARGET_FILE:bench-peer-${name}>\"" PARENT_SCOPE)
endfunction()

# --- RMM, from its wheel ----------------------------------------------------------------------------------------------

set(rmm ${VRAM_RMM_WHEEL_DIR}/librmm/lib64/librmm.so)
set(logger ${VRAM_RMM_WHEEL_DIR}/rapids_logger/lib64/librapids_logger.so)
set(why)
if(NOT TARGET vram::cuda)
  set(why "no CUDA Toolkit")
elseif(NOT VRAM_BENCH_PEERS)
  set(why "VRAM_BENCH_PEERS is off")
elseif(NOT EXISTS ${rmm} OR NOT EXISTS ${logger})
  set(why "its wheel is not in ${VRAM_RMM_WHEEL_DIR} (./dev bench fetches it)")
elseif(NOT EXISTS ${VRAM_CCCL_WHEEL_DIR}/cuda/memory_resource)
  set(why "the wheel of CCCL is not in ${VRAM_CCCL_WHEEL_DIR}")
endif()
foreach(peer IN ITEMS rmm rmm_vectors)
  bench_peer(${peer} "${why}"
    INCLUDES ${VRAM_CCCL_WHEEL_DIR} ${VRAM_RMM_WHEEL_DIR}/librmm/include ${VRAM_RMM_WHEEL_DIR}/rapids_logger/include
    LIBRARIES ${rmm} ${logger}
    DEFINITIONS LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE)
endforeach()

# --- PyTorch, the one that python3 imports ----------------------------------------------------------------------------

set(why)
set(torch)
if(NOT TARGET vram::cuda)
  set(why "no CUDA Toolkit")
elseif(NOT VRAM_BENCH_PEERS)
  set(why "VRAM_BENCH_PEERS is off")
elseif(NOT VRAM_BENCH_TORCH)
  set(why "VRAM_BENCH_TORCH is off")
else()
  find_program(python python3 NO_CACHE)
  if(python) # found, not imported: that would take seconds
    execute_process(COMMAND ${python} -c
      "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
      OUTPUT_VARIABLE torch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  if(NOT torch)
    set(why "python3 finds no torch")
  elseif(NOT EXISTS ${torch}/lib/libc10_cuda.so OR NOT EXISTS ${torch}/include/c10/cuda/CUDACachingAllocator.h)
    set(why "${torch} has no C++ library for CUDA")
  endif()
endif()
set(definitions)
if(EXISTS ${torch}/include/c10/core/AllocatorConfig.h) # where newer versions take their settings
  file(STRINGS ${torch}/include/c10/core/AllocatorConfig.h in_core REGEX "void setAllocatorSettings")
  if(in_core)
    set(definitions DEFINITIONS BENCH_TORCH_SETTINGS_IN_CORE)
  endif()
endif()
bench_peer(torch "${why}"
  ${definitions}
  INCLUDES ${torch}/include
  LIBRARIES ${torch}/lib/libc10.so ${torch}/lib/libc10_cuda.so)
