// SPDX-License-Identifier: Apache-2.0
// The memory of a scope: live bytes, peak, and a check that nothing leaks.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/probe/doctest.hpp>
#include <vram/probe/memory_delta.hpp>
#include <vram/sim/sim.hpp>

namespace {

void train_step(auto& memory, vram::sim_stream_view stream) {
    using namespace vram::literals;
    void* const activations = memory.allocate(stream, 48_MiB);
    void* const gradients   = memory.allocate(stream, 16_MiB);
    memory.deallocate(stream, activations, 48_MiB);
    memory.deallocate(stream, gradients, 16_MiB);
}

} // namespace

TEST_CASE("a training step frees all that it allocates") {
    using namespace vram; // the macros need no using-directive
    sim_stream stream;
    statistics memory{pool{stream_ordered{sim_resource{}}}};

    // [assert]
    VRAM_CHECK_NO_LEAK(memory) { train_step(memory, stream); }
    VRAM_CHECK_PEAK_AT_MOST(memory, 64_MiB) { train_step(memory, stream); }
    // [/assert]

    // [probe]
    memory_delta probe{memory};
    train_step(memory, stream);
    CHECK(probe.bytes() == 0);     // still live
    CHECK(probe.peak() == 64_MiB); // at most
    CHECK(probe.reserved() == 0);  // from the device: the pool has it already
    CHECK(probe.allocations() == 2);
    // [/probe]
}
