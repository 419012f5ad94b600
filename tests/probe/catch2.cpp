// SPDX-License-Identifier: Apache-2.0
// A program of its own, with Catch2 of version 2 or 3: each macro passes, and fails. The cases with
// [messages] are hidden: tests/frameworks.cmake compares what they print.
#include <vram/probe/catch2.hpp> // first: the header must stand alone

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_test_macros.hpp>
#else
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif

#include "../doubles/archetype.hpp"

#include <vram/base/error.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/probe/tracking.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_resource.hpp>

using namespace vram;

namespace {

using memory_type = doubles::archetype<>;

/// Allocates from the memory of a case, and frees at its end.
struct holder {
    memory_type memory;
    void*       kept = nullptr;

    void take() { kept = memory.allocate_sync(3_KiB); }
    ~holder() { memory.deallocate_sync(kept, 3_KiB); }
};

void race() {
    sim_node     node;
    sim_resource memory;
    sim_stream   one, two;
    void* const  p = memory.allocate_sync(64);
    sim_launch(one, {.name = "scale", .writes = {{p, 64}}});
    sim_launch(two, {.name = "add", .writes = {{p, 64}}});
    sim_device{}.synchronize();
    memory.deallocate_sync(p, 64);
}

bool swallows(auto& mr) {
    void* const p = mr.try_allocate_sync(64);
    mr.deallocate_sync(p, 64);
    return p != nullptr;
}

} // namespace

TEST_CASE("check macros: correct code passes") {
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

TEST_CASE("check macros: a leak", "[!shouldfail]") {
    holder h;
    VRAM_CHECK_NO_LEAK(h.memory) h.take();
}
TEST_CASE("check macros: another delta", "[!shouldfail]") {
    holder h;
    VRAM_CHECK_DELTA(h.memory, 1_KiB) h.take();
}
TEST_CASE("check macros: too large a delta", "[!shouldfail]") {
    holder h;
    VRAM_CHECK_DELTA_AT_MOST(h.memory, 3071) h.take();
}
TEST_CASE("check macros: a peak", "[!shouldfail]") {
    holder h;
    VRAM_CHECK_PEAK_AT_MOST(h.memory, 3071) h.take();
}
TEST_CASE("check macros: another number of allocations", "[!shouldfail]") {
    holder h;
    VRAM_CHECK_ALLOCATIONS(h.memory, 2) h.take();
}
TEST_CASE("check macros: an allocation", "[!shouldfail]") {
    holder h;
    VRAM_CHECK_NO_ALLOCATION(h.memory) h.take();
}
TEST_CASE("check macros: an older block that is freed", "[!shouldfail]") {
    tracking<memory_type> tracked;
    void* const           older = tracked.allocate_sync(1_KiB);
    VRAM_CHECK_BALANCED(tracked) tracked.deallocate_sync(older, 1_KiB);
}
TEST_CASE("check macros: an error", "[!shouldfail]") {
    set_error_sink([](error const&) noexcept {});
    VRAM_CHECK_NO_ERRORS report_error({.kind = error_kind::wrong_size});
    set_error_sink(print_error);
}
TEST_CASE("check macros: a swallowed refusal", "[!shouldfail]") {
    pool<stream_ordered<host_resource>> stack;
    VRAM_CHECK_SURVIVES_OOM(stack, [](auto& mr) { return swallows(mr); });
}
TEST_CASE("check macros: a report of the simulated device", "[!shouldfail]") {
    sim_report_sink const before = VRAM_FAIL_ON_SIM_REPORTS();
    race();
    set_sim_report_sink(before);
}

TEST_CASE("check macros: messages", "[.][messages]") {
    holder h;
    VRAM_CHECK_NO_LEAK(h.memory)
    VRAM_CHECK_DELTA(h.memory, 1_KiB) h.take();
    pool<stream_ordered<host_resource>> stack;
    VRAM_CHECK_SURVIVES_OOM(stack, [](auto& mr) { return swallows(mr); });
}
