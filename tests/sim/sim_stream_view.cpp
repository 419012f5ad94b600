// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_stream_view.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include "../doubles/collecting.hpp"

#include <doctest/doctest.h>

#include <thread>
#include <type_traits>

using namespace vram;
using doubles::traced;
using namespace std::chrono_literals;

static_assert(std::is_trivially_copyable_v<sim_stream_view>);
static_assert(sizeof(sim_stream_view) == sizeof(void*));
static_assert(!std::is_convertible_v<int, sim_stream_view>);
static_assert(!std::is_convertible_v<std::nullptr_t, sim_stream_view>);

TEST_CASE("sim_stream_view: a default view means the default stream of the current device at the "
          "time of use") {
    sim_options o = traced();
    o.devices     = 2;
    sim_node        node{o};
    sim_stream_view s;
    CHECK(s == sim_stream_view{});
    CHECK(s.device() == sim_device{0});
    auto const             first = s.id();
    sim_device_guard const guard{sim_device{1}};
    CHECK(s.device() == sim_device{1});
    CHECK(s.id() != first);
    CHECK(s.id() == sim_stream_view::legacy(sim_device{1}).id());
}

TEST_CASE(
    "sim_stream_view: the legacy default stream waits for blocking streams, and they wait for it") {
    sim_node   node{traced()};
    sim_stream blocking{sim_device{}, {.blocking = true}}, free;
    sim_launch(blocking, {.name = "a", .duration = 5us});
    sim_call_host({}, [](void*) {}, nullptr); // on the default stream: after a
    sim_event e;
    e.record({});
    CHECK_FALSE(e.done());
    sim_launch(blocking, {.name = "b", .duration = 5us});
    sim_device{}.synchronize();
    auto const t = node.trace();
    REQUIRE(t.size() == 3);
    CHECK(t[1].start == 5us); // the host call waited for a
    CHECK(t[2].start == 5us);
}

TEST_CASE("sim_stream_view: the order of the legacy stream prevents races, except with "
          "non-blocking streams") {
    sim_node     node{traced()};
    sim_resource mr;
    void* const  p = mr.allocate_sync(64);
    sim_stream   a{sim_device{}, {.blocking = true}}, b{sim_device{}, {.blocking = true}}, free;
    sim_launch(a, {.writes = {{p, 64}}});
    sim_launch(sim_stream_view{}, {.name = "between"});
    sim_launch(b, {.writes = {{p, 64}}});
    CHECK(node.reports().empty());
    sim_launch(sim_stream_view{}, {.name = "again"});
    sim_launch(free, {.reads = {{p, 64}}});
    CHECK(node.reports().size() == 1);
    sim_device{}.synchronize();
    mr.deallocate_sync(p, 64);
}

TEST_CASE("sim_stream_view: done orders a thread after legacy work that the stream has joined" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node            node{traced()};
    sim_pinned_resource mr;
    void* const         p = mr.allocate_sync(64);
    sim_event           complete;
    sim_stream const    other;
    complete.record(other);
    sim_stream const blocking{sim_device{}, {.blocking = true}};
    sim_thread       reader{sim_device{}, [&] {
                          sim_work(10us);
                          blocking.synchronize();
                          sim_launch(sim_stream_view{}, {.writes = {{p, 64}}});
                          sim_work(20us); // meanwhile, `blocking` waits for the legacy stream
                          CHECK(blocking.done());
                          sim_touch({p, 64}, sim_access::read);
                      }};
    complete.wait(blocking);
    sim_work(20us);
    complete.wait(blocking);
    reader.join();
    CHECK(node.reports().empty());
    mr.deallocate_sync(p, 64);
}

TEST_CASE("sim_stream_view: with per_thread every thread has a default stream of its own") {
    sim_options o    = traced();
    o.default_stream = sim_default_stream::per_thread;
    sim_node      node{o};
    auto const    mine  = sim_stream_view{}.id();
    std::uint64_t other = 0;
    std::thread{[&] { other = sim_stream_view{}.id(); }}.join();
    CHECK(mine == sim_stream_view{}.id());
    CHECK(mine != other);
    CHECK(mine != sim_stream_view::legacy(sim_device{}).id());
}

TEST_CASE("sim_stream_view: done answers for the calling thread's simulated time") {
    sim_node   node{traced()};
    sim_stream s;
    CHECK(s.done());
    sim_launch(s, {.duration = 1us});
    CHECK_FALSE(s.done());
    node.work(1us);
    CHECK(s.done());
}

TEST_CASE("sim_stream_view: a polling loop makes progress") {
    sim_node   node{traced()};
    sim_stream s;
    sim_launch(s, {.duration = 1us});
    int asked = 0;
    while (!s.done()) { ++asked; }
    CHECK(asked == 5); // each "not yet" costs 200 ns
    CHECK(node.now() == 1us);
    CHECK(node.figures().queries == 6);
}
