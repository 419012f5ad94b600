// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/core/cuda_exit.hpp> // first: the header stands alone

#include "../machine.hpp"

#include <vram/cuda/cuda.hpp>
#include <vram/layer/stream_ordered.hpp>

using namespace vram;
using namespace vram::detail;
using tests::machine;

TEST_CASE("cuda_exit: while the program runs, calls are made") {
    machine const here;
    CHECK_FALSE(cuda_exit::began());
    CHECK(cuda_exit::or_done([] { return cudaErrorInvalidValue; }) == cudaErrorInvalidValue);
    CHECK(cuda_exit::or_refused([] { return cudaErrorInvalidValue; }) == cudaErrorInvalidValue);
    CHECK(cuda_exit::or_done([] { return cudaSuccess; }) == cudaSuccess);
}

// The end of a process is tested by tests/exit/cuda.cpp, in processes of their own.

#ifdef VRAM_CUDART_DOUBLE

#include <sys/wait.h> // waitpid
#include <unistd.h>   // fork, _exit

#include <thread> // thread

TEST_CASE("cuda_exit: the end of a thread is not the end of the process") {
    doubles::cudart::reset();
    std::thread{[] { cuda_stream const s; }}.join();
    CHECK_FALSE(cuda_exit::began());
}

TEST_CASE("cuda_exit: a child of fork is refused an allocation, and makes no call") {
    doubles::cudart::reset();
    cuda_resource mr;
    pid_t const   child = fork();
    if (child == 0) {
        auto const calls = doubles::cudart::calls();
        int        code  = cuda_exit::began() ? 0 : 1;
        try {
            (void)mr.allocate_sync(100);
            code += 2;
        } catch (cuda_error const& e) {
            code += e.status() == cudaErrorInitializationError ? 0 : 4;
        }
        _exit(code + (doubles::cudart::calls() == calls ? 0 : 8));
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    CHECK_FALSE(cuda_exit::began());
}

#endif
