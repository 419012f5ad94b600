// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/cuda_thread.hpp> // first: the header stands alone

#include "machine.hpp"

#include <vram/cuda/cuda_stream.hpp>

using namespace vram;
using tests::machine;

static_assert(std::is_nothrow_move_assignable_v<cuda_thread>);

TEST_CASE("cuda_thread: the callable runs with its device current, and the destructor joins") {
    machine const here;
    int const     last = tests::two_devices() ? 1 : 0;
    cuda_device   seen{-1};
    {
        cuda_thread const worker{cuda_device{last}, [&] { seen = cuda_device::current(); }};
    }
    CHECK(seen == cuda_device{last});
    CHECK(cuda_device::current() == cuda_device{0});
}

TEST_CASE("cuda_thread: an assignment joins the old thread first, and a second join does nothing") {
    machine const here;
    bool          first = false, second = false;
    cuda_thread   worker;
    worker = cuda_thread{cuda_device{0}, [&] { first = true; }};
    worker = cuda_thread{cuda_device{0}, [&] { second = true; }};
    CHECK(first);
    worker.join();
    worker.join();
    CHECK(second);
}

TEST_CASE("cuda_thread: it breaks no capture of another thread") {
    machine const     here;
    cuda_stream const captured;
    cudaGraph_t       graph = nullptr;
    cuda_check(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeGlobal));
    cudaError_t status = cudaErrorUnknown;
    {
        cuda_thread const worker{cuda_device{0}, [&] {
                                     void* p = nullptr;
                                     status  = cudaMalloc(
                                         &p, 4096); // ends the capture from a plain thread
                                     cudaFree(p);
                                 }};
    }
    CHECK(status == cudaSuccess);
    cuda_check(cudaStreamEndCapture(captured.get(), &graph));
    cuda_check(cudaGraphDestroy(graph));
}

TEST_CASE("cuda_thread: if the device cannot be set, the callable never runs") {
    machine const here;
    bool          begun = false;
    CHECK_THROWS_AS((cuda_thread{cuda_device{99}, [&] { begun = true; }}), cuda_error);
    CHECK_FALSE(begun);
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_thread: a failure of its set-up is thrown by the constructor") {
    machine const here;
    bool          begun = false;
    CHECK(tests::walk_failures([&] { cuda_thread{cuda_device{0}, [&] { begun = true; }}; },
                               [&] { begun = false; }) == 4);
    CHECK_FALSE(begun);
}
#endif
