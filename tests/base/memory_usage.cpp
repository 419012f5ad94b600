// SPDX-License-Identifier: Apache-2.0
#include <vram/base/memory_usage.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("memory_usage: unknown values are zero, and all values are compared") {
    memory_usage usage;
    CHECK(usage == memory_usage{.live = 0, .upstream = 0});
    usage.live = 1;
    CHECK_FALSE(usage == memory_usage{});
}

TEST_CASE("memory_usage: peaks restart at the live and reserved bytes, and the highest is kept") {
    memory_usage       usage{.live = 2, .reserved = 3, .peak_live = 7, .peak_reserved = 9};
    memory_usage const was = usage;
    CHECK(usage.highest_live() == 7);
    CHECK(usage.restart_peaks() == was);
    CHECK(usage == memory_usage{.live          = 2,
                                .reserved      = 3,
                                .peak_live     = 2,
                                .peak_reserved = 3,
                                .past_peak     = 7,
                                .restarts      = 1});
    usage.peak_live = 5; // lower than before
    usage.restart_peaks();
    CHECK(usage.past_peak == 7);
    CHECK(usage.highest_live() == 7);
    usage.peak_live = 8;
    CHECK(usage.highest_live() == 8);
}

TEST_CASE("memory_usage: raise_peaks takes higher earlier peaks, and returns true then") {
    memory_usage usage{.peak_live = 5, .peak_reserved = 6};
    usage.raise_peaks({.peak_live = 7, .peak_reserved = 4});
    CHECK(usage == memory_usage{.peak_live = 7, .peak_reserved = 6, .restarts = 1});
    usage.raise_peaks({.peak_live = 6, .peak_reserved = 8});
    CHECK(usage == memory_usage{.peak_live = 7, .peak_reserved = 8, .restarts = 2});
}

TEST_CASE("memory_usage: the sum of two resources has every figure, and the larger free block") {
    memory_usage sum{.live          = 1,
                     .requested     = 2,
                     .reserved      = 3,
                     .peak_live     = 4,
                     .peak_reserved = 5,
                     .past_peak     = 6,
                     .largest_free  = 7,
                     .pending       = 8,
                     .allocations   = 9,
                     .events        = 10,
                     .waits         = 11,
                     .upstream      = 12,
                     .restarts      = 13};
    sum.add({.live          = 100,
             .requested     = 100,
             .reserved      = 100,
             .peak_live     = 100,
             .peak_reserved = 100,
             .past_peak     = 50,
             .largest_free  = 5,
             .pending       = 100,
             .allocations   = 100,
             .events        = 100,
             .waits         = 100,
             .upstream      = 100,
             .restarts      = 100});
    CHECK(sum == memory_usage{.live          = 101,
                              .requested     = 102,
                              .reserved      = 103,
                              .peak_live     = 104,
                              .peak_reserved = 105,
                              .past_peak     = 106, // 6, and the 100 that were live at the peak
                              .largest_free  = 7,
                              .pending       = 108,
                              .allocations   = 109,
                              .events        = 110,
                              .waits         = 111,
                              .upstream      = 112,
                              .restarts      = 113});
}
