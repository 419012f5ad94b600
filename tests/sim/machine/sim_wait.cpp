// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_wait.hpp> // first: the header must stand alone

#include <vram/sim/machine/sim_queue.hpp>
#include <vram/sim/sim.hpp>
#include <vram/sim/sim_graph.hpp>
#include <vram/sim/sim_stream.hpp>

#include "../../doubles/collecting.hpp"

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_wait: a wait advances the clock and is counted, and wait_idle adds no order") {
    sim_machine       m{{}};
    sim_call          call{m, sim_call_kind::other, 0, std::source_location::current()};
    sim_stream_state& s = m.make_stream(*call.host, 0, false);
    sim_queue{call}.enqueue(s,
                            {.name = "k", .engine = sim_engine::compute, .duration = sim_time{9}});
    sim_wait{call}.wait_idle(0);
    CHECK(call.host->clock == sim_time{9});
    CHECK_FALSE(call.host->vclock.includes(s.slot, s.count));
    sim_wait{call}.synchronize(s);
    CHECK(call.host->vclock.includes(s.slot, s.count));
    CHECK(m.schedule.figures(0).host_waits == 2);
    CHECK(m.schedule.figures(0).host_waiting == sim_time{9});
}

TEST_CASE("sim_wait: a query of a captured stream, or a wait for it, breaks the capture") {
    sim_node         node;
    sim_stream const s;
    auto const       broken_by = [&](auto body) {
        sim_graph::begin(s, sim_capture_mode::relaxed);
        {
            sim_call call{node.machine(), sim_call_kind::other, 0, std::source_location::current()};
            CHECK_THROWS_AS(body(sim_wait{call}, s.view().state()), sim_error);
        }
        CHECK_THROWS_AS((void)sim_graph::end(s), sim_error); // so a view does not ask it
    };
    broken_by([](sim_wait w, sim_stream_state& state) { (void)w.done(state); });
    broken_by([](sim_wait w, sim_stream_state& state) { w.synchronize(state); });
}

TEST_CASE("sim_wait: a wait for a device breaks all captures of its streams, of each mode") {
    sim_node         node;
    sim_stream const first, second, third;
    sim_graph::begin(first);
    sim_graph::begin(second, sim_capture_mode::relaxed);
    sim_graph::begin(third, sim_capture_mode::relaxed);
    CHECK(doubles::status_of([] { sim_device{}.synchronize(); }) == sim_status::stream_capturing);
    for (sim_stream const* const s : {&first, &second, &third}) {
        CHECK(doubles::status_of([&] { (void)sim_graph::end(*s); }) == sim_status::capture_invalid);
    }
    sim_device{}.synchronize();
}

TEST_CASE("sim_wait: a deferred error is thrown once, and a sticky one always") {
    sim_machine m{{}};
    sim_call    call{m, sim_call_kind::other, 0, std::source_location::current()};
    m.at(0).pending = sim_status::launch_failed;
    CHECK_THROWS_AS(sim_wait{call}.synchronize(0), sim_error);
    sim_wait{call}.synchronize(0);
    m.at(0).pending = sim_status::launch_failed;
    m.at(0).sticky  = true;
    CHECK_THROWS_AS(sim_wait{call}.synchronize(0), sim_error);
    CHECK_THROWS_AS(sim_wait{call}.synchronize(0), sim_error);
}

TEST_CASE("sim_wait: a successful query of the legacy stream includes the blocking streams") {
    sim_node            node{{.on_report = sim_on_report::collect}};
    sim_pinned_resource pinned;
    void* const         p      = pinned.allocate_sync(64);
    auto const          legacy = sim_stream_view::legacy(sim_device{0});
    legacy.synchronize(); // the host knows all work of the legacy stream itself
    sim_stream const s{sim_device{0}, {.blocking = true}};
    sim_launch(s, {.reads = {{p, 64}}});
    sim_work(sim_time{5000});
    CHECK(legacy.done());
    sim_touch({p, 64}, sim_access::write);
    pinned.deallocate_sync(p, 64);
    CHECK(node.take_reports().empty());
}

TEST_CASE("sim_wait: a synchronisation with the legacy stream includes the blocking streams") {
    sim_node            node{{.on_report = sim_on_report::collect}};
    sim_resource        memory;
    sim_pinned_resource pinned;
    void* const         d        = memory.allocate_sync(4096);
    void* const         h        = pinned.allocate_sync(4096);
    bool                blocking = false;
    SUBCASE("which are ordered with it") { blocking = true; }
    SUBCASE("and not the others") {}
    sim_stream const stream{sim_device{}, {.blocking = blocking}};
    sim_copy(stream, h, d, 4096);
    CHECK(sim_stream_view{}.done() == !blocking);
    sim_stream_view{}.synchronize();
    sim_touch({h, 4096}, sim_access::read);
    CHECK(node.take_reports().empty() == blocking);
    sim_device{}.synchronize();
    memory.deallocate_sync(d, 4096);
    pinned.deallocate_sync(h, 4096);
}

TEST_CASE("sim_wait: a query or a wait of another thread does not order later work of the stream") {
    sim_node            node{{.on_report = sim_on_report::collect}};
    sim_resource        memory;
    sim_pinned_resource pinned;
    void* const         d    = memory.allocate_sync(4096);
    void* const         h    = pinned.allocate_sync(4096);
    bool                asks = false;
    SUBCASE("done") { asks = true; }
    SUBCASE("synchronize") {}
    sim_stream const stream;
    sim_thread       a{sim_device{}, [&] {
                     sim_touch({h, 4096}, sim_access::write);
                     if (asks) {
                         (void)stream.done();
                     } else {
                         stream.synchronize();
                     }
                 }};
    sim_thread       b{sim_device{}, [&] {
                     sim_work(sim_time{1000000}); // later, but not ordered
                     sim_copy(stream, d, h, 4096);
                 }};
    a.join();
    b.join();
    if (sim_ordered_threads) { CHECK(node.take_reports().size() == 1); } // else in any order
    sim_device{}.synchronize();
    memory.deallocate_sync(d, 4096);
    pinned.deallocate_sync(h, 4096);
}
