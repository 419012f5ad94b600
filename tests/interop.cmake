# SPDX-License-Identifier: Apache-2.0
# tests/interop/LIBRARY*.cpp, once for each copy of LIBRARY that is found. They run on the double of the CUDA runtime
# if it is built; RMM's own library still needs a device.
file(GLOB cccl_tests CONFIGURE_DEPENDS interop/mr*.cpp interop/thrust*.cpp interop/cub*.cpp)
file(GLOB rmm_tests CONFIGURE_DEPENDS interop/rmm*.cpp)

if(TARGET vram-cudart-double)
  set(runtime vram-cudart-double)
else()
  set(runtime vram::cuda)
endif()

# The include directory of a CCCL comes before that of the Toolkit, which contains another CCCL.
function(vram_cccl name directory)
  add_library(${name} INTERFACE)
  target_include_directories(${name} SYSTEM BEFORE INTERFACE ${directory})
endfunction()

foreach(directory IN LISTS CUDAToolkit_INCLUDE_DIRS)
  if(EXISTS ${directory}/cccl/cuda/memory_resource AND NOT TARGET vram-cccl-toolkit)
    vram_cccl(vram-cccl-toolkit ${directory}/cccl)
  endif()
endforeach()
if(EXISTS ${VRAM_CCCL_WHEEL_DIR}/cuda/memory_resource)
  vram_cccl(vram-cccl-wheel ${VRAM_CCCL_WHEEL_DIR})
endif()

foreach(cccl IN ITEMS toolkit wheel)
  if(cccl_tests AND TARGET vram-cccl-${cccl})
    vram_tests(vram-tests-cccl-${cccl} SOURCES ${cccl_tests} LINK vram-cccl-${cccl} ${runtime})
  endif()
endforeach()

# Every way to end a process with objects of these libraries.
foreach(cccl IN ITEMS toolkit wheel)
  if(NOT only_threads AND TARGET vram-cccl-${cccl} AND TARGET vram-cudart-double AND (cccl STREQUAL "toolkit" OR NOT VRAM_QUICK))
    add_executable(exit-programs-${cccl} exit/interop.cpp)
    target_link_libraries(exit-programs-${cccl} PRIVATE vram-cccl-${cccl} vram-cudart-double vram_warnings)
    add_test(NAME exit/interop-${cccl} COMMAND exit-programs-${cccl})
    set_tests_properties(exit/interop-${cccl} PROPERTIES TIMEOUT 300)
  endif()
endforeach()
if(VRAM_ON_DEVICE AND NOT only_threads AND TARGET vram-cccl-toolkit)
  add_executable(exit-programs-interop exit/interop.cpp)
  target_link_libraries(exit-programs-interop PRIVATE vram-cccl-toolkit vram::cuda vram_warnings)
  add_test(NAME exit/interop
    COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:exit-programs-interop> -P ${CMAKE_CURRENT_SOURCE_DIR}/on_device.cmake)
  set_tests_properties(exit/interop PROPERTIES TIMEOUT 900 RESOURCE_LOCK device SKIP_REGULAR_EXPRESSION "(^|\n)skipped: ")
endif()

set(rmm_library ${VRAM_RMM_WHEEL_DIR}/librmm/lib64/librmm.so)
set(rmm_logger ${VRAM_RMM_WHEEL_DIR}/rapids_logger/lib64/librapids_logger.so)
if(EXISTS ${rmm_library} AND TARGET vram-cccl-wheel)
  add_library(vram-rmm INTERFACE)
  target_include_directories(vram-rmm SYSTEM INTERFACE
    ${VRAM_RMM_WHEEL_DIR}/librmm/include ${VRAM_RMM_WHEEL_DIR}/rapids_logger/include)
  target_compile_definitions(vram-rmm INTERFACE LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE)
  target_link_libraries(vram-rmm INTERFACE vram-cccl-wheel ${rmm_library} ${rmm_logger})
  if(rmm_tests)
    vram_tests(vram-tests-rmm SOURCES ${rmm_tests} LINK vram-rmm ${runtime})
  endif()
  if(VRAM_BUILD_EXAMPLES AND NOT VRAM_QUICK)
    add_executable(example-interop-rmm ${PROJECT_SOURCE_DIR}/examples/interop/rmm.cpp)
    target_link_libraries(example-interop-rmm PRIVATE vram-rmm vram::cuda vram_warnings)
    add_test(NAME examples/interop/rmm.cpp COMMAND ${CMAKE_COMMAND}
      -D PROGRAM=$<TARGET_FILE:example-interop-rmm> -P ${CMAKE_CURRENT_SOURCE_DIR}/on_device.cmake)
    set_tests_properties(examples/interop/rmm.cpp PROPERTIES SKIP_REGULAR_EXPRESSION "(^|\n)skipped: ")
  endif()
