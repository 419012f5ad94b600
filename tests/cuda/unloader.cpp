// SPDX-License-Identifier: Apache-2.0
// The unloader on CUDA: the sink must receive the device's data.
#include <vram/transfer/unloader.hpp> // first: the header stands alone

#include <vram/cuda/cuda.hpp>
#include <vram/transfer/loader.hpp>

#include "machine.hpp"

#include <cstring>
#include <span>
#include <vector>

using namespace vram;
using namespace vram::detail;
using doubles::mishaps;
using tests::machine;

namespace cuda_unloader {
constexpr std::size_t result_bytes = std::size_t{1} << 16;

/// How many results were whole, and in their order.
struct in_order {
    std::size_t* right;

    void operator()(std::span<std::byte const> result, std::size_t index) const {
        std::byte const expected{static_cast<unsigned char>(index)};
        bool            whole = result.size() == result_bytes && index == *right;
        for (std::byte b : result) { whole = whole && b == expected; }
        *right += whole;
    }
};

/// Nothing but its streams.
struct ring_by_hand : unloader_ring<cuda_platform> {
    explicit ring_by_hand(int priority)
        : unloader_ring{{.priority = priority}, cuda_device::current()} {}
    using unloader_ring::channel_;
};

/// So many results, each full of its own number.
void send_all(auto& out, cuda_stream const& stream, int results) {
    for (int i = 0; i < results; ++i) {
        auto r = out.next();
        cuda_fill(stream, r.data(), std::byte(static_cast<unsigned char>(i)), result_bytes);
        r.send();
    }
    out.finish();
}
} // namespace cuda_unloader
using namespace cuda_unloader;

TEST_CASE("unloader on CUDA: its copy stream has the requested priority") {
    machine const here;
    int           least = 0, greatest = 0;
    cuda_check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    for (int const asked : {0, greatest}) {
        ring_by_hand const ring{asked};
        int                priority = 1;
        cuda_check(cudaStreamGetPriority(ring.channel_.view().get(), &priority));
        CHECK(priority == asked);
    }
}

TEST_CASE("unloader on CUDA: the sink receives the device's data in order, for every option") {
    machine const     here;
    cuda_stream const stream;
    for (std::size_t pinned : {1U, 2U, 4U}) {
        for (std::size_t device : {1U, 3U}) {
            std::size_t right = 0;
            {
                unloader out{in_order{&right},
                             stream,
                             {.batch_bytes  = result_bytes,
                              .pinned_depth = pinned,
                              .device_depth = device,
                              .numa_local   = true}};
                send_all(out, stream, 30);
                CHECK(right == 30);
            }
        }
    }
}

TEST_CASE("unloader on CUDA: blocks of a loader are pushed without a host wait") {
    machine const     here;
    cuda_stream const stream;
    std::size_t       right = 0;
    auto const        fill  = [](std::span<std::byte> to, std::size_t index) -> std::size_t {
        if (index >= 40) { return 0; }
        std::memset(to.data(), static_cast<int>(index), to.size());
        return to.size();
    };
    {
        loader   load{fill, stream, {.batch_bytes = result_bytes, .producers = 2}};
        unloader out{in_order{&right}, stream, {.batch_bytes = result_bytes, .depth = 3}};
#ifdef VRAM_CUDART_DOUBLE
        auto const waits = [] {
            return doubles::cudart::calls("cudaEventSynchronize") +
                   doubles::cudart::calls("cudaStreamSynchronize") +
                   doubles::cudart::calls("cudaEventQuery");
        };
        auto const before = waits();
#endif
        for (auto& b : load) { out.push(b.span<std::byte>()); }
        out.finish();
#ifdef VRAM_CUDART_DOUBLE
        CHECK(waits() == before);
#endif
    }
    CHECK(right == 40);
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE(
    "unloader on CUDA: the end of a copy sets a completion flag if possible, or else calls back") {
    std::size_t const all = 4 * result_bytes; // two blocks on each side
    for (bool const machine_marks : {true, false}) {
        for (bool const marks : {true, false}) {
            for (std::size_t const budget : {all, all + 128}) {
                machine const     here{{.marks = machine_marks}};
                cuda_stream const stream;
                std::size_t       right = 0;
                {
                    unloader out{
                        in_order{&right},
                        stream,
                        {.batch_bytes = result_bytes, .budget = budget, .completion_flags = marks}};
                    send_all(out, stream, 9);
                }
                bool const taken  = marks && budget != all; // within the budget
                bool const called = !taken || !machine_marks;
                CHECK(right == 9);
                CHECK(doubles::cudart::calls("cuStreamWriteValue32") == (taken ? 9U : 0U));
                CHECK(doubles::cudart::calls("cudaLaunchHostFunc") == (called ? 9U : 0U));
            }
        }
    }
}

TEST_CASE("unloader on CUDA: no failure of any call at any time loses memory") {
    machine const     here;
    cuda_stream const stream;
    bool              struck = true;
    for (std::uint64_t n = 1; struck; ++n) {
        REQUIRE(n < 1000);
        CAPTURE(n);
        mishaps const told;
        auto const    before = doubles::cudart::out();
        std::size_t   right  = 0;
        bool          threw  = false;
        doubles::cudart::fail_nth(n, cudaErrorUnknown);
        try {
            unloader out{in_order{&right}, stream, {.batch_bytes = result_bytes}};
            send_all(out, stream, 5);
        } catch (cuda_error const&) { threw = true; } catch (out_of_memory const&) {
            threw = true;
        }
        struck = doubles::cudart::forgive();
        CHECK((threw || right == 5));
        CHECK((struck || !threw));
        cudaSetDevice(0);
        (void)cudaGetLastError();
        CHECK(doubles::cudart::out() == before);
    }
}
#endif
