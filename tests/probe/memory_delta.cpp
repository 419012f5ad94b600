// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/memory_delta.hpp> // first: the header must stand alone

#include "../doubles/archetype.hpp"
#include "../pool/every_pool.hpp"

#include <vram/base/bytes.hpp>
#include <vram/layer/fallback.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/pool/peak_scope.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <type_traits>

using namespace vram;

template class vram::memory_delta<doubles::archetype<>>;
template class vram::memory_delta<statistics<doubles::archetype<>>>;

static_assert(!std::is_constructible_v<memory_delta<doubles::archetype<>>, doubles::archetype<>>,
              "a probe of a temporary would look at what is gone");

namespace {

/// Has `blocks` of 4 KiB live at once, and then frees them.
void rise(auto& memory, std::size_t blocks) {
    void* p[8];
    for (std::size_t i = 0; i < blocks; ++i) { p[i] = memory.allocate_sync(4_KiB); }
    for (std::size_t i = blocks; i-- > 0;) { memory.deallocate_sync(p[i], 4_KiB); }
}

/// A usage that others change too, like that of a driver's pool.
struct drivers_pool : host_resource {
    memory_usage               now{};
    [[nodiscard]] memory_usage usage() const { return now; }
};

} // namespace

TEST_CASE("memory_delta: the delta of a scope does not depend on earlier live memory") {
    doubles::archetype<> memory;
    void* const          old = memory.allocate_sync(1_MiB);

    memory_delta probe{memory};
    CHECK(probe.bytes() == 0);
    CHECK(probe.peak() == 0);
    CHECK(probe.allocations() == 0);

    void* const a = memory.allocate_sync(3_KiB);
    void* const b = memory.allocate_sync(2_KiB);
    memory.deallocate_sync(a, 3_KiB);
    CHECK(probe.bytes() == 2_KiB);
    CHECK(probe.returned() == 0);
    CHECK(probe.peak() == 5_KiB);
    CHECK(probe.peak_is_exact());
    CHECK(probe.reserved() == 2_KiB);
    CHECK(probe.allocations() == 2);
    CHECK(probe.before().live == 1_MiB);
    CHECK(probe.now().live == 1_MiB + 2_KiB);
    memory.deallocate_sync(b, 2_KiB);
    memory.deallocate_sync(old, 1_MiB);
}

TEST_CASE("memory_delta: a scope that frees more than it allocates has a negative delta") {
    doubles::archetype<> memory;
    void* const          old = memory.allocate_sync(8_KiB);
    memory_delta         probe{memory};
    memory.deallocate_sync(old, 8_KiB);
    CHECK(probe.bytes() == 0);
    CHECK(probe.returned() == 8_KiB);
    CHECK(probe.reserved() == 0);
    CHECK(probe.peak() == 0);
}

TEST_CASE("memory_delta: below an earlier peak the peak is an upper bound, and marked as one") {
    doubles::archetype<> memory;
    memory.deallocate_sync(memory.allocate_sync(10_KiB), 10_KiB);

    memory_delta probe{memory};
    memory.deallocate_sync(memory.allocate_sync(4_KiB), 4_KiB);
    CHECK(probe.peak() == 10_KiB);
    CHECK_FALSE(probe.peak_is_exact());

    memory.deallocate_sync(memory.allocate_sync(12_KiB), 12_KiB); // a new record
    CHECK(probe.peak() == 12_KiB);
    CHECK(probe.peak_is_exact());
}

TEST_CASE("memory_delta: a peak that was observed survives a reset of the resource's peaks") {
    tests::for_every_pool([](auto& memory) {
        rise(memory, 1);
        memory_delta probe{memory};
        rise(memory, 4);
        memory.reset_peaks();
        CHECK(probe.peak() == 16_KiB);
        CHECK(probe.peak_is_exact());
        rise(memory, 2); // above the peak at the start, which alone would count as a new peak
        CHECK(probe.peak() == 16_KiB);
        CHECK(probe.peak_is_exact());
        memory.reset_peaks();
        rise(memory, 3);
        CHECK(probe.peak() == 16_KiB);
        rise(memory, 5);
        CHECK(probe.peak() == 20_KiB);
        CHECK(probe.peak_is_exact());
    });
}

