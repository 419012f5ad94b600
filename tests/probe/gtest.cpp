// SPDX-License-Identifier: Apache-2.0
// A program of its own, with GoogleTest: each macro passes, and fails with its message.
#include <vram/probe/gtest.hpp> // first: the header must stand alone

#include "../doubles/archetype.hpp"

#include <vram/base/error.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/probe/tracking.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_resource.hpp>

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

using namespace vram;

namespace {

using memory_type = doubles::archetype<>;

/// Fails the test if the statement does not fail once with a message that contains the words.
template <class Statement>
void fails(Statement statement, char const* words) {
    EXPECT_NONFATAL_FAILURE(statement(), words);
}

} // namespace

TEST(check_macros, pass_for_correct_code) {
    memory_type memory;
    void*       kept = nullptr;
    VRAM_CHECK_NO_LEAK(memory) { memory.deallocate_sync(memory.allocate_sync(64), 64); }
    VRAM_CHECK_DELTA(memory, 4_KiB) { kept = memory.allocate_sync(4_KiB); }
    VRAM_CHECK_DELTA(memory, -4_KiB) { memory.deallocate_sync(kept, 4_KiB); }
    VRAM_CHECK_DELTA_AT_MOST(memory, 10) {}
    VRAM_CHECK_PEAK_AT_MOST(memory, 4_KiB) {
        memory.deallocate_sync(memory.allocate_sync(4_KiB), 4_KiB);
    }
    VRAM_CHECK_ALLOCATIONS(memory, 1) { memory.deallocate_sync(memory.allocate_sync(1), 1); }
    VRAM_CHECK_NO_ALLOCATION(memory) {}
    tracking<memory_type> tracked;
    VRAM_CHECK_BALANCED(tracked) { tracked.deallocate_sync(tracked.allocate_sync(1), 1); }
    VRAM_CHECK_NO_ERRORS {}
    for (;;) {
        VRAM_CHECK_NO_LEAK(memory) { break; }
    }
    pool<stream_ordered<host_resource>> stack;
    VRAM_CHECK_SURVIVES_OOM(stack, [](auto& mr) { mr.deallocate_sync(mr.allocate_sync(1), 1); });
}

TEST(check_macros, fail_with_their_messages) {
    memory_type memory;
    void*       kept = nullptr;
    auto const  take = [&] { kept = memory.allocate_sync(3_KiB); };
    auto const  free = [&] { memory.deallocate_sync(kept, 3_KiB); };
    fails([&] { VRAM_CHECK_NO_LEAK(memory) take(); }, "leaks 3.00 KiB");
    free();
    fails([&] { VRAM_CHECK_DELTA(memory, 1_KiB) take(); }, "by 3.00 KiB (3072 bytes), not by");
    free();
    fails([&] { VRAM_CHECK_DELTA_AT_MOST(memory, 3071) take(); }, "by more than");
    free();
    fails([&] { VRAM_CHECK_ALLOCATIONS(memory, 2) take(); }, "makes 1 allocations, not 2");
    free();
    fails([&] { VRAM_CHECK_NO_ALLOCATION(memory) take(); }, "makes 1 allocations, not 0");
    free();
    tracking<memory_type> tracked;
    void*                 older = tracked.allocate_sync(1_KiB);
    fails(
        [&] {
            VRAM_CHECK_BALANCED(tracked) {
                kept = tracked.allocate_sync(1_KiB);
                tracked.deallocate_sync(older, 1_KiB);
            }
        },
        "does not free 1 block that it allocates, 1.00 KiB");
    tracked.deallocate_sync(kept, 1_KiB);
    memory_type fresh;
    fails(
        [&] {
            VRAM_CHECK_PEAK_AT_MOST(fresh, 1_KiB) {
                fresh.deallocate_sync(fresh.allocate_sync(2_KiB), 2_KiB);
            }
        },
        "peak of live bytes by 2.00 KiB");
    set_error_sink([](error const&) noexcept {});
    fails([] { VRAM_CHECK_NO_ERRORS report_error({.kind = error_kind::wrong_size}); },
          "vram: wrong size");
    set_error_sink(print_error);
    pool<stream_ordered<host_resource>> stack;
    fails(
        [&] {
            VRAM_CHECK_SURVIVES_OOM(stack, [](auto& mr) {
                void* const p = mr.try_allocate_sync(64);
                mr.deallocate_sync(p, 64);
                return p != nullptr;
            });
        },
        "Request 1 of 1 (64 B");
}

TEST(check_macros, a_report_of_the_simulated_device_fails_the_test) {
    sim_report_sink const before = VRAM_FAIL_ON_SIM_REPORTS();
    fails(
        [] {
            sim_node     node;
            sim_resource memory;
            sim_stream   one, two;
            void* const  p = memory.allocate_sync(64);
            sim_launch(one, {.name = "scale", .writes = {{p, 64}}});
            sim_launch(two, {.name = "add", .writes = {{p, 64}}});
            sim_device{}.synchronize();
            memory.deallocate_sync(p, 64);
        },
        "race");
    set_sim_report_sink(before);
}
