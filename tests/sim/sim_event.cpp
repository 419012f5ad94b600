// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_event.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include "../doubles/collecting.hpp"

#include <doctest/doctest.h>

using namespace vram;
using doubles::traced;
using namespace std::chrono_literals;

TEST_CASE("sim_event: an event that was never recorded is done, and a wait for it has no effect") {
    sim_node   node{traced()};
    sim_stream s, t;
    sim_event  e;
    CHECK(e.done());
    e.synchronize();
    sim_launch(s, {.duration = 5us});
    e.wait(t);
    e.record(s);
    sim_launch(t, {.name = "free"});
    sim_device{}.synchronize();
    CHECK(node.trace()[1].enqueued == sim_time{0});
    CHECK(node.figures().stream_waits == 0);
}

TEST_CASE(
    "sim_event: an event stands behind the work that the stream has at the time of the record") {
    sim_node   node{traced()};
    sim_stream s;
    sim_event  e;
    sim_launch(s, {.duration = 5us});
    e.record(s);
    sim_launch(s, {.duration = 90us});
    e.synchronize();
    CHECK(node.now() == 5us);
    CHECK(e.done());
    CHECK_FALSE(s.done());
}

TEST_CASE("sim_event: a second record does not change waits that were queued before") {
    sim_options o   = traced();
    o.compute_slots = 2;
    sim_node   node{o};
    sim_stream s, t;
    sim_event  e;
    sim_launch(s, {.name = "first", .duration = 5us});
    e.record(s);
    e.wait(t);
    sim_launch(s, {.name = "second", .duration = 50us});
    e.record(s);
    sim_launch(t, {.name = "waiter", .duration = 1us});
    sim_device{}.synchronize();
    auto const trace = node.trace();
    CHECK(trace[1].start == 5us); // not 55
    CHECK(e.done());
}

TEST_CASE("sim_event: a stream that waits for several events continues after the last of them") {
    sim_options o   = traced();
    o.compute_slots = 3;
    sim_node   node{o};
    sim_stream s, t, u;
    sim_event  e, f;
    sim_launch(s, {.duration = 5us});
    sim_launch(t, {.duration = 8us});
    e.record(s);
    f.record(t);
    e.wait(u);
    f.wait(u);
    sim_launch(u, {.name = "last", .duration = 1us});
    u.synchronize();
    CHECK(node.now() == 9us);
}

TEST_CASE("sim_event: an event recorded behind a wait is done when the awaited work is") {
    sim_node   node{traced()};
    sim_stream s, t;
    sim_event  e, f;
    sim_launch(s, {.duration = 5us});
    e.record(s);
    e.wait(t);
    f.record(t);
    CHECK_FALSE(f.done());
    f.synchronize();
    CHECK(node.now() == 5us);
}

TEST_CASE("sim_event: timed events return their completion times") {
    sim_node   node{traced()};
    sim_stream s;
    sim_event  begin{sim_device{}, true}, end{sim_device{}, true};
    node.work(2us);
    begin.record(s);
    sim_launch(s, {.duration = 7us});
    end.record(s);
    CHECK(end.time() - begin.time() == 7us);
    CHECK(begin.time() == 2us);
}

TEST_CASE("sim_event: a stream of another device cannot record it, but can wait for it") {
    sim_options o = traced();
    o.devices     = 2;
    sim_node   node{o};
    sim_stream s, t{sim_device{1}};
    sim_event  e;
    CHECK_THROWS_AS(e.record(t), sim_error);
    sim_launch(s, {.duration = 5us});
    e.record(s);
    e.wait(t);
    sim_launch(t, {.duration = 1us});
    t.synchronize();
    CHECK(node.now() == 6us);
}

TEST_CASE("sim_event: every record is counted") {
    sim_node   node{traced()};
    sim_stream s;
    sim_event  e;
    e.record(s);
    for (int i = 0; i < 1000; ++i) {
        e.record(s);
        REQUIRE(e.done());
    }
    CHECK(node.figures().events_recorded == 1001);
}
