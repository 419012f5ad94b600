// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/memory_delta.hpp> // first: the header must stand alone

#include "../doubles/archetype.hpp"

#include <vram/base/bytes.hpp>
#include <vram/layer/limiting.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <type_traits>

using namespace vram;

template class vram::memory_delta<doubles::archetype<>>;
template class vram::memory_delta<statistics<doubles::archetype<>>>;

static_assert(!std::is_constructible_v<memory_delta<doubles::archetype<>>, doubles::archetype<>>,
              "a probe of a temporary would look at what is gone");

TEST_CASE("a probe says what its scope took, whatever was out before") {
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

TEST_CASE("a scope that gives back more than it takes says so, and never a wrapped number") {
    doubles::archetype<> memory;
    void* const          old = memory.allocate_sync(8_KiB);
    memory_delta         probe{memory};
    memory.deallocate_sync(old, 8_KiB);
    CHECK(probe.bytes() == 0);
    CHECK(probe.returned() == 8_KiB);
    CHECK(probe.reserved() == 0);
    CHECK(probe.peak() == 0);
}

TEST_CASE("below an earlier peak the probe knows a bound and says that it is one") {
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

TEST_CASE("a reset starts again from here") {
    doubles::archetype<> memory;
    memory_delta         probe{memory};
    void* const          p = memory.allocate_sync(4_KiB);
    probe.reset();
    CHECK(probe.bytes() == 0);
    CHECK(probe.allocations() == 0);
    memory.deallocate_sync(p, 4_KiB);
    CHECK(probe.returned() == 4_KiB);
}

TEST_CASE("a probe looks through layers that forward the figures") {
    limiting     memory{doubles::archetype<>{}, 1_MiB};
    memory_delta probe{memory};
    void* const  p = memory.allocate_sync(1_KiB);
    CHECK(probe.bytes() == 1_KiB);
    memory.deallocate_sync(p, 1_KiB);
}

TEST_CASE("of a layer that counts, the peak is the scope's own") {
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

TEST_CASE("probes of one layer overlap in any way, and leave its own questions alone") {
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
