// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_graph.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include "../doubles/collecting.hpp"

#include <doctest/doctest.h>

#include <thread>

using namespace vram;
using doubles::traced;
using doubles::status_of;
using namespace std::chrono_literals;

namespace {

/// Eight bytes at each end of a copy that the host waits for.
struct ends {
    ends()            = default;
    ends(ends const&) = delete;
    ~ends() {
        device.deallocate_sync(far, 8);
        host.deallocate_sync(near, 8);
    }
    sim_resource        device;
    sim_pinned_resource host;
    void*               far  = device.allocate_sync(8);
    void*               near = host.allocate_sync(8);
};

} // namespace

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
    "sim_graph: asking or waiting for a captured stream is an error, and the capture goes on; "
    "waiting for its device breaks it") {
    sim_node   node{traced()};
    sim_stream s;
    for (auto const mode : {sim_capture_mode::global, sim_capture_mode::thread_local_only,
                            sim_capture_mode::relaxed}) {
        sim_graph::begin(s, mode);
        CHECK(status_of([&] { static_cast<void>(s.done()); }) == sim_status::stream_capturing);
        CHECK(status_of([&] { s.synchronize(); }) == sim_status::stream_capturing);
        CHECK_FALSE(sim_platform::idle(s, s.id()));
        CHECK(sim_graph::end(s).size() == 0);

        sim_graph::begin(s, mode);
        CHECK(status_of([&] { sim_device{}.synchronize(); }) == sim_status::stream_capturing);
        CHECK(status_of([&] { static_cast<void>(sim_graph::end(s)); }) ==
              sim_status::capture_invalid);
        CHECK_FALSE(s.view().capturing());
    }
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

TEST_CASE("sim_graph: the mode says whose copies that the host waits for break a capture") {
    sim_node   node{traced()};
    sim_stream s;
    ends       memory;
    auto const copy       = [&] { sim_copy_sync(memory.far, memory.near, 8); };
    auto const by_another = [&] {
        sim_status  status = sim_status::deadlock;
        std::thread t{[&] { status = status_of(copy); }};
        t.join();
        return status;
    };
    auto const end = [&] { return status_of([&] { static_cast<void>(sim_graph::end(s)); }); };
    for (auto const mode : {sim_capture_mode::global, sim_capture_mode::thread_local_only}) {
        sim_graph::begin(s, mode);
        CHECK(status_of(copy) == sim_status::stream_capturing);
        CHECK(end() == sim_status::capture_invalid);
    }
    CHECK(node.trace().empty()); // what is refused is not done either

    sim_graph::begin(s, sim_capture_mode::global);
    CHECK(by_another() == sim_status::stream_capturing);
    CHECK(end() == sim_status::capture_invalid);

    sim_graph::begin(s, sim_capture_mode::thread_local_only);
    CHECK(by_another() == sim_status::ok);
    CHECK(end() == sim_status::ok);

    sim_graph::begin(s, sim_capture_mode::relaxed);
    CHECK(status_of(copy) == sim_status::ok);
    CHECK(end() == sim_status::ok);
    CHECK(node.trace().size() == 2);
}

TEST_CASE("sim_graph: threads of the platform do not disturb a capture in the global mode") {
    sim_node   node{traced()};
    sim_stream s;
    sim_graph::begin(s);
    ends       memory;
    sim_status status = sim_status::deadlock;
    {
        sim_thread const t{sim_device{}, [&] {
                               status =
                                   status_of([&] { sim_copy_sync(memory.far, memory.near, 8); });
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
    sim_stream s;
    ends       memory;
    sim_graph::begin(s, sim_capture_mode::thread_local_only);
    for (int i = 0; i < 40; ++i) {
        sim_node const   another{traced()};
        sim_stream const there;
    }
    CHECK(status_of([&] { sim_copy_sync(memory.far, memory.near, 8); }) ==
          sim_status::stream_capturing);
    CHECK(status_of([&] { static_cast<void>(sim_graph::end(s)); }) == sim_status::capture_invalid);
}
