// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/core/cuda_stream_hold.hpp> // first: the header stands alone

#include <vram/cuda/cuda.hpp>

#include "../machine.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <utility>

using namespace vram;
using namespace vram::detail;
using tests::machine;

TEST_CASE("cuda_stream_hold: the stream exists until the last share is released") {
    machine const              here;
    std::optional<cuda_stream> owner{std::in_place};
    cuda_stream_hold           held = cuda_stream_ids::hold(owner->get());
    REQUIRE(held);
    cuda_stream_hold const other = held;
    CHECK(held.get() == owner->get());
    CHECK_FALSE(held.ended());
    owner.reset();
    CHECK(held.ended());
    CHECK(other.ended());
    held = {};
    cuda_event e;
    other.record(e); // legal: one share is left
    e.synchronize();
    CHECK(e.done());
}

TEST_CASE("cuda_stream_hold: a hold on a raw stream is empty") {
    machine const here;
    cudaStream_t  raw = nullptr;
    cuda_check(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking));
    CHECK_FALSE(cuda_stream_ids::hold(raw));
    CHECK_FALSE(cuda_stream_hold{}.ended());
    CHECK(cuda_stream_hold{}.get() == nullptr);
    cuda_check(cudaStreamDestroy(raw));
}
