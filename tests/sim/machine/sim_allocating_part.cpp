// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_allocating_part.hpp> // first: the header stands alone

#include "../../doubles/collecting.hpp"

#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <source_location>

using namespace vram;

TEST_CASE("sim_allocating_part: a line of the program is no part of vram") {
    CHECK(detail::sim_part_of(std::source_location::current()).name == nullptr);
    CHECK(detail::sim_part_of({}).name == nullptr);
}

TEST_CASE("sim_allocating_part: a chunk of a pool is a leak of the pool") {
    sim_node   node{doubles::collecting()};
    auto const memory = std::make_unique<pool<sim_pinned_resource>>();
    memory->deallocate_sync(memory->allocate_sync(1000), 1000);
    node.finish();
    auto const all = node.take_reports();
    REQUIRE(all.size() == 1);
    auto const& part = detail::sim_part_of(all[0].first.where);
    CHECK(part.folder == "pool/");
    CHECK(all[0].text().find("a pool for its chunks") != std::string::npos);
}
