// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_queue.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include "../../doubles/collecting.hpp"

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_queue: an event on a stream without waits is no operation") {
    sim_machine       m{{}};
    sim_call          call{m, sim_call_kind::other, 0, std::source_location::current()};
    sim_queue         queue{call};
    sim_stream_state& s = m.make_stream(*call.host, 0, false);
    sim_stream_state& t = m.make_stream(*call.host, 0, false);
    sim_event_state&  e = m.make_event(0, false);
    queue.enqueue(s, {.name = "k", .engine = sim_engine::compute, .duration = sim_time{10}});
    auto const before = m.schedule.count();
    queue.record(e, s);
    CHECK(m.schedule.count() == before);
    queue.wait(t, e);
    queue.record(e, t); // after a wait that nothing follows: a place of its own
    CHECK(m.schedule.count() == before + 1);
    CHECK(e.place.pending());
    while (m.schedule.next() != sim_time::max()) { m.schedule.step(call.held); }
    CHECK_FALSE(e.place.pending());
    CHECK(m.schedule.now() == sim_time{10});
}

TEST_CASE("sim_queue: the legacy stream waits once for the work of each blocking stream") {
    for (bool const races : {true, false}) {
        sim_machine       m{{.checks = {.races = races}}};
        sim_call          call{m, sim_call_kind::other, 0, std::source_location::current()};
        sim_queue         queue{call};
        sim_stream_state& legacy = *m.at(0).legacy;
        auto const        work   = [&](sim_stream_state& s) {
            queue.enqueue(s, {.name = "k", .engine = sim_engine::host, .duration = sim_time{5}});
        };
        for (int i = 0; i < 10; ++i) { work(m.make_stream(*call.host, 0, true)); }
        CHECK(m.at(0).unfollowed.size() == 10);
        work(legacy);
        CHECK(m.at(0).unfollowed.size() == 0);
        work(legacy);
        work(m.make_stream(*call.host, 0, true));
        CHECK(m.at(0).unfollowed.size() == 1);
        auto const before = legacy.tail.number;
        work(legacy);
        CHECK(legacy.tail.number > before);
        while (m.schedule.next() != sim_time::max()) { m.schedule.step(call.held); }
        CHECK_FALSE(legacy.tail.pending());
    }
}

TEST_CASE("sim_queue: completed waits are removed") {
    sim_machine       m{{}};
    sim_call          call{m, sim_call_kind::other, 0, std::source_location::current()};
    sim_queue         queue{call};
    sim_stream_state& s = m.make_stream(*call.host, 0, false);
    sim_stream_state& t = m.make_stream(*call.host, 0, false);
    sim_event_state&  e = m.make_event(0, false);
    for (int i = 0; i < 1000; ++i) {
        queue.enqueue(s, {.name = "k", .engine = sim_engine::compute, .duration = sim_time{1}});
        queue.record(e, s);
        queue.wait(t, e);
        while (m.schedule.next() != sim_time::max()) { m.schedule.step(call.held); }
    }
    CHECK(t.waits.size() <= 16);
}

namespace {
/// Returns the reports of a read on the legacy stream after a write on a stream that was destroyed.
std::size_t reports_after_end(bool blocking) {
    sim_node     node{{.on_report = sim_on_report::collect}};
    sim_resource memory;
    void* const  p = memory.allocate_sync(1024);
    {
        sim_stream s{sim_device{}, {.blocking = blocking}};
        sim_launch(s, {.name = "w", .writes = {{p, 1024}}});
    }
    sim_launch(sim_stream_view{}, {.name = "r", .reads = {{p, 1024}}});
    sim_device{}.synchronize();
    memory.deallocate_sync(p, 1024);
    return node.reports().size();
}
} // namespace

TEST_CASE("sim_queue: the legacy stream is ordered after a destroyed blocking stream, and races "
          "with a non-blocking one") {
    CHECK(reports_after_end(true) == 0);
    CHECK(reports_after_end(false) == 1);
}

TEST_CASE("sim_queue: blocking streams also wait for an event that the legacy stream waits for") {
    sim_node     node{{.on_report = sim_on_report::collect, .trace = true}};
    sim_resource memory;
    void* const  p = memory.allocate_sync(1024);
    sim_stream   free;
    sim_stream   blocking{sim_device{}, {.blocking = true}};
    sim_event    e;
    sim_launch(free, {.name = "w", .writes = {{p, 1024}}, .duration = sim_time{50}});
    e.record(free);
    e.wait(sim_stream_view{});
    sim_call_host(blocking, [](void*) {}, nullptr);
    sim_launch(blocking, {.name = "r", .reads = {{p, 1024}}});
    sim_device{}.synchronize();
    CHECK(node.reports().empty());
    REQUIRE(node.trace().size() == 3);
    CHECK(node.trace()[1].start == sim_time{50}); // the host call
    memory.deallocate_sync(p, 1024);
}

