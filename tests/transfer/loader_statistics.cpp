// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/loader_statistics.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstring>

using vram::loader_statistics;

TEST_CASE(
    "loader_statistics: the stage that is nearly always busy is the one that others wait for") {
    using b = loader_statistics::bound;
    loader_statistics s{.fill_ns = 90, .copy_ns = 50, .wall_ns = 100};
    CHECK(s.verdict() == b::producer);
    s.copy_ns = 95;
    CHECK(s.verdict() == b::transfer);
    s.wall_ns = 200;
    CHECK(s.verdict() == b::compute);
    CHECK(std::strcmp(name(b::producer), "producer-bound") == 0);
    CHECK(std::strcmp(name(b::transfer), "transfer-bound") == 0);
    CHECK(std::strcmp(name(b::compute), "compute-bound") == 0);
}

TEST_CASE("loader_statistics: time in which several producers fill counts once") {
    using b = loader_statistics::bound;
    loader_statistics s{.fill_ns = 720, .copy_ns = 85, .wall_ns = 100, .producers = 8};
    CHECK(s.slowest_ns() == 90);
    CHECK(s.overlap() == doctest::Approx(0.9));
    CHECK(s.verdict() == b::producer);
    s.use_ns = 99;
    CHECK(s.overlap() == doctest::Approx(0.99));
    CHECK(s.verdict() == b::compute);
    s.use_ns = 120; // the last use ends after the last batch was asked for
    CHECK(s.overlap() == 1);
}

TEST_CASE("loader_statistics: the rate is bytes per nanoseconds, and zero without either") {
    loader_statistics const s{.bytes = 50, .wall_ns = 100};
    CHECK(s.gigabytes_per_second() == doctest::Approx(0.5));
    CHECK(loader_statistics{}.gigabytes_per_second() == 0);
    CHECK(loader_statistics{}.overlap() == 0);
}
