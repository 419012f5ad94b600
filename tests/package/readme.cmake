# SPDX-License-Identifier: Apache-2.0
# cmake -D SOURCE=... -D BUILD=... -D GENERATOR=... -D COMPILER=... -D CUDA_COMPILER=... -P readme.cmake
# Installs vram, then builds the project that the README shows as its reader would, and runs it if there is a GPU.
include(${CMAKE_CURRENT_LIST_DIR}/../on_device.cmake)
if(NOT CUDA_COMPILER)
  message("skipped: package/readme: nvcc is not installed")
  return()
endif()
file(REMOVE_RECURSE ${BUILD})
file(COPY ${SOURCE}/examples/project/ DESTINATION ${BUILD}/app)

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(common -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${COMPILER})
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${BUILD}/vram ${common} -D CMAKE_INSTALL_PREFIX=${BUILD}/prefix)
run(${CMAKE_COMMAND} --install ${BUILD}/vram)
run(${CMAKE_COMMAND} -S ${BUILD}/app -B ${BUILD}/app/build ${common}
  -D CMAKE_CUDA_COMPILER=${CUDA_COMPILER} -D CMAKE_PREFIX_PATH=${BUILD}/prefix
  "-DCMAKE_CUDA_FLAGS=-Werror all-warnings -Xcompiler=-Wall,-Wextra,-Werror")
run(${CMAKE_COMMAND} --build ${BUILD}/app/build)
run_on_device(${BUILD}/app/build/app)
