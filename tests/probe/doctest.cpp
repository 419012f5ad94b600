// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/doctest.hpp> // first: the header must stand alone

#include "../doubles/archetype.hpp"
#include "../doubles/mishaps.hpp"

#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/peak_scope.hpp>
#include <vram/pool/pool.hpp>
#include <vram/probe/tracking.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

#include <optional>
#include <stdexcept>
#include <utility>

using namespace vram;

namespace {

/// Reports fail the case as long as this object exists. (A program has the macro once, for all.)
struct failing_reports {
    sim_report_sink before = VRAM_FAIL_ON_SIM_REPORTS();
    ~failing_reports() { set_sim_report_sink(before); }
};

void race_in_a_case() {
    sim_resource memory;
    sim_stream   one, two;
    void* const  p = memory.allocate_sync(64);
    sim_launch(one, {.name = "scale", .writes = {{p, 64}}});
    sim_launch(two, {.name = "add", .writes = {{p, 64}}});
    one.synchronize();
    two.synchronize();
    memory.deallocate_sync(p, 64);
}

} // namespace

TEST_CASE("simulated device: a mistake fails the test case" * doctest::should_fail()) {
    failing_reports const on;
    sim_node              node;
    race_in_a_case();
}

TEST_CASE("simulated device: a mistake of another thread fails the test case" *
          doctest::should_fail()) {
    failing_reports const on;
    sim_node              node;
    sim_thread            other{sim_device{}, [] { race_in_a_case(); }};
}

TEST_CASE("simulated device: a leak at the end of a node fails the test case" *
          doctest::should_fail()) {
    failing_reports const on;
    sim_node              node;
    (void)sim_resource{}.allocate_sync(64);
}

TEST_CASE("simulated device: an expected mistake that does not occur fails the test case" *
          doctest::should_fail()) {
    failing_reports const on;
    sim_node              node;
    sim_expect const      race{sim_mistake::race};
}

TEST_CASE("simulated device: collected and expected mistakes fail no test case") {
    failing_reports const on;
    {
        sim_node node{{.on_report = sim_on_report::collect}};
        race_in_a_case();
        CHECK(node.reports().size() == 1);
    }
    sim_node         node;
    sim_expect const race{sim_mistake::race};
    race_in_a_case();
    CHECK(race.count() == 1);
}

TEST_CASE("simulated device: a mistake that an earlier case made too fails each case" *
          doctest::should_fail()) {
    static sim_node*      kept = nullptr; // as the default node, which several cases use
    failing_reports const on;
    if (kept == nullptr) { kept = new sim_node; }
    race_in_a_case();
    SUBCASE("once more") { race_in_a_case(); }
    delete std::exchange(kept, nullptr);
}

TEST_CASE("check macros: a block that frees all its memory has no leak") {
    doubles::archetype<> memory;
    VRAM_CHECK_NO_LEAK(memory) { memory.deallocate_sync(memory.allocate_sync(1_KiB), 1_KiB); }
}

TEST_CASE("check macros: a block that leaks fails its test" * doctest::should_fail()) {
    doubles::archetype<> memory;
    void*                left = nullptr;
    VRAM_CHECK_NO_LEAK(memory) { left = memory.allocate_sync(1_KiB); }
    memory.deallocate_sync(left, 1_KiB);
}

TEST_CASE("check macros: the growth of a block is checked to the byte") {
    doubles::archetype<> memory;
    void*                kept = nullptr;
    VRAM_CHECK_DELTA(memory, 4_KiB) { kept = memory.allocate_sync(4_KiB); }
    VRAM_CHECK_DELTA(memory, -4_KiB) { memory.deallocate_sync(kept, 4_KiB); }
}

TEST_CASE("check macros: a block that grows more than stated fails its test" *
          doctest::should_fail()) {
    doubles::archetype<> memory;
    void*                kept = nullptr;
    VRAM_CHECK_DELTA(memory, 4_KiB) { kept = memory.allocate_sync(5_KiB); }
    memory.deallocate_sync(kept, 5_KiB);
}

TEST_CASE("check macros: a block that frees memory has a negative delta") {
    doubles::archetype<>             plain;
    statistics<doubles::archetype<>> counted;
    auto const                       frees = [](auto& memory) {
        void* const kept = memory.allocate_sync(4_KiB);
        void* const more = memory.allocate_sync(4_KiB);
        VRAM_CHECK_DELTA(memory, -4096) { memory.deallocate_sync(kept, 4_KiB); }
        VRAM_CHECK_DELTA(memory, -4_KiB) { memory.deallocate_sync(more, 4_KiB); }
        VRAM_CHECK_DELTA(memory, 0) {}
    };
    frees(plain);
    frees(counted);
}

