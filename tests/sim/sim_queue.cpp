// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_queue.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("sim_queue: an event without loose ends is no operation") {
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

TEST_CASE("sim_queue: waits that are over are forgotten") {
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
/// Reports of a read on the legacy stream after a write on a stream that is no more.
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

TEST_CASE("sim_queue: the legacy stream comes after a destroyed blocking stream, and races with a "
          "destroyed non-blocking one") {
    CHECK(reports_after_end(true) == 0);
    CHECK(reports_after_end(false) == 1);
}

TEST_CASE("sim_queue: an event that the legacy stream waits for holds blocking streams too") {
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
