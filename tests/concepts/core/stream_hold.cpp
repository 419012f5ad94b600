// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/core/stream_hold.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <memory>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

TEST_CASE("stream_hold: a platform without notifications of ends has an empty hold") {
    auto const held = hold_stream<host_platform>({});
    CHECK_FALSE(held);
    CHECK_FALSE(held.ended());
    CHECK_FALSE(announces_ends<host_platform>);
    CHECK(announces_ends<sim_platform>);
}

TEST_CASE("stream_hold: an event can be recorded behind the work of a stream that has ended") {
    sim_node   node;
    auto       owner = std::make_unique<sim_stream>();
    auto const held  = hold_stream<sim_platform>(owner->view());
    REQUIRE(held);
    CHECK_FALSE(held.ended());
    sim_launch(*owner, {.duration = 5us});
    auto const before = sim_platform::ends();
    owner.reset();
    CHECK(held.ended());
    CHECK(sim_platform::ends() == before + 1);
    sim_event e;
    held.record(e);
    CHECK_FALSE(e.done());
    e.synchronize();
    CHECK(node.now() >= 5us);
}

TEST_CASE("stream_hold: the end of a raw stream is not announced") {
    sim_node         node;
    sim_stream const raw{sim_device{}, {.raw = true}};
    CHECK_FALSE(hold_stream<sim_platform>(raw.view()));
}