TEST_CASE("check macros: a block that frees memory does not have the delta 0" *
          doctest::should_fail()) {
    doubles::archetype<> memory;
    void* const          kept = memory.allocate_sync(4_KiB);
    VRAM_CHECK_DELTA(memory, 0) { memory.deallocate_sync(kept, 4_KiB); }
}

TEST_CASE("check macros: on counted memory, a block that frees does not have the delta 0" *
          doctest::should_fail()) {
    statistics<doubles::archetype<>> memory;
    void* const                      kept = memory.allocate_sync(4_KiB);
    VRAM_CHECK_DELTA(memory, 0) { memory.deallocate_sync(kept, 4_KiB); }
}

TEST_CASE("check macros: blocks that are freed on their streams are balanced") {
    sim_node                                     node;
    sim_stream                                   one, two;
    tracking<pool<stream_ordered<sim_resource>>> memory;
    VRAM_CHECK_BALANCED(memory) {
        memory.deallocate(one, memory.allocate(one, 1_KiB), 1_KiB);
        memory.deallocate(two, memory.allocate(two, 1_KiB), 1_KiB);
    }
}

TEST_CASE("check macros: frees on each other's streams are not balanced" * doctest::should_fail()) {
    sim_node                                     node;
    sim_stream                                   one, two;
    tracking<pool<stream_ordered<sim_resource>>> memory;
    VRAM_CHECK_BALANCED(memory) {
        void* const p = memory.allocate(one, 1_KiB);
        void* const q = memory.allocate(two, 1_KiB);
        sim_device{}.synchronize();
        memory.deallocate(two, p, 1_KiB);
        memory.deallocate(one, q, 1_KiB);
    }
}

TEST_CASE("check macros: an else after an assertion belongs to the if before it") {
    doubles::archetype<> memory;
    int                  others = 0;
    for (bool const checks : {true, false}) {
        if (checks) VRAM_CHECK_NO_LEAK(memory) {
            }
        else ++others;
        if (checks) VRAM_CHECK_DELTA(memory, 0) {
            }
        else ++others;
        if (checks) VRAM_CHECK_PEAK_AT_MOST(memory, 0) {
            }
        else ++others;
        if (checks) VRAM_CHECK_ALLOCATIONS(memory, 0) {
            }
        else ++others;
        if (checks) VRAM_CHECK_NO_ERRORS {
            }
        else ++others;
        if (checks) VRAM_CHECK_DELTA_AT_MOST(memory, 0) {
            }
        else ++others;
        if (checks) VRAM_CHECK_NO_ALLOCATION(memory) {
            }
        else ++others;
    }
    CHECK(others == 7);
}

TEST_CASE("check macros: a block without errors passes, and break and return work") {
    for (;;) {
        VRAM_CHECK_NO_ERRORS { break; }
    }
    VRAM_CHECK_NO_ERRORS return;
}

TEST_CASE("check macros: a block that reports an error fails its test" * doctest::should_fail()) {
    doubles::mishaps const quiet;
    pool<host_resource>    memory;
    void* const            p = memory.allocate_sync(1_KiB);
    memory.deallocate_sync(p, 1_KiB);
    VRAM_CHECK_NO_ERRORS { memory.deallocate_sync(p, 1_KiB); }
}

TEST_CASE("check macros: the peak of a block may reach the stated value") {
    doubles::archetype<> memory;
    VRAM_CHECK_PEAK_AT_MOST(memory, 2_KiB) {
        memory.deallocate_sync(memory.allocate_sync(2_KiB), 2_KiB);
    }
}

TEST_CASE("check macros: a block with a short higher peak fails its test" *
          doctest::should_fail()) {
    doubles::archetype<> memory;
    VRAM_CHECK_PEAK_AT_MOST(memory, 2_KiB) {
        memory.deallocate_sync(memory.allocate_sync(2_KiB + 1), 2_KiB + 1);
    }
}

TEST_CASE("check macros: a block that resets the peaks may stay within its limit") {
    pool<host_resource> memory;
    VRAM_CHECK_PEAK_AT_MOST(memory, 8_KiB) {
        memory.deallocate_sync(memory.allocate_sync(8_KiB), 8_KiB);
        memory.reset_peaks();
        peak_scope const step{memory};
        memory.deallocate_sync(memory.allocate_sync(4_KiB), 4_KiB);
    }
}

