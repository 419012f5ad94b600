// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_physical.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_physical: new memory has a handle and no mapping") {
    sim_physical const memory;
    CHECK(memory.mappings == 0);
    CHECK(memory.handle);
}

TEST_CASE(
    "is_unwritten: the history of a mapping does not tell, that of its physical memory does") {
    sim_physical memory{.bytes = 64};
    memory.history = {64, memory.unwritten()};
    sim_block mapping;
    mapping.physical = 7;
    mapping.history  = {64, memory.unwritten()};
    CHECK(is_unwritten(mapping, memory.history, memory.history.at(0)));
    CHECK_FALSE(is_unwritten(mapping, mapping.history, mapping.history.at(0)));
    mapping.physical = 0;
    CHECK(is_unwritten(mapping, mapping.history, mapping.history.at(0)));
    CHECK_FALSE(is_unwritten(mapping, mapping.history, sim_history{}));
}