TEST_CASE("memory_delta: after a reset, a scope below the peaks of others has an upper bound") {
    tests::for_every_pool([](auto& memory) {
        rise(memory, 4);
        void* const  old = memory.allocate_sync(4_KiB);
        memory_delta probe{memory};
        rise(memory, 2);
        memory.reset_peaks();
        CHECK(probe.peak() == 12_KiB); // above the live block
        CHECK_FALSE(probe.peak_is_exact());
        rise(memory, 1);
        CHECK(probe.peak() == 12_KiB);
        CHECK_FALSE(probe.peak_is_exact());
        rise(memory, 4);
        CHECK(probe.peak() == 16_KiB);
        CHECK(probe.peak_is_exact());
        memory.deallocate_sync(old, 4_KiB);
    });
}

TEST_CASE("memory_delta: peaks that are reset before the scope leave the probe exact") {
    tests::for_every_pool([](auto& memory) {
        rise(memory, 4);
        memory.reset_peaks();
        memory_delta probe{memory};
        rise(memory, 2);
        CHECK(probe.peak() == 8_KiB);
        CHECK(probe.peak_is_exact());
        memory.reset_peaks();
        probe.reset();
        rise(memory, 1);
        CHECK(probe.peak() == 4_KiB);
        CHECK(probe.peak_is_exact());
    });
}

TEST_CASE("memory_delta: the probe is exact through a peak_scope inside it, open or closed") {
    tests::for_every_pool([](auto& memory) {
        memory_delta probe{memory};
        rise(memory, 4);
        {
            peak_scope step{memory};
            rise(memory, 2);
            CHECK(step.live() == 8_KiB);
            CHECK(probe.peak() == 16_KiB);
            CHECK(probe.peak_is_exact());
        }
        CHECK(probe.peak() == 16_KiB);
        CHECK(probe.peak_is_exact());
        {
            peak_scope const step{memory};
            rise(memory, 5);
        }
        CHECK(probe.peak() == 20_KiB);
        CHECK(probe.peak_is_exact());
    });
}

TEST_CASE(
    "memory_delta: an earlier peak that a peak_scope restores is not taken for the scope's own") {
    tests::for_every_pool([](auto& memory) {
        rise(memory, 4);
        auto step = std::make_unique<peak_scope<std::remove_reference_t<decltype(memory)>>>(memory);
        memory_delta probe{memory};
        rise(memory, 2);
        CHECK(probe.peak() == 8_KiB);
        CHECK(probe.peak_is_exact());
        step.reset();
        CHECK(probe.peak() == 16_KiB);
        CHECK_FALSE(probe.peak_is_exact());
    });
}

TEST_CASE("memory_delta: of two resources, one may reset its peaks") {
    fallback     memory{pool<host_resource>{}, pool<host_resource>{}};
    memory_delta probe{memory};
    rise(memory, 4);
    rise(memory.second(), 2);
    memory.second().reset_peaks();
    CHECK(probe.peak() == 24_KiB);
    memory.first().reset_peaks();
    CHECK(probe.peak() == 24_KiB);
}

TEST_CASE(
    "memory_delta: the shards of an arena reset their peaks together, and each remains observed") {
    sim_node     node;
    sim_stream   a, b;
    arena        memory{sim_resource{}, {.count = 4, .key = arena_key::stream}};
    memory_delta probe{memory};
    void* const  p = memory.allocate(a, 4_KiB);
    void* const  q = memory.allocate(b, 4_KiB);
    memory.deallocate(a, p, 4_KiB);
    memory.deallocate(b, q, 4_KiB);
    memory.reset_peaks();
    memory.deallocate(a, memory.allocate(a, 4_KiB), 4_KiB);
    CHECK(probe.peak() == 8_KiB);
    memory.trim();
    memory.reset_peaks();
    CHECK(probe.peak() == 8_KiB); // bounded by the peak of reserved bytes, not by the present ones
}

TEST_CASE("memory_delta: the probe is exact on virtual memory with reset peaks") {
    sim_node             node;
    sim_virtual_resource memory{};
    memory_delta         probe{memory};
    memory.deallocate_sync(memory.allocate_sync(4_MiB), 4_MiB);
    CHECK(memory.reset_peaks().peak_live == 4_MiB);
    CHECK(memory.usage().peak_live == 0);
    CHECK(probe.peak() == 4_MiB);
    CHECK(probe.peak_is_exact());
}

