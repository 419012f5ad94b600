// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/name_part.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <string>

// Names of copies of loaders and unloaders are tested in lines_of_parts.cpp.

using namespace vram;
using namespace vram::detail;

TEST_CASE("name_part: an operation that the program queues keeps its name") {
    sim_task task{.name = "k"};
    name_part(task);
    CHECK(std::string{task.name} == "k");
    CHECK(task.part == sim_part::program);
    CHECK(part_of(part_kind::loader) == sim_part::loader);
    CHECK(part_of(part_kind::program) == sim_part::program);
}
