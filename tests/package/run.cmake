# SPDX-License-Identifier: Apache-2.0
# cmake -D WAY=... -D SOURCE=... -D BUILD=... -D GENERATOR=... -D COMPILER=... [-D NVCC=...] -P run.cmake
# Builds and runs a project that uses vram in the way WAY, from nothing.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${BUILD})
file(MAKE_DIRECTORY ${BUILD})
set(here ${CMAKE_CURRENT_LIST_DIR})

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(common -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${COMPILER})
set(with_nvcc)
if(NVCC)
  set(with_nvcc -D NVCC=${NVCC} -D CMAKE_CUDA_COMPILER=${NVCC} -D CMAKE_CUDA_ARCHITECTURES=75)
endif()

# install_vram(OPTIONS...): as a user does it, without an option of vram. The package contains nothing that only the
# tests need.
function(install_vram)
  set(hidden)
  foreach(package IN ITEMS doctest CLI11 fmt nlohmann_json ZLIB Python3 benchmark)
    list(APPEND hidden -D CMAKE_DISABLE_FIND_PACKAGE_${package}=ON)
  endforeach()
  run(${CMAKE_COMMAND} -S ${SOURCE} -B ${BUILD}/vram -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${COMPILER} ${hidden}
    -D CMAKE_INSTALL_PREFIX=${BUILD}/first ${ARGN})
  run(${CMAKE_COMMAND} --install ${BUILD}/vram)
  if(EXISTS ${BUILD}/vram/CTestTestfile.cmake)
    message(FATAL_ERROR "the tests are part of the build, and no option asked for them")
  endif()
  file(RENAME ${BUILD}/first ${BUILD}/prefix) # an installed tree may be moved
endfunction()

# build(PROJECT OPTIONS...): configures and builds it, and runs its programs.
function(build project)
  string(MD5 name "${ARGV}")
  set(folder ${BUILD}/${project}-${name})
  run(${CMAKE_COMMAND} -S ${here}/${project} -B ${folder} ${common} -D CMAKE_PREFIX_PATH=${BUILD}/prefix
    -D VRAM_SOURCE=${SOURCE} -D FETCHCONTENT_SOURCE_DIR_VRAM=${SOURCE} ${ARGN})
  run(${CMAKE_COMMAND} --build ${folder})
  file(GLOB programs ${folder}/consumer ${folder}/consumer_cuda* ${folder}/second ${folder}/third)
  if(NOT programs)
    message(FATAL_ERROR "${project}: no program was built")
  endif()
  foreach(program IN LISTS programs)
    run(${program})
  endforeach()
  set(folder ${folder} PARENT_SCOPE)
endfunction()

function(skip why)
  message("skipped: package/${WAY}: ${why}")
endfunction()

if(WAY STREQUAL "find_package")
  install_vram()
  build(find_package ${with_nvcc})

elseif(WAY STREQUAL "add_subdirectory")
  build(add_subdirectory ${with_nvcc})

elseif(WAY MATCHES "^(fetch_content|added_twice)$")
  build(${WAY})

elseif(WAY STREQUAL "found_and_added")
  install_vram()
  foreach(order IN ITEMS found added found_beside added_beside)
    build(found_and_added -D ORDER=${order})
  endforeach()

elseif(WAY STREQUAL "cuda_only")
  if(NOT NVCC)
    skip("no nvcc")
    return()
  endif()
  install_vram()
  build(cuda_only -D ORDER=found ${with_nvcc})
  build(cuda_only -D ORDER=added ${with_nvcc})
  # CMake links CUDA's runtime statically. A second, shared copy would also have to be found when the program starts.
  file(STRINGS ${folder}/consumer_cuda shared REGEX "^libcudart\\.so")
  if(shared)
    message(FATAL_ERROR "consumer_cuda needs ${shared} beside the static runtime")
  endif()

