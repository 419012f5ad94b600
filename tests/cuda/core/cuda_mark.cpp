// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/core/cuda_mark.hpp> // first: the header stands alone

#include "../machine.hpp"

#include <vram/cuda/cuda.hpp>

#include <atomic>
#include <new>
#include <thread>

using namespace vram;
using namespace vram::detail;
using tests::machine;

namespace {

/// A number in pinned memory.
struct pinned_number {
    pinned_number()                = default;
    pinned_number(pinned_number&&) = delete;
    ~pinned_number() { memory.deallocate_sync(at, sizeof *at); }

    [[nodiscard]] std::uint32_t now() const {
        return std::atomic_ref{*at}.load(std::memory_order_acquire);
    }

    pinned_resource memory{};
    std::uint32_t*  at = ::new (memory.allocate_sync(sizeof *at)) std::uint32_t{0};
};

} // namespace

TEST_CASE("cuda_mark: a host thread that polls memory sees the progress of a stream") {
    machine const       here;
    cuda_stream const   stream;
    pinned_number const mark;
    for (std::uint32_t i = 1; i <= 100; ++i) {
        REQUIRE(cuda_mark(stream.view(), mark.at, i));
        while (mark.now() != i) { std::this_thread::yield(); }
    }
    CHECK(mark.now() == 100);
    stream.view().synchronize();
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_mark: an unsupported driver or device returns false, and latches no error") {
    {
        machine const       here{{.marks = false}};
        cuda_stream const   stream;
        pinned_number const mark;
        CHECK_FALSE(cuda_mark(stream.view(), mark.at, 1));
        CHECK(cudaPeekAtLastError() == cudaSuccess);
        CHECK(mark.now() == 0);
    }
    machine const       here;
    cuda_stream const   stream;
    pinned_number const mark;
    doubles::cudart::fail("cuStreamWriteValue32", cudaErrorInvalidValue, 1); // memory not pinned
    CHECK_FALSE(cuda_mark(stream.view(), mark.at, 1));
    doubles::cudart::fail("cuStreamWriteValue32", cudaErrorLaunchFailure, 1);
    CHECK_THROWS_AS((void)cuda_mark(stream.view(), mark.at, 1), cuda_error);
}
#endif
