// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_stream_hold.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <optional>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

TEST_CASE("sim_stream_hold: the handle of a stream is not reused until its last hold is released") {
    sim_node                  node;
    std::optional<sim_stream> s{std::in_place};
    sim_stream_view const     view = *s;
    sim_stream_hold           held{view}, copy = held;
    auto const                id   = s->id();
    auto const                ends = sim_platform::ends();
    sim_launch(*s, {.name = "work", .duration = 5ms});
    CHECK(held);
    CHECK_FALSE(held.ended());
    s.reset();
    CHECK(held.ended());
    CHECK(sim_platform::ends() == ends + 1);
    CHECK(view.id() == id);
    CHECK_THROWS_AS(sim_launch(view, {.name = "too late"}), sim_error);
    {
        sim_stream const other;
        CHECK_FALSE(other.view() == view);
    }
    held = {};
    sim_event e;
    copy.record(e);
    CHECK_FALSE(e.done());
    e.synchronize();
    CHECK(node.now() >= 5ms);
    copy = {};
    CHECK_THROWS_AS((void)view.id(), sim_error);
}

TEST_CASE("sim_stream_hold: a hold on a default or raw stream is empty") {
    sim_node         node;
    sim_stream const raw{sim_device::current(), {.raw = true}};
    CHECK_FALSE(sim_stream_hold{raw.view()});
    CHECK_FALSE(sim_stream_hold{sim_stream_view{}});
    CHECK_FALSE(sim_stream_hold{sim_stream_view::legacy(sim_device::current())});
}
