# SPDX-License-Identifier: Apache-2.0
# Checks of the tree itself. Each script ends in a "tally:" line when it checks more than one thing.
set(python ${Python3_EXECUTABLE} -B)
set(scripts ${PROJECT_SOURCE_DIR}/cmake)

add_test(NAME layering COMMAND ${python} ${scripts}/layering.py ${PROJECT_SOURCE_DIR}/include/vram)
add_test(NAME layering/planted COMMAND ${python} ${scripts}/layering.py --self-test)

add_test(NAME requires COMMAND ${python} ${scripts}/requires.py ${PROJECT_SOURCE_DIR}/include/vram)
add_test(NAME requires/planted COMMAND ${python} ${scripts}/requires.py --self-test)

add_test(NAME covered COMMAND ${python} ${scripts}/covered.py ${PROJECT_SOURCE_DIR})
add_test(NAME covered/planted COMMAND ${python} ${scripts}/covered.py --self-test)

add_test(NAME includes COMMAND ${python} ${scripts}/includes.py ${CMAKE_CURRENT_SOURCE_DIR})
add_test(NAME includes/planted COMMAND ${python} ${scripts}/includes.py --self-test)

add_test(NAME snippets COMMAND ${python} ${scripts}/snippets.py --check ${PROJECT_SOURCE_DIR})
add_test(NAME snippets/planted COMMAND ${python} ${scripts}/snippets.py --self-test)

if(TARGET vram::cuda)
  set(tested_versions ${CUDAToolkit_INCLUDE_DIRS})
  list(TRANSFORM tested_versions APPEND /cccl)
  list(APPEND tested_versions ${VRAM_CCCL_WHEEL_DIR})
  add_test(NAME docs/versions COMMAND ${python} ${scripts}/versions.py --check ${tested_versions} --rmm ${VRAM_RMM_WHEEL_DIR})
  set_tests_properties(docs/versions PROPERTIES SKIP_REGULAR_EXPRESSION "(^|\n)skipped: ")
endif()
add_test(NAME docs/versions/planted COMMAND ${python} ${scripts}/versions.py --self-test)

add_test(NAME mutants COMMAND ${python} ${CMAKE_CURRENT_SOURCE_DIR}/mutants.py --check) # their lines are still there

# Compiles every header for users alone, and the internal ones of a folder in one unit (./dev test --record compiles each
# of them alone), with one ctest for each folder so that they run in parallel; with VRAM_QUICK all headers in one unit,
# because the test of each header includes it first.
set(headers_command ${python} ${scripts}/headers.py --compiler ${CMAKE_CXX_COMPILER})
if(TARGET vram::cuda)
  list(JOIN CUDAToolkit_INCLUDE_DIRS ":" toolkit_includes)
  list(APPEND headers_command --toolkit ${toolkit_includes})
endif()
if(EXISTS ${VRAM_CCCL_WHEEL_DIR})
  list(APPEND headers_command --wheels ${VRAM_RMM_WHEEL_DIR})
