// SPDX-License-Identifier: Apache-2.0
// What the macros of probe/assertions.hpp are tested with in every framework. To be included after
// the header for the framework.
#pragma once

#include "../doubles/archetype.hpp"

#include <vram/base/error.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/probe/tracking.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_resource.hpp>

namespace macro_cases {

using namespace vram;

using memory_type = doubles::archetype<>;

/// Uses each macro with code that passes.
inline void correct_code() {
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

/// Allocates from the memory of a case, and frees at its end.
struct holder {
    memory_type memory;
    void*       kept = nullptr;

    void take() { kept = memory.allocate_sync(3_KiB); }
    ~holder() { memory.deallocate_sync(kept, 3_KiB); }
};

// Code with which one macro fails.

inline void leak() {
    holder h;
    VRAM_CHECK_NO_LEAK(h.memory) h.take();
}
inline void another_delta() {
    holder h;
    VRAM_CHECK_DELTA(h.memory, 1_KiB) h.take();
}
inline void too_large_a_delta() {
    holder h;
    VRAM_CHECK_DELTA_AT_MOST(h.memory, 3071) h.take();
}
inline void too_high_a_peak() {
    holder h;
    VRAM_CHECK_PEAK_AT_MOST(h.memory, 3071) h.take();
}
inline void another_number_of_allocations() {
    holder h;
    VRAM_CHECK_ALLOCATIONS(h.memory, 2) h.take();
}
inline void an_allocation() {
    holder h;
    VRAM_CHECK_NO_ALLOCATION(h.memory) h.take();
}
/// Frees an older block instead of its own.
inline void not_balanced() {
    tracking<memory_type> tracked;
    void*                 kept  = nullptr;
    void* const           older = tracked.allocate_sync(1_KiB);
    VRAM_CHECK_BALANCED(tracked) {
        kept = tracked.allocate_sync(1_KiB);
        tracked.deallocate_sync(older, 1_KiB);
    }
    tracked.deallocate_sync(kept, 1_KiB);
}
inline void an_error() {
    set_error_sink([](error const&) noexcept {});
    VRAM_CHECK_NO_ERRORS report_error({.kind = error_kind::wrong_size});
    set_error_sink(print_error);
}
inline void swallowed_refusal() {
    pool<stream_ordered<host_resource>> stack;
    VRAM_CHECK_SURVIVES_OOM(stack, [](auto& mr) {
        void* const p = mr.try_allocate_sync(64);
        mr.deallocate_sync(p, 64);
        return p != nullptr;
    });
}
/// The simulated device reports a race, which `VRAM_FAIL_ON_SIM_REPORTS` makes a failure.
inline void race() {
    sim_report_sink const before = VRAM_FAIL_ON_SIM_REPORTS();
    {
        sim_node     node;
        sim_resource memory;
        sim_stream   one, two;
        void* const  p = memory.allocate_sync(64);
        sim_launch(one, {.name = "scale", .writes = {{p, 64}}});
        sim_launch(two, {.name = "add", .writes = {{p, 64}}});
        sim_device{}.synchronize();
        memory.deallocate_sync(p, 64);
    }
    set_sim_report_sink(before);
}

} // namespace macro_cases
