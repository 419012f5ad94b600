// SPDX-License-Identifier: Apache-2.0
#include <vram/order/core/record_behind.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <memory>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

TEST_CASE("record_behind: the event covers the work of the stream") {
    sim_node         node;
    sim_stream const s;
    sim_event        e;
    CHECK(record_behind<sim_platform>(e, s.view(), s.id()) == recorded::done);
    sim_launch(s, {.duration = 5us});
    CHECK(record_behind<sim_platform>(e, s.view(), s.id()) == recorded::pending);
    e.synchronize();
    CHECK(node.now() >= 5us);
}

TEST_CASE("record_behind: a captured stream is recognised, and its capture continues") {
    sim_node         node;
    sim_stream const s;
    sim_event        e;
    sim_graph::begin(s);
    CHECK(record_behind<sim_platform>(e, s.view(), s.id()) == recorded::captured);
    CHECK(sim_graph::end(s).size() == 0);
    CHECK(record_behind<sim_platform>(e, s.view(), s.id()) == recorded::done);
}

TEST_CASE(
    "record_behind: a hold covers a stream that has ended, and without a hold its work is lost") {
    sim_node   node;
    sim_event  e;
    auto       owner = std::make_unique<sim_stream>();
    auto const view  = owner->view();
    auto const id    = owner->id();
    auto const held  = hold_stream<sim_platform>(view);
    sim_launch(*owner, {.duration = 5us});
    owner.reset();
    CHECK(record_behind<sim_platform>(e, view, id, held) == recorded::pending);
    e.synchronize();

    owner          = std::make_unique<sim_stream>(sim_device{}, sim_stream_options{.raw = true});
    auto const raw = owner->view();
    auto const its = owner->id();
    owner.reset();
    CHECK(record_behind<sim_platform>(e, raw, its) == recorded::lost);
}
