// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_graph.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include "../doubles/collecting.hpp"

#include <doctest/doctest.h>

using namespace vram;
using doubles::traced;
using doubles::status_of;
using namespace std::chrono_literals;

TEST_CASE(
    "sim_graph: captured work does not run until it is launched, and then as often as it is") {
    sim_node   node{traced()};
    sim_stream s;
    int        ran = 0;
    sim_graph::begin(s);
    CHECK(s.view().capturing());
    sim_launch(s, {.duration = 4us}, [&] { ++ran; });
    sim_launch(s, {.duration = 4us}, [&] { ran += 10; });
    sim_graph const graph = sim_graph::end(s);
    CHECK_FALSE(s.view().capturing());
    s.synchronize();
    CHECK(ran == 0);
    CHECK(graph.size() == 2);
    CHECK(graph.after(1) == std::vector<std::size_t>{0});
    graph.launch(s);
    graph.launch(s);
    s.synchronize();
    CHECK(ran == 22);
    CHECK(node.now() == 16us);
}

TEST_CASE("sim_graph: a stream that waits for a captured event joins the capture") {
    sim_node   node{traced()};
    sim_stream s, t;
    sim_event  fork, join;
    sim_graph::begin(s);
    sim_launch(s, {.name = "a"});
    fork.record(s);
    fork.wait(t);
    CHECK(t.view().capturing());
    sim_launch(t, {.name = "b"});
    sim_launch(s, {.name = "c"});
    join.record(t);
    join.wait(s);
    sim_launch(s, {.name = "d"});
    sim_graph const graph = sim_graph::end(s);
    CHECK_FALSE(t.view().capturing());
    REQUIRE(graph.size() == 4);
    CHECK(graph.after(1) == std::vector<std::size_t>{0});
    CHECK(graph.after(2) == std::vector<std::size_t>{0});
    CHECK(graph.after(3) == std::vector<std::size_t>{2, 1});
    graph.launch(t);
    sim_device{}.synchronize();
    CHECK(node.trace().size() == 4);
}

TEST_CASE(
    "sim_graph: asking or waiting for a captured stream is an error, and breaks the capture") {
    sim_node   node{traced()};
    sim_stream s;
    auto const broken_by = [&](auto body) {
        sim_graph::begin(s, sim_capture_mode::relaxed);
        CHECK(status_of(body) == sim_status::stream_capturing);
        CHECK(status_of([&] { static_cast<void>(sim_graph::end(s)); }) ==
              sim_status::capture_invalid);
        CHECK_FALSE(s.view().capturing());
    };
    broken_by([&] { static_cast<void>(s.done()); });
    broken_by([&] { s.synchronize(); });
    broken_by([&] { sim_device{}.synchronize(); });
}

TEST_CASE(
    "sim_graph: an event recorded in a capture is not for asking, and orders nothing outside") {
    sim_node   node{traced()};
    sim_stream s, busy;
    sim_event  e;
    sim_graph::begin(s, sim_capture_mode::relaxed);
    e.record(s);
    CHECK(status_of([&] { static_cast<void>(e.done()); }) == sim_status::stream_capturing);
    CHECK(status_of([&] { e.synchronize(); }) == sim_status::stream_capturing);
    static_cast<void>(sim_graph::end(s));
    e.record(busy); // an ordinary event again
    CHECK(e.done());
}

TEST_CASE("sim_graph: a captured stream may not depend on work outside") {
    sim_node   node{traced()};
    sim_stream s, other;
    sim_event  e;
    sim_launch(other, {});
    e.record(other);
    sim_graph::begin(s, sim_capture_mode::relaxed);
    CHECK(status_of([&] { e.wait(s); }) == sim_status::capture_isolation);
    CHECK(status_of([&] { static_cast<void>(sim_graph::end(s)); }) == sim_status::capture_invalid);
}

TEST_CASE("sim_graph: work of a joined stream that nobody waits for makes the capture invalid") {
    sim_node   node{traced()};
    sim_stream s, t;
    sim_event  fork;
    sim_graph::begin(s);
    fork.record(s);
    fork.wait(t);
    sim_launch(t, {});
    CHECK(status_of([&] { static_cast<void>(sim_graph::end(s)); }) == sim_status::capture_invalid);
    CHECK_FALSE(t.view().capturing());
}

TEST_CASE("sim_graph: the mode says whose allocations and questions break a capture") {
    sim_node     node{traced()};
    sim_stream   s;
    sim_event    e;
    sim_resource memory;
    for (auto const mode : {sim_capture_mode::global, sim_capture_mode::thread_local_only}) {
        sim_graph::begin(s, mode);
        CHECK(status_of([&] { static_cast<void>(e.done()); }) == sim_status::stream_capturing);
        CHECK(status_of([&] { static_cast<void>(sim_graph::end(s)); }) ==
              sim_status::capture_invalid);
        sim_graph::begin(s, mode);
        CHECK(status_of([&] { static_cast<void>(memory.allocate_sync(8)); }) ==
              sim_status::stream_capturing);
        CHECK(status_of([&] { static_cast<void>(sim_graph::end(s)); }) ==
              sim_status::capture_invalid);
    }
    sim_graph::begin(s, sim_capture_mode::relaxed);
    CHECK(e.done());
    void* const p = memory.allocate_sync(8);
    static_cast<void>(sim_graph::end(s));
    memory.deallocate_sync(p, 8);
}

TEST_CASE("sim_graph: threads of the platform do not disturb a capture in the global mode") {
    sim_node   node{traced()};
    sim_stream s;
    sim_graph::begin(s);
    sim_status status = sim_status::deadlock;
    {
        sim_thread const t{sim_device{}, [&] {
                               status = status_of([] {
                                   sim_event e;
                                   static_cast<void>(e.done());
                               });
                           }};
    }
    CHECK(status == sim_status::ok);
    static_cast<void>(sim_graph::end(s));
}

TEST_CASE("sim_graph: ends on the stream it began on, begins once, and never on the legacy default "
          "stream") {
    sim_node   node{traced()};
    sim_stream s, t;
    CHECK(status_of([&] { static_cast<void>(sim_graph::end(t)); }) == sim_status::capture_invalid);
    sim_graph::begin(s);
    CHECK(status_of([&] { sim_graph::begin(s); }) == sim_status::stream_capturing);
    CHECK(status_of([] { sim_graph::begin(sim_stream_view{}); }) == sim_status::stream_capturing);
    static_cast<void>(sim_graph::end(s));
}

TEST_CASE("sim_graph: accesses are checked when it is launched") {
    sim_node     node{traced()};
    sim_resource memory;
    sim_stream   s, t;
    void* const  p = memory.allocate_sync(8);
    sim_graph::begin(s);
    sim_launch(s, {.writes = {{p, 8}}});
    sim_graph const graph = sim_graph::end(s);
    graph.launch(s);
    CHECK(node.reports().empty());
    graph.launch(t);
    CHECK(node.reports().size() == 1);
    sim_device{}.synchronize();
    memory.deallocate_sync(p, 8);
}

TEST_CASE("sim_graph: a capture is its thread's however many nodes the thread turns to meanwhile") {
    sim_node   node{traced()};
    sim_stream s, t;
    sim_graph::begin(s, sim_capture_mode::thread_local_only);
    for (int i = 0; i < 40; ++i) {
        sim_node const   another{traced()};
        sim_stream const there;
    }
    CHECK(status_of([&] { t.synchronize(); }) == sim_status::stream_capturing);
    CHECK(status_of([&] { static_cast<void>(sim_graph::end(s)); }) == sim_status::capture_invalid);
}
