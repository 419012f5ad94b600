// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/doctest.hpp> // first: the header must stand alone

#include "../doubles/archetype.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace vram;

TEST_CASE("a block that gives everything back has no leak") {
    doubles::archetype<> memory;
    VRAM_CHECK_NO_LEAK(memory) { memory.deallocate_sync(memory.allocate_sync(1_KiB), 1_KiB); }
}

TEST_CASE("a block that leaks fails its test" * doctest::should_fail()) {
    doubles::archetype<> memory;
    void*                left = nullptr;
    VRAM_CHECK_NO_LEAK(memory) { left = memory.allocate_sync(1_KiB); }
    memory.deallocate_sync(left, 1_KiB);
}

TEST_CASE("the growth of a block is checked to the byte") {
    doubles::archetype<> memory;
    void*                kept = nullptr;
    VRAM_CHECK_DELTA(memory, 4_KiB) { kept = memory.allocate_sync(4_KiB); }
    VRAM_CHECK_DELTA(memory, 0) { memory.deallocate_sync(kept, 4_KiB); }
}

TEST_CASE("a block that grows by more than it said fails its test" * doctest::should_fail()) {
    doubles::archetype<> memory;
    void*                kept = nullptr;
    VRAM_CHECK_DELTA(memory, 4_KiB) { kept = memory.allocate_sync(5_KiB); }
    memory.deallocate_sync(kept, 5_KiB);
}

TEST_CASE("the peak of a block may be as high as was said") {
    doubles::archetype<> memory;
    VRAM_CHECK_PEAK_AT_MOST(memory, 2_KiB) {
        memory.deallocate_sync(memory.allocate_sync(2_KiB), 2_KiB);
    }
}

TEST_CASE("a block that rises higher for a moment fails its test" * doctest::should_fail()) {
    doubles::archetype<> memory;
    VRAM_CHECK_PEAK_AT_MOST(memory, 2_KiB) {
        memory.deallocate_sync(memory.allocate_sync(2_KiB + 1), 2_KiB + 1);
    }
}

TEST_CASE("the allocations of a block are counted") {
    doubles::archetype<> memory;
    VRAM_CHECK_ALLOCATIONS(memory, 0) {}
    VRAM_CHECK_ALLOCATIONS(memory, 2) {
        for (int i = 0; i < 2; ++i) { memory.deallocate_sync(memory.allocate_sync(64), 64); }
    }
}

TEST_CASE("a block that allocates in its steady state fails its test" * doctest::should_fail()) {
    doubles::archetype<> memory;
    VRAM_CHECK_ALLOCATIONS(memory, 0) { memory.deallocate_sync(memory.allocate_sync(1), 1); }
}

TEST_CASE("the assertions nest, stand without braces, and let break and return through") {
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

TEST_CASE("an exception that leaves the block arrives as itself") {
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