endif()

# The test that nvcc compiles. The Toolkit's include directory has nv/target of the Toolkit's CCCL, and nvcc reads it before
# system directories, so the wheel's is not one.
if(VRAM_HAS_NVCC AND NOT VRAM_QUICK)
  if(EXISTS ${rmm_library} AND EXISTS ${VRAM_CCCL_WHEEL_DIR}/cuda/memory_resource)
    add_library(vram-rmm-nvcc INTERFACE)
    target_include_directories(vram-rmm-nvcc BEFORE INTERFACE ${VRAM_CCCL_WHEEL_DIR})
    target_include_directories(vram-rmm-nvcc SYSTEM INTERFACE
      ${VRAM_RMM_WHEEL_DIR}/librmm/include ${VRAM_RMM_WHEEL_DIR}/rapids_logger/include)
    target_compile_definitions(vram-rmm-nvcc INTERFACE LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE)
    target_link_libraries(vram-rmm-nvcc INTERFACE ${rmm_library} ${rmm_logger})
    vram_tests(vram-tests-rmm-nvcc SOURCES interop/rmm.cu hardware.cpp LINK vram-rmm-nvcc vram::cuda)
  else()
    add_test(NAME vram-tests-rmm-nvcc COMMAND ${CMAKE_COMMAND} -E echo "RMM was not found: librmm-cu13, nvidia-cuda-cccl")
    set_tests_properties(vram-tests-rmm-nvcc PROPERTIES SKIP_REGULAR_EXPRESSION "not found")
  endif()
endif()

# The headers for tools that read NVTX, with a tool that is linked with the tests. Older versions of NVTX have no counters.
find_path(vram_nvtx_folder nvtx3/nvToolsExtCounters.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_CACHE)
if(vram_nvtx_folder)
  file(GLOB nvtx_tests CONFIGURE_DEPENDS interop/nvtx*.cpp interop/core/nvtx*.cpp)
  add_library(vram-nvtx-tool OBJECT doubles/nvtx/tool.cpp)
  target_include_directories(vram-nvtx-tool SYSTEM PUBLIC ${vram_nvtx_folder})
  target_link_libraries(vram-nvtx-tool PUBLIC vram::vram PRIVATE vram_warnings)
  vram_tests(vram-tests-nvtx SOURCES ${nvtx_tests} LINK vram-nvtx-tool)

  # The tool as a library that the environment names, and no tool.
  if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
    add_library(vram-nvtx-library MODULE doubles/nvtx/tool.cpp)
    add_executable(nvtx-loaded doubles/nvtx/loaded.cpp)
    foreach(target IN ITEMS vram-nvtx-library nvtx-loaded)
      target_include_directories(${target} SYSTEM PRIVATE ${vram_nvtx_folder})
      target_link_libraries(${target} PRIVATE vram::vram ${CMAKE_DL_LIBS} vram_warnings)
    endforeach()
    add_test(NAME nvtx/none COMMAND nvtx-loaded 0)
    add_test(NAME nvtx/library COMMAND nvtx-loaded 1)
    set_tests_properties(nvtx/library PROPERTIES PASS_REGULAR_EXPRESSION "groups 2, heaps 0, regions 0, wrong 0"
      FAIL_REGULAR_EXPRESSION "not as wanted"
      ENVIRONMENT "NVTX_INJECTION64_PATH=$<TARGET_FILE:vram-nvtx-library>;VRAM_NVTX_SUMMARY=1")
  endif()

  # Planted faults in blocks of each pool, which compute-sanitizer must report.
  add_test(NAME sanitizer/planted.py COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/sanitizer/planted.py --self-test)
  if(VRAM_HAS_NVCC)
    add_executable(planted-faults sanitizer/planted.cu)
    target_link_libraries(planted-faults PRIVATE vram::cuda vram_warnings)
    add_test(NAME sanitizer/planted COMMAND ${Python3_EXECUTABLE} -B
      ${CMAKE_CURRENT_SOURCE_DIR}/sanitizer/planted.py $<TARGET_FILE:planted-faults>)
    set_tests_properties(sanitizer/planted PROPERTIES TIMEOUT 1800 RESOURCE_LOCK device SKIP_REGULAR_EXPRESSION "(^|\n)skipped: ")
  endif()
endif()