elseif(WAY STREQUAL "older_toolkit")
  if(NOT TOOLKIT)
    skip("no CUDA Toolkit")
    return()
  endif()
  # This machine's Toolkit, with an nvcc that reports version 12.4.
  file(MAKE_DIRECTORY ${BUILD}/toolkit/bin)
  file(WRITE ${BUILD}/toolkit/bin/nvcc
    "#!/bin/sh\ncase \"$*\" in *--version*) echo 'Cuda compilation tools, release 12.4, V12.4.131'; exit 0;; esac\nexit 1\n")
  file(CHMOD ${BUILD}/toolkit/bin/nvcc PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  foreach(part IN ITEMS include lib64 lib targets)
    if(EXISTS ${TOOLKIT}/${part})
      file(CREATE_LINK ${TOOLKIT}/${part} ${BUILD}/toolkit/${part} SYMBOLIC)
    endif()
  endforeach()
  install_vram()
  build(older_toolkit -D FIRST=toolkit -D FAKE_TOOLKIT=${BUILD}/toolkit)
  build(older_toolkit -D FIRST=vram -D FAKE_TOOLKIT=${BUILD}/toolkit)

elseif(WAY STREQUAL "exported")
  install_vram()
  foreach(vram IN ITEMS found added)
    set(library ${BUILD}/library-${vram})
    set(options)
    if(vram STREQUAL "added") # vram comes with it, and no other is there
      file(REMOVE_RECURSE ${BUILD}/prefix)
      set(options -D VRAM_INSTALL=ON)
    endif()
    run(${CMAKE_COMMAND} -S ${here}/user_library -B ${library} ${common} -D VRAM=${vram} -D VRAM_SOURCE=${SOURCE}
      -D CMAKE_PREFIX_PATH=${BUILD}/prefix -D CMAKE_INSTALL_PREFIX=${library}-installed ${options})
    run(${CMAKE_COMMAND} --build ${library})
    run(${CMAKE_COMMAND} --install ${library})
    set(ENV{CMAKE_PREFIX_PATH} ${library}-installed)
    build(exported -D TREE=installed-${vram})
    set(ENV{CMAKE_PREFIX_PATH} ${library}:${library}/vram) # the build trees
    build(exported -D TREE=built-${vram})
  endforeach()
  # A library that links vram can be exported without VRAM_INSTALL, and vram is not installed with it.
  run(${CMAKE_COMMAND} -S ${here}/user_library -B ${BUILD}/without ${common} -D VRAM=added -D VRAM_SOURCE=${SOURCE}
    -D CMAKE_INSTALL_PREFIX=${BUILD}/without-installed)
  run(${CMAKE_COMMAND} --build ${BUILD}/without)
  run(${CMAKE_COMMAND} --install ${BUILD}/without)
  if(EXISTS ${BUILD}/without-installed/include/vram)
    message(FATAL_ERROR "vram was installed with a project that did not ask for it")
  endif()

elseif(WAY STREQUAL "pkg_config")
  find_program(pkg_config NAMES pkg-config pkgconf)
  if(NOT pkg_config)
    skip("pkg-config is not installed")
    return()
  endif()
  # With relative folders, and with absolute ones, as some distributions have them.
  foreach(options IN ITEMS "" "-DCMAKE_INSTALL_INCLUDEDIR=${BUILD}/apart/include;-DCMAKE_INSTALL_DATADIR=${BUILD}/first/share")
    file(REMOVE_RECURSE ${BUILD}/vram ${BUILD}/prefix)
    install_vram(${options})
    set(ENV{PKG_CONFIG_PATH} ${BUILD}/prefix/share/pkgconfig)
    execute_process(COMMAND ${pkg_config} --cflags --libs vram COMMAND_ERROR_IS_FATAL ANY
      OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE)
    execute_process(COMMAND ${pkg_config} --modversion vram COMMAND_ERROR_IS_FATAL ANY
      OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE)
    separate_arguments(flags UNIX_COMMAND "${flags}")
    run(${COMPILER} -std=c++20 -DEXPECTED_VERSION="${version}" ${here}/main.cpp ${flags} -o ${BUILD}/consumer)
    run(${BUILD}/consumer)
  endforeach()
  if(NVCC) # it does not know every flag of a host compiler
    run(${NVCC} -std=c++20 -arch=sm_75 ${here}/main.cu ${flags} -o ${BUILD}/consumer_cuda)
    run(${BUILD}/consumer_cuda)
  endif()

elseif(WAY STREQUAL "conan")
  find_program(conan NAMES conan HINTS ${SOURCE}/.deps/venv/bin)
  if(NOT conan)
    skip("Conan is not installed")
    return()
  endif()
  set(ENV{CONAN_HOME} ${BUILD}/home)
  set(ENV{CC}) # the profile is of this compiler
  set(ENV{CXX} ${COMPILER})
  file(COPY ${here} DESTINATION ${BUILD}) # Conan builds beside the recipe of the project
  run(${conan} profile detect)
  run(${conan} create ${SOURCE} --test-folder ${BUILD}/package/conan -s compiler.cppstd=20)

else()
  message(FATAL_ERROR "no way ${WAY}")
endif()
