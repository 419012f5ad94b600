// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/loader_statistics.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstring>

using vram::loader_statistics;

TEST_CASE(
    "loader_statistics: the stage that is nearly always busy is the one that the rest waits for") {
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
