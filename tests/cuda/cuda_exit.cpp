// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/cuda_exit.hpp> // first: the header stands alone

#include "machine.hpp"

#include <vram/cuda/cuda.hpp>
#include <vram/layer/stream_ordered.hpp>

using namespace vram;
using tests::machine;

TEST_CASE("cuda_exit: while the program runs, calls are made") {
    machine const here;
    CHECK_FALSE(cuda_exit::began());
    CHECK(cuda_exit::or_done([] { return cudaErrorInvalidValue; }) == cudaErrorInvalidValue);
    CHECK(cuda_exit::or_refused([] { return cudaErrorInvalidValue; }) == cudaErrorInvalidValue);
    CHECK(cuda_exit::or_done([] { return cudaSuccess; }) == cudaSuccess);
}

#ifdef VRAM_CUDART_DOUBLE

#include <sys/wait.h> // waitpid
#include <unistd.h>   // fork, _exit

#include <cstdlib> // atexit, exit
#include <thread>  // thread

// The end of a process is seen in a process of its own: a child that ends, and tells by its exit
// code how.

extern "C" [[gnu::weak]] void
__gcov_dump(); // where coverage is counted, a child that leaves early writes it down

namespace {

[[noreturn]] void leave(int code) {
    if (__gcov_dump != nullptr) { __gcov_dump(); }
    _exit(code);
}

/// The exit code of a child that runs `body`, which does not return.
template <class Body>
int in_a_child(Body body) {
    pid_t const child = fork();
    if (child == 0) {
        body();
        leave(99);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::uint64_t calls_before = 0;

/// Registered before anything that is to be watched, it runs after all of that: no call was made
/// meanwhile.
void verdict() { leave(doubles::cudart::calls() == calls_before ? 0 : 1); }

[[noreturn]] void end_the_process() {
    calls_before = doubles::cudart::calls();
    std::exit(0);
}

/// Everything that owns something of CUDA's.
struct all_kinds {
    stream_ordered<cuda_resource> ordered{cuda_resource{}};
    cuda_async_resource           pooled{};
    pinned_resource               pinned{};
    managed_resource              managed{};
    cuda_stream                   stream{};
    cuda_event                    event{};
    void*                         p = ordered.allocate(stream, 100);
    void*                         q = pooled.allocate(stream, 100, 4096);
    void*                         r = pinned.allocate_sync(100);

    ~all_kinds() {
        ordered.deallocate(stream, p, 100);
        pooled.deallocate(stream, q, 100, 4096);
        pinned.deallocate_sync(r, 100);
        event.record(stream);
        event.make_wait(stream);
        event.synchronize();
        stream.synchronize();
        if (!event.done() || !stream.view().done()) { leave(2); }
        if (stream.view().capturing() || cuda_memory_info().total != 0) { leave(3); }
        cuda_event const late; // is done
        late.synchronize();
        if (ordered.try_allocate(stream, 10) != nullptr) { leave(4); }
        try {
            (void)pinned.allocate_sync(10);
            leave(5);
        } catch (cuda_error const& e) {
            if (e.status() != cudaErrorCudartUnloading) { leave(6); }
        }
        try {
            cuda_stream const none;
            leave(7);
        } catch (cuda_error const&) {}
    }
};

} // namespace

TEST_CASE("cuda_exit: what is in static storage makes no call when the process ends") {
    CHECK(in_a_child([] {
              doubles::cudart::reset();
              std::atexit(verdict);
              vram::set_error_sink(
                  [](error const&) noexcept { leave(8); }); // nothing to be told either
              static all_kinds const kept;
              end_the_process();
          }) == 0);
}

TEST_CASE("cuda_exit: a thread that ends is not the end") {
    CHECK(in_a_child([] {
              doubles::cudart::reset();
              std::thread{[] { cuda_stream const s; }}.join();
              leave(cuda_exit::began() ? 1 : 0);
          }) == 0);
}

TEST_CASE("cuda_exit: a runtime that is taken down before vram knows is taken for the end") {
    CHECK(in_a_child([] {
              doubles::cudart::reset();
              static all_kinds* const kept = new all_kinds;
              doubles::cudart::unload();
              kept->stream.synchronize(); // no error
              if (!cuda_exit::began()) { leave(10); }
              auto const calls = doubles::cudart::calls();
              delete kept;
              leave(doubles::cudart::calls() == calls ? 0 : 11);
          }) == 0);
}

TEST_CASE("cuda_exit: an allocation that meets the end is refused, and asks no more") {
    CHECK(in_a_child([] {
              doubles::cudart::reset();
              cuda_resource mr;
              doubles::cudart::unload();
              try {
                  (void)mr.allocate_sync(100);
                  leave(1);
              } catch (cuda_error const& e) {
                  leave(e.status() == cudaErrorCudartUnloading ? 0 : 2);
              }
          }) == 0);
}

#endif
