# SPDX-License-Identifier: Apache-2.0
# The assertions with GoogleTest and with Catch2 of version 2 or 3: a program for each framework that is found.
find_package(GTest QUIET)
if(TARGET GTest::gtest_main)
  add_executable(vram-tests-gtest probe/gtest.cpp)
  target_link_libraries(vram-tests-gtest PRIVATE vram::vram GTest::gtest_main vram_warnings)
  add_test(NAME probe/gtest.cpp COMMAND vram-tests-gtest)
else()
  add_test(NAME probe/gtest.cpp COMMAND ${CMAKE_COMMAND} -E echo "GoogleTest was not found: libgtest-dev")
  set_tests_properties(probe/gtest.cpp PROPERTIES SKIP_REGULAR_EXPRESSION "not found")
endif()

find_package(Catch2 QUIET)
if(TARGET Catch2::Catch2)
  add_executable(vram-tests-catch2 probe/catch2.cpp)
  set(catch2 Catch2::Catch2)
  if(TARGET Catch2::Catch2WithMain) # version 3
    set(catch2 Catch2::Catch2WithMain)
  endif()
  target_link_libraries(vram-tests-catch2 PRIVATE vram::vram ${catch2} vram_warnings)
  add_test(NAME probe/catch2.cpp COMMAND vram-tests-catch2)
  add_test(NAME probe/catch2/messages COMMAND vram-tests-catch2 "[messages]")
  set_tests_properties(probe/catch2/messages PROPERTIES PASS_REGULAR_EXPRESSION
    "by 3.00 KiB .3072 bytes., not by.*leaks 3.00 KiB.*Request 1 of 1 .64 B")
else()
  add_test(NAME probe/catch2.cpp COMMAND ${CMAKE_COMMAND} -E echo "Catch2 was not found: catch2")
  set_tests_properties(probe/catch2.cpp PROPERTIES SKIP_REGULAR_EXPRESSION "not found")
endif()
