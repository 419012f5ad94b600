// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_stream_hold.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include "../../doubles/bombing.hpp"
#include "../../doubles/collecting.hpp"

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

TEST_CASE(
    "sim_stream_hold: waits find the work of a stream that is destroyed without host memory") {
    for (bool const by_legacy : {false, true}) {
        CAPTURE(by_legacy);
        sim_node                  node{doubles::collecting()};
        sim_resource              memory;
        void* const               p = memory.allocate_sync(1024);
        std::optional<sim_stream> s{std::in_place, sim_device{}, sim_stream_options{true}};
        sim_stream_view const     view = *s;
        sim_stream_hold           held{view};
        sim_launch(view, {.name = "work", .writes = {{p, 1024}}, .duration = 5ms});
        s.reset();
        {
            doubles::bombing armed{1};
            held = {};
            CHECK(armed.defuse());
        }
        CHECK_THROWS_AS((void)view.id(), sim_error);
        CHECK_FALSE(sim_stream{}.view() == view);
        if (by_legacy) {
            sim_launch(sim_stream_view::legacy(sim_device{}),
                       {.name = "later", .writes = {{p, 1024}}});
            sim_stream_view::legacy(sim_device{}).synchronize();
        } else {
            sim_device{}.synchronize();
        }
        CHECK(node.now() >= 5ms);
        memory.deallocate_sync(p, 1024);
        CHECK(node.reports().empty());
    }
}
