// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/core/cuda_default_streams.hpp> // first: the header stands alone

#include "../machine.hpp"

#include <vram/cuda/cuda_stream.hpp>

#include <thread> // thread

using namespace vram;
using namespace vram::detail;
using tests::machine;

TEST_CASE("cuda_default_streams: a stream of the program is not a default stream") {
    machine const     here;
    cuda_stream const own;
    CHECK_FALSE(cuda_default_streams::contain(own.get()));
    for (cudaStream_t const name : {cudaStream_t{}, cudaStreamLegacy, cudaStreamPerThread}) {
        CHECK(cuda_default_streams::contain(name));
    }
}

TEST_CASE("cuda_default_streams: the newest id of a handle is returned, and each handle has its "
          "own") {
    machine const here;
    auto const    legacy = cuda_stream_view{cudaStreamLegacy}.id();
    auto const    own    = cuda_stream_view{cudaStreamPerThread}.id();
    cuda_default_streams::note(cudaStreamPerThread, own + 100);
    CHECK(cuda_default_streams::recall(cudaStreamPerThread)->id == own + 100);
    CHECK(cuda_default_streams::recall(cudaStreamLegacy)->id == legacy);
    cuda_default_streams::note(cudaStreamPerThread, own);
    CHECK(cuda_default_streams::recall(cudaStreamPerThread)->id == own);
}

TEST_CASE("cuda_default_streams: another thread recalls the legacy stream, and not the per-thread "
          "default stream") {
    machine const here;
    (void)cuda_stream_view{cudaStreamLegacy}.id();
    (void)cuda_stream_view{cudaStreamPerThread}.id();
    std::thread{[] {
        CHECK(cuda_default_streams::recall(cudaStreamLegacy).has_value());
        CHECK_FALSE(cuda_default_streams::recall(cudaStreamPerThread).has_value());
    }}.join();
}

TEST_CASE("cuda_default_streams: a newer id of the legacy stream from another thread replaces that "
          "of this thread") {
    machine const here;
    for (cudaStream_t const name : {cudaStream_t{}, cudaStreamLegacy}) {
        auto const old     = cuda_stream_view{name}.id();
        auto const becomes = [&](std::uint64_t id) {
            std::thread{[&] { cuda_default_streams::note(cudaStreamLegacy, id); }}.join();
        };
        CHECK(cuda_default_streams::recall(name)->id == old);
        becomes(old + 100); // as after a reset of the device
        CHECK(cuda_default_streams::recall(name)->id == old + 100);
        becomes(old);
        CHECK(cuda_default_streams::recall(name)->id == old);
    }
}