TEST_CASE("check macros: a block that resets the peaks cannot hide a higher peak" *
          doctest::should_fail()) {
    pool<host_resource> memory;
    VRAM_CHECK_PEAK_AT_MOST(memory, 8_KiB) {
        memory.deallocate_sync(memory.allocate_sync(64_MiB), 64_MiB);
        memory.reset_peaks();
    }
}

TEST_CASE("check macros: a block that leaves a peak_scope open cannot hide a higher peak" *
          doctest::should_fail()) {
    pool<host_resource>                            memory;
    std::optional<peak_scope<pool<host_resource>>> step;
    VRAM_CHECK_PEAK_AT_MOST(memory, 8_KiB) {
        memory.deallocate_sync(memory.allocate_sync(64_MiB), 64_MiB);
        step.emplace(memory);
    }
}

TEST_CASE("check macros: the allocations of a block are counted") {
    doubles::archetype<> memory;
    VRAM_CHECK_ALLOCATIONS(memory, 0) {}
    VRAM_CHECK_ALLOCATIONS(memory, 2) {
        for (int i = 0; i < 2; ++i) { memory.deallocate_sync(memory.allocate_sync(64), 64); }
    }
}

TEST_CASE("check macros: a block that allocates in its steady state fails its test" *
          doctest::should_fail()) {
    doubles::archetype<> memory;
    VRAM_CHECK_ALLOCATIONS(memory, 0) { memory.deallocate_sync(memory.allocate_sync(1), 1); }
}

TEST_CASE("check macros: a block may stay below its stated growth, and allocate nothing") {
    doubles::archetype<> memory;
    void*                kept = nullptr;
    VRAM_CHECK_DELTA_AT_MOST(memory, 4_KiB) { kept = memory.allocate_sync(4_KiB); }
    VRAM_CHECK_DELTA_AT_MOST(memory, 0) { memory.deallocate_sync(kept, 4_KiB); }
    VRAM_CHECK_NO_ALLOCATION(memory) {}
}

TEST_CASE("check macros: a block that grows by one byte too many fails its test" *
          doctest::should_fail()) {
    doubles::archetype<> memory;
    void*                kept = nullptr;
    VRAM_CHECK_DELTA_AT_MOST(memory, 4_KiB) { kept = memory.allocate_sync(4_KiB + 1); }
    memory.deallocate_sync(kept, 4_KiB + 1);
}

TEST_CASE("check macros: a block that must not allocate and does fails its test" *
          doctest::should_fail()) {
    doubles::archetype<> memory;
    VRAM_CHECK_NO_ALLOCATION(memory) { memory.deallocate_sync(memory.allocate_sync(1), 1); }
}

TEST_CASE("check macros: a function that survives each refusal") {
    pool<stream_ordered<host_resource>> memory;
    VRAM_CHECK_SURVIVES_OOM(memory, [](auto& mr) {
        mr.deallocate_sync(mr.allocate_sync(1_KiB), 1_KiB);
        return 1;
    });
    VRAM_CHECK_SURVIVES_OOM(memory, [](auto& mr) { mr.deallocate_sync(mr.allocate_sync(1), 1); },
                            {.for_good = false});
}

TEST_CASE("check macros: a function that swallows a refusal fails its test" *
          doctest::should_fail()) {
    pool<stream_ordered<host_resource>> memory;
    VRAM_CHECK_SURVIVES_OOM(memory, [](auto& mr) {
        void* const p = mr.try_allocate_sync(1_KiB);
        mr.deallocate_sync(p, 1_KiB);
        return p != nullptr;
    });
}

TEST_CASE("check macros: assertions nest, work without braces, and permit break and return") {
    doubles::archetype<> memory;
    int                  rounds = 0;
    for (;;) {
        VRAM_CHECK_NO_LEAK(memory)
        VRAM_CHECK_PEAK_AT_MOST(memory, 1_KiB) {
            ++rounds;
            memory.deallocate_sync(memory.allocate_sync(1_KiB), 1_KiB);
            break;
        }
    }
    CHECK(rounds == 1);
    VRAM_CHECK_NO_LEAK(memory) return;
}

TEST_CASE("check macros: an exception that leaves the block is unchanged") {
    doubles::archetype<> memory;
    void*                p = nullptr;
    CHECK_THROWS_AS(
        [&] {
            VRAM_CHECK_NO_LEAK(memory) {
                p = memory.allocate_sync(1_KiB);
                throw std::runtime_error{"news"};
            }
        }(),
        std::runtime_error);
    memory.deallocate_sync(p, 1_KiB);
}
