// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/live_counts.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <utility>

using namespace vram::detail;

TEST_CASE("live_counts: the peak restarts, and the highest number of live bytes is kept") {
    live_counts counts;
    counts.add(100);
    counts.add(50);
    counts.retract(100);
    CHECK(counts.live() == 50);
    CHECK(counts.peak() == 150);
    CHECK(counts.allocations() == 2);
    CHECK(counts.reset_peak() == 150);
    CHECK(counts.peak() == 50);
    CHECK(counts.most_live() == 150);
    counts.raise_peak(80);
    counts.raise_peak(70);
    CHECK(counts.peak() == 80);
    counts.raise_peak(200);
    CHECK(counts.most_live() == 200);
}

TEST_CASE("live_counts: bytes that are kept out are live and no allocation") {
    live_counts counts;
    counts.keep_out(256);
    CHECK(counts.live() == 256);
    CHECK(counts.peak() == 256);
    CHECK(counts.allocations() == 0);
}

TEST_CASE("live_counts: a move leaves zeros behind") {
    live_counts counts;
    counts.add(100);
    (void)counts.reset_peak();
    live_counts const moved = std::move(counts);
    CHECK(moved.live() == 100);
    CHECK(moved.most_live() == 100);
    CHECK(moved.allocations() == 1);
    CHECK(counts.live() == 0); // NOLINT(bugprone-use-after-move)
    CHECK(counts.peak() == 0);
    CHECK(counts.most_live() == 0);
    CHECK(counts.allocations() == 0);
}
