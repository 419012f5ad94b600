// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/process_exit.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <thread>

using namespace vram;
using namespace vram::detail;

// The end of a process is tested by tests/exit, in processes of their own.

TEST_CASE(
    "process_exit: the end of a thread that called watch does not begin the end of the process") {
    process_exit::watch();
    std::thread{[] { process_exit::watch(); }}.join();
    CHECK_FALSE(process_exit::began());
}
