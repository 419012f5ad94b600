# SPDX-License-Identifier: Apache-2.0
# cmake -D PROGRAM=... -P on_device.cmake runs a program that needs a GPU. Without a GPU it prints "skipped:", and
# ctest reports the test as skipped.
function(run_on_device program)
  execute_process(COMMAND nvidia-smi -L RESULT_VARIABLE result OUTPUT_VARIABLE devices ERROR_QUIET)
  if(NOT result EQUAL 0 OR NOT devices MATCHES "GPU [0-9]+:")
    message("skipped: ${program}: there is no GPU")
    return()
  endif()
  execute_process(COMMAND ${program} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

if(PROGRAM)
  run_on_device(${PROGRAM})
endif()