endif()
file(GLOB room_folders CONFIGURE_DEPENDS LIST_DIRECTORIES true ${PROJECT_SOURCE_DIR}/include/vram/*)
foreach(folder IN LISTS room_folders)
  if(NOT VRAM_QUICK AND (folder MATCHES "\\.hpp$" OR IS_DIRECTORY ${folder}))
    get_filename_component(room ${folder} NAME)
    add_test(NAME headers/${room} COMMAND ${headers_command} --for-users ${room})
  endif()
endforeach()
add_test(NAME headers/together COMMAND ${headers_command} --together)
if(NOT VRAM_QUICK AND EXISTS ${VRAM_OLDEST_TOOLKIT_DIR}/cuda_runtime/include)
  add_test(NAME headers/oldest_toolkit COMMAND ${python} ${scripts}/headers.py --compiler ${CMAKE_CXX_COMPILER} --by-room
    --toolkit ${VRAM_OLDEST_TOOLKIT_DIR}/cuda_runtime/include:${VRAM_OLDEST_TOOLKIT_DIR}/cuda_nvcc/include cuda)
endif()

# The machine code of pools without an observer.
if(NOT VRAM_QUICK AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_test(NAME observation_cost COMMAND ${python} ${scripts}/observation_cost.py --compiler ${CMAKE_CXX_COMPILER}
    ${PROJECT_SOURCE_DIR})
  set_tests_properties(observation_cost PROPERTIES TIMEOUT 300)
endif()

# Programs that must not compile, each with the diagnostic that it states, for every compiler found.
add_test(NAME refuse/planted COMMAND ${python} ${scripts}/refuse.py --self-test)
set(refusing_compilers ${CMAKE_CXX_COMPILER})
find_program(VRAM_OTHER_GXX NAMES g++)
find_program(clang NAMES clang++-21 clang++-20 clang++-19 clang++-18 clang++-17 clang++-16 NO_CACHE) # not an older clang++
mark_as_advanced(VRAM_OTHER_GXX)
if(VRAM_OTHER_GXX AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND refusing_compilers ${VRAM_OTHER_GXX})
endif()
if(clang AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  list(APPEND refusing_compilers ${clang})
endif()
if(TARGET vram::cuda AND CUDAToolkit_NVCC_EXECUTABLE)
  list(APPEND refusing_compilers ${CUDAToolkit_NVCC_EXECUTABLE})
endif()
if(VRAM_QUICK)
  set(refusing_compilers ${CMAKE_CXX_COMPILER})
endif()
set(refusing_options "")
if(TARGET vram::cuda)
  list(APPEND refusing_options --toolkit ${toolkit_includes})
endif()
if(EXISTS ${VRAM_CCCL_WHEEL_DIR}/cuda/memory_resource)
  list(APPEND refusing_options --cccl ${VRAM_CCCL_WHEEL_DIR})
endif()
file(GLOB refusals CONFIGURE_DEPENDS refuse/*.cpp)
foreach(compiler IN LISTS refusing_compilers)
  get_filename_component(called ${compiler} NAME)
  add_test(NAME refuse/${called} COMMAND ${python} ${scripts}/refuse.py ${refusing_options} ${compiler} ${refusals})
  set_tests_properties(refuse/${called} PROPERTIES TIMEOUT 600)
endforeach()

# Also if nvcc compiles nothing else in this build.
set(nvcc ${CMAKE_CUDA_COMPILER})
if(NOT nvcc AND TARGET vram::cuda AND EXISTS "${CUDAToolkit_NVCC_EXECUTABLE}")
  set(nvcc ${CUDAToolkit_NVCC_EXECUTABLE})
endif()

# The warnings of compilers without vram's options: this one, a clang and nvcc, if they exist.
set(compilers ${CMAKE_CXX_COMPILER})
if(clang AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  list(APPEND compilers ${clang})
endif()
if(nvcc)
  list(APPEND compilers ${nvcc})
endif()
set(options)
if(TARGET vram::cuda)
  set(options --toolkit ${toolkit_includes})
endif()
add_test(NAME requirements COMMAND ${python} ${scripts}/requirements.py ${options} ${compilers})

# Programs of users, optimised and with warnings as errors: the tests are not optimised, so -Wmaybe-uninitialized
# finds nothing there.
set(warnings_options)
if(TARGET vram::cuda)
  set(warnings_options --toolkit ${toolkit_includes})
endif()
add_test(NAME warnings/planted COMMAND ${python} ${scripts}/user_warnings.py --compiler ${CMAKE_CXX_COMPILER} --self-test)
set(warned record_history)
if(VRAM_QUICK)
  set(warned feed_loop)
endif()
add_test(NAME warnings/${warned} COMMAND ${python} ${scripts}/user_warnings.py ${warnings_options}
  --compiler ${CMAKE_CXX_COMPILER} ${PROJECT_SOURCE_DIR}/examples/${warned}.cpp)
if(NOT VRAM_QUICK)
  set(programs feed_loop stream_results stage sharing find_a_leak name_the_owners)
  list(TRANSFORM programs REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/examples/\\1.cpp")
  add_test(NAME warnings/together COMMAND ${python} ${scripts}/user_warnings.py ${warnings_options}
    --compiler ${CMAKE_CXX_COMPILER} --together ${programs})
endif()
if(nvcc AND NOT VRAM_QUICK)
  add_test(NAME warnings/nvcc COMMAND ${python} ${scripts}/user_warnings.py --compiler ${nvcc}
    ${PROJECT_SOURCE_DIR}/examples/feed_loop.cpp)
endif()
if(clang AND NOT VRAM_QUICK AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_test(NAME warnings/clang COMMAND ${python} ${scripts}/user_warnings.py ${warnings_options} --compiler ${clang}
    ${PROJECT_SOURCE_DIR}/examples/feed_loop.cpp)
endif()

# A user's project for each way to use vram. run.cmake describes each.
set(package_options)
if(nvcc)
  list(APPEND package_options -D NVCC=${nvcc})
endif()
if(TARGET vram::cuda)
  list(GET CUDAToolkit_INCLUDE_DIRS 0 toolkit)
  get_filename_component(toolkit "${toolkit}" DIRECTORY)
  list(APPEND package_options -D TOOLKIT=${toolkit})
endif()
set(ways find_package add_subdirectory)
if(NOT VRAM_QUICK)
  list(APPEND ways fetch_content pkg_config added_twice found_and_added cuda_only older_toolkit exported conan)
endif()
foreach(way IN LISTS ways)
  add_test(NAME package/${way} COMMAND ${CMAKE_COMMAND} -D WAY=${way} -D SOURCE=${PROJECT_SOURCE_DIR}
    -D BUILD=${PROJECT_BINARY_DIR}/package/${way} -D GENERATOR=${CMAKE_GENERATOR} -D COMPILER=${CMAKE_CXX_COMPILER}
    ${package_options} -P ${CMAKE_CURRENT_SOURCE_DIR}/package/run.cmake)
  set_tests_properties(package/${way} PROPERTIES SKIP_REGULAR_EXPRESSION "(^|\n)skipped: " TIMEOUT 300)
endforeach()

# The project in the README.
add_test(NAME package/readme COMMAND ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR}
  -D BUILD=${PROJECT_BINARY_DIR}/package/readme -D GENERATOR=${CMAKE_GENERATOR} -D COMPILER=${CMAKE_CXX_COMPILER}
  -D CUDA_COMPILER=${nvcc} -P ${CMAKE_CURRENT_SOURCE_DIR}/package/readme.cmake)
set_tests_properties(package/readme PROPERTIES SKIP_REGULAR_EXPRESSION "(^|\n)skipped: " TIMEOUT 300)

# The programs in the README, with the single-file headers only.
set(single_options)
if(nvcc)
  set(single_options --nvcc ${nvcc})
endif()
if(NOT VRAM_QUICK)
  add_test(NAME single COMMAND ${python} ${scripts}/single.py --test ${single_options} ${CMAKE_CXX_COMPILER})
  set_tests_properties(single PROPERTIES TIMEOUT 600)
endif()

add_test(NAME reference COMMAND ${python} ${scripts}/reference.py --check ${PROJECT_SOURCE_DIR})

add_test(NAME links COMMAND ${python} ${scripts}/links.py ${PROJECT_SOURCE_DIR})
add_test(NAME links/planted COMMAND ${python} ${scripts}/links.py --self-test)

# The API reference: each public symbol has a description, and each link of a page leads somewhere.
add_test(NAME docs COMMAND ${python} ${scripts}/docs.py --output ${PROJECT_BINARY_DIR}/docs ${PROJECT_SOURCE_DIR})
add_test(NAME docs/catalogue COMMAND ${python} ${scripts}/catalogue.py --check ${PROJECT_SOURCE_DIR})
add_test(NAME docs/catalogue/planted COMMAND ${python} ${scripts}/catalogue.py --self-test)
add_test(NAME docs/planted COMMAND ${python} ${scripts}/docs.py --self-test)
# Each public name is in the code of an example, or of its header's comment.
add_test(NAME docs/examples COMMAND ${python} ${scripts}/docs.py --examples ${PROJECT_SOURCE_DIR})
add_test(NAME docs/examples/planted COMMAND ${python} ${scripts}/docs.py --examples --self-test)
set_tests_properties(docs docs/planted PROPERTIES SKIP_REGULAR_EXPRESSION "(^|\n)skipped: ")