TEST_CASE("memory_delta: a peak that decreases without a notification is never exact") {
    drivers_pool memory;
    memory.now = {.live = 64, .peak_live = 64};
    memory_delta probe{memory};
    memory.now = {};
    CHECK(probe.peak() == 0);
    CHECK_FALSE(probe.peak_is_exact());
    memory.now = {.live = 8, .peak_live = 8};
    CHECK_FALSE(probe.peak_is_exact());
    memory.now = {.live = 8, .peak_live = 16};
    CHECK_FALSE(probe.peak_is_exact());
    memory.now = {.live = 65, .peak_live = 65};
    CHECK(probe.peak() == 1);
    CHECK(probe.peak_is_exact());

    memory.now = {.live = 8, .peak_live = 64};
    probe.reset();
    memory.now = {.live = 8, .peak_live = 16};
    CHECK(probe.peak() == 56); // the highest value that it has observed
    CHECK_FALSE(probe.peak_is_exact());
}

TEST_CASE("memory_delta: reset starts the scope again") {
    doubles::archetype<> memory;
    memory_delta         probe{memory};
    void* const          p = memory.allocate_sync(4_KiB);
    probe.reset();
    CHECK(probe.bytes() == 0);
    CHECK(probe.allocations() == 0);
    memory.deallocate_sync(p, 4_KiB);
    CHECK(probe.returned() == 4_KiB);
}

TEST_CASE("memory_delta: the probe reads usage through layers that forward it") {
    limiting     memory{doubles::archetype<>{}, 1_MiB};
    memory_delta probe{memory};
    void* const  p = memory.allocate_sync(1_KiB);
    CHECK(probe.bytes() == 1_KiB);
    memory.deallocate_sync(p, 1_KiB);
}

TEST_CASE("memory_delta: over a counting layer the peak is the scope's own") {
    statistics memory{doubles::archetype<>{}};
    memory.deallocate_sync(memory.allocate_sync(10_KiB), 10_KiB);
    void* const old = memory.allocate_sync(1_KiB);

    memory_delta probe{memory};
    void* const  p = memory.allocate_sync(4_KiB);
    memory.deallocate_sync(memory.allocate_sync(2_KiB), 2_KiB);
    CHECK(probe.bytes() == 4_KiB);
    CHECK(probe.peak() == 6_KiB);
    CHECK(probe.peak_is_exact());
    CHECK(probe.allocations() == 2);
    CHECK(probe.reserved() == 4_KiB);
    CHECK(probe.counted().refusals == 0);
    memory.deallocate_sync(p, 4_KiB);
    memory.deallocate_sync(old, 1_KiB);
    CHECK(probe.bytes() == 0);
    CHECK(probe.returned() == 1_KiB);
    CHECK(probe.reserved() == 0);

    probe.reset();
    CHECK(probe.returned() == 0);
    CHECK(probe.peak() == 0);
    CHECK(probe.before().live == 0);
    CHECK(probe.now().live == 0);
}

TEST_CASE(
    "memory_delta: probes of one layer may overlap, and do not affect the layer's own scopes") {
    statistics memory{doubles::archetype<>{}};
    memory.push();
    auto        first = std::make_unique<memory_delta<decltype(memory)>>(memory);
    void* const a     = memory.allocate_sync(1_KiB);
    auto        later = std::make_unique<memory_delta<decltype(memory)>>(memory);
    void* const b     = memory.allocate_sync(2_KiB);
    CHECK(first->peak() == 3_KiB);
    CHECK(later->peak() == 2_KiB);
    first.reset();
    CHECK(later->bytes() == 2_KiB);
    memory.deallocate_sync(a, 1_KiB);
    memory.deallocate_sync(b, 2_KiB);
    CHECK(later->returned() == 1_KiB);
    later.reset();
    CHECK(memory.pop().bytes == counter{0, 3072, 3072});
}

TEST_CASE("memory_delta: over a counting layer with histograms the counters are the scope's own") {
    auto         memory = host_resource{} | with::histograms;
    memory_delta probe{memory};
    void* const  p = memory.allocate_sync(100);
    memory.deallocate_sync(p, 100);
    CHECK(probe.peak() == 100);
    CHECK(probe.peak_is_exact());
    CHECK(probe.counted().blocks.total == 1);
}
