// SPDX-License-Identifier: Apache-2.0
// The memory of a scope: live bytes, peak, and a check that nothing leaks. A mistake that the
// simulated device reports fails the test case.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/probe/doctest.hpp>
#include <vram/probe/memory_delta.hpp>
#include <vram/sim/sim.hpp>

namespace {

// [once]
// In one file of the test program:
[[maybe_unused]] vram::sim_report_sink const before = VRAM_FAIL_ON_SIM_REPORTS();
// [/once]

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

TEST_CASE("a mistake that is expected does not fail the case") {
    using namespace vram;
    sim_stream       one, two;
    sim_resource     memory;
    void* const      p = memory.allocate_sync(64);
    sim_expect const race{sim_mistake::race};
    sim_launch(one, {.name = "scale", .writes = {{p, 64}}});
    sim_launch(two, {.name = "add", .writes = {{p, 64}}}); // without sim_expect: the case fails
    sim_device{}.synchronize();
    memory.deallocate_sync(p, 64);
}