namespace {
/// Device memory, a blocking stream, and a node that collects its reports.
struct legacy_scene {
    ~legacy_scene() {
        sim_device{}.synchronize();
        memory.deallocate_sync(p, 4096);
    }
    sim_node         node{{.on_report = sim_on_report::collect}};
    sim_resource     memory;
    void*            p = memory.allocate_sync(4096);
    sim_stream const blocking{sim_device{}, {.blocking = true}};
    sim_stream const apart;

    void write(sim_stream_view s) { sim_launch(s, {.name = "writer", .writes = {{p, 4096}}}); }
};
} // namespace

TEST_CASE("sim_queue: a wait of the legacy stream is an action that blocking streams wait for") {
    legacy_scene t;
    sim_event    e;
    t.write(t.apart);
    e.record(t.apart);
    e.wait(sim_stream_view{}); // without work on the legacy stream
    t.write(t.blocking);
    CHECK(t.node.reports().empty());
    t.write(t.apart);
    CHECK(t.node.take_reports().size() == 1);
}

TEST_CASE("sim_queue: stream-ordered memory follows the order of the legacy stream") {
    legacy_scene       t;
    sim_async_resource async;
    SUBCASE("freed there after the use of a blocking stream") {
        void* const q = async.allocate(t.blocking, 4096);
        sim_launch(t.blocking, {.name = "writer", .writes = {{q, 4096}}});
        async.deallocate(sim_stream_view{}, q, 4096);
    }
    SUBCASE("allocated there and used by a blocking stream") {
        void* const q = async.allocate(sim_stream_view{}, 4096);
        sim_launch(t.blocking, {.name = "writer", .writes = {{q, 4096}}});
        async.deallocate(t.blocking, q, 4096);
    }
    SUBCASE("freed on a blocking stream after a use there") {
        void* const q = async.allocate(t.blocking, 4096);
        sim_launch(sim_stream_view{}, {.name = "writer", .writes = {{q, 4096}}});
        async.deallocate(t.blocking, q, 4096);
    }
    CHECK(t.node.reports().empty());
}

TEST_CASE("sim_queue: a free on the legacy stream does not follow a non-blocking stream") {
    legacy_scene       t;
    sim_async_resource async;
    void* const        q = async.allocate(t.apart, 4096);
    sim_launch(t.apart, {.name = "writer", .writes = {{q, 4096}}});
    async.deallocate(sim_stream_view{}, q, 4096);
    REQUIRE_FALSE(t.node.reports().empty());
    CHECK(t.node.take_reports().front().kind == sim_mistake::free_before_last_use);
}

TEST_CASE("sim_queue: the legacy stream is refused while a blocking stream is being captured") {
    legacy_scene t;
    auto const   status = [](auto action) {
        try {
            action();
        } catch (sim_error const& e) { return e.status(); }
        return sim_status::ok;
    };
    auto const launch = [] { sim_launch(sim_stream_view{}, {.name = "legacy"}); };
    sim_graph::begin(t.blocking, sim_capture_mode::relaxed);
    CHECK(status(launch) == sim_status::capture_implicit);
    CHECK(status([&] { (void)sim_graph::end(t.blocking); }) == sim_status::capture_invalid);
    CHECK(status(launch) == sim_status::ok);
    sim_graph::begin(t.apart, sim_capture_mode::relaxed); // not in order with the legacy stream
    CHECK(status(launch) == sim_status::ok);
    CHECK(sim_graph::end(t.apart).size() == 0);
}

TEST_CASE(
    "sim_queue: the legacy stream breaks the captures of all blocking streams, and no other") {
    legacy_scene     t;
    sim_stream const second{sim_device{}, {.blocking = true}};
    auto const       legacy = sim_stream_view::legacy(sim_device{});
    auto const       breaks = [&](auto action) {
        for (sim_stream const* const s : {&t.blocking, &t.apart, &second}) { sim_graph::begin(*s); }
        CHECK(doubles::status_of(action) == sim_status::capture_implicit);
        for (sim_stream const* const s : {&t.blocking, &second}) {
            CHECK(doubles::status_of([&] { (void)sim_graph::end(*s); }) ==
                        sim_status::capture_invalid);
        }
        CHECK(doubles::status_of([&] { (void)sim_graph::end(t.apart); }) == sim_status::ok);
    };
    breaks([&] { sim_launch(legacy, {.name = "legacy"}); });
    breaks([&] { legacy.synchronize(); });
    breaks([&] { (void)legacy.done(); });
}

TEST_CASE("sim_queue: an event of an ended capture is refused, and usable once recorded again") {
    legacy_scene     t;
    sim_event        e;
    sim_stream const other;
    sim_graph::begin(t.apart);
    sim_launch(t.apart, {.name = "captured"});
    e.record(t.apart);
    sim_graph const graph = sim_graph::end(t.apart);
    try {
        e.wait(other);
        FAIL("the wait was accepted");
    } catch (sim_error const& refused) { CHECK(refused.status() == sim_status::captured_event); }
    CHECK_FALSE(other.view().capturing());
    CHECK(graph.size() == 1);
    e.record(t.apart);
    e.wait(other);
    sim_launch(other, {.name = "after"});
    CHECK(graph.size() == 1);
}
