// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/expect_disjoint.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

// The reports are tested in sim_copy.cpp.

using namespace vram;
using namespace vram::detail;

TEST_CASE("first_overlap: a range that is written and accessed again is found, with its bounds") {
    std::byte  memory[100];
    auto const range = [&](std::size_t from, std::size_t bytes) {
        return sim_range{memory + from, bytes};
    };
    using uses = std::vector<sim_task::use>;
    CHECK(first_overlap(uses{}).bytes == 0);
    CHECK(first_overlap(uses{{range(0, 50), sim_access::read}, {range(50, 50), sim_access::write}})
              .bytes == 0);
    CHECK(first_overlap(uses{{range(0, 60), sim_access::read}, {range(50, 50), sim_access::read}})
              .bytes == 0); // reads may overlap
    sim_range const both =
        first_overlap(uses{{range(50, 50), sim_access::write}, {range(0, 60), sim_access::read}});
    CHECK(both.begin() == range(50, 1).begin());
    CHECK(both.bytes == 10);
    CHECK(first_overlap(uses{{range(10, 0), sim_access::write}, {range(0, 60), sim_access::read}})
              .bytes == 0); // an empty range
}
