// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_graph.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include "../doubles/collecting.hpp"
#include "../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;
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

TEST_CASE("sim_graph: captured work runs at each launch, and not before") {
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

TEST_CASE("sim_graph: a query or wait for a captured stream throws, and only a wait for its device "
          "breaks the capture") {
    sim_node   node{traced()};
    sim_stream s;
    for (auto const mode : {sim_capture_mode::global, sim_capture_mode::thread_local_only,
                            sim_capture_mode::relaxed}) {
        sim_graph::begin(s, mode);
        CHECK(status_of([&] { static_cast<void>(s.done()); }) == sim_status::stream_capturing);
        CHECK(status_of([&] { s.synchronize(); }) == sim_status::stream_capturing);
        CHECK(sim_graph::end(s).size() == 0);

        sim_graph::begin(s, mode);
        CHECK(status_of([&] { sim_device{}.synchronize(); }) == sim_status::stream_capturing);
        CHECK(status_of([&] { static_cast<void>(sim_graph::end(s)); }) ==
              sim_status::capture_invalid);
        CHECK_FALSE(s.view().capturing());
    }
}

TEST_CASE("sim_graph: an event recorded in a capture cannot be queried, and orders nothing outside "
          "the graph") {
    sim_node   node{traced()};
    sim_stream s, busy;
    sim_event  e;
    sim_graph::begin(s, sim_capture_mode::relaxed);
    e.record(s);
    static_cast<void>(sim_graph::end(s));
    // The capture has ended, so that no call can break it.
    CHECK(status_of([&] { static_cast<void>(e.done()); }) == sim_status::captured_event);
    CHECK(status_of([&] { e.synchronize(); }) == sim_status::captured_event);
    e.record(busy); // an ordinary event again
    CHECK(e.done());
}

TEST_CASE("sim_graph: a query of a captured event, or a wait of the host for it, breaks the "
          "capture in every mode") {
    for (auto const mode : {sim_capture_mode::global, sim_capture_mode::thread_local_only,
                            sim_capture_mode::relaxed}) {
        for (bool const waits : {false, true}) {
            sim_node   node{traced()};
            sim_stream s;
            sim_event  e, before;
            before.record(s);
            sim_graph::begin(s, mode);
            CHECK(before.done()); // of an event from before the capture: permitted
            e.record(s);
            CHECK(status_of([&] { waits ? e.synchronize() : static_cast<void>(e.done()); }) ==
                  sim_status::captured_event);
            CHECK(status_of([&] { static_cast<void>(sim_graph::end(s)); }) ==
                  sim_status::capture_invalid);
        }
    }
}

TEST_CASE("sim_graph: a captured stream must not depend on work outside its graph") {
    sim_node   node{traced()};
    sim_stream s, other;
    sim_event  e;
    sim_launch(other, {});
    e.record(other);
    sim_graph::begin(s, sim_capture_mode::relaxed);
    CHECK(status_of([&] { e.wait(s); }) == sim_status::capture_isolation);
    CHECK(status_of([&] { static_cast<void>(sim_graph::end(s)); }) == sim_status::capture_invalid);
}

TEST_CASE("sim_graph: unjoined work of a stream that joined makes the capture invalid") {
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

TEST_CASE("sim_graph: a stream of a capture may be destroyed, and its work must be joined") {
    sim_node   node{traced()};
    sim_stream s;
    sim_event  fork, join;
    for (int const joined : {0, 1, 2}) {
        CAPTURE(joined);
        sim_graph::begin(s);
        fork.record(s);
        std::optional<sim_stream> t{std::in_place};
        fork.wait(*t);
        sim_launch(*t, {});
        join.record(*t);
        if (joined == 1) { join.wait(s); }
        t.reset();
        if (joined == 2) { join.wait(s); }
        CHECK(s.view().capturing());
        CHECK(status_of([&] { static_cast<void>(sim_graph::end(s)); }) ==
              (joined != 0 ? sim_status::ok : sim_status::capture_invalid));
    }
}

TEST_CASE("sim_graph: a capture ends if the stream on which it began is destroyed") {
    sim_node                  node{traced()};
    std::optional<sim_stream> s{std::in_place};
    sim_stream                t;
    sim_event                 fork;
    sim_graph::begin(*s);
    fork.record(*s);
    fork.wait(t);
    s.reset();
    CHECK_FALSE(t.view().capturing());
    CHECK(status_of([&] { (void)fork.done(); }) == sim_status::captured_event);
    CHECK(status_of([&] { static_cast<void>(sim_graph::end(t)); }) == sim_status::capture_invalid);
    int ran = 0;
    sim_launch(t, {}, [&] { ++ran; });
    t.synchronize();
    CHECK(ran == 1);
}

TEST_CASE(
    "sim_graph: the mode determines the threads with synchronous copies that break a capture") {
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
    CHECK(node.trace().empty()); // a refused call has no effect

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

TEST_CASE("sim_graph: threads of the platform break no capture in the global mode") {
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

TEST_CASE("sim_graph: a capture ends on its first stream, begins once, and never on the legacy "
          "default stream") {
    sim_node   node{traced()};
    sim_stream s, t;
    CHECK(status_of([&] { static_cast<void>(sim_graph::end(t)); }) == sim_status::capture_invalid);
    sim_graph::begin(s);
    CHECK(status_of([&] { sim_graph::begin(s); }) == sim_status::stream_capturing);
    CHECK(status_of([] { sim_graph::begin(sim_stream_view{}); }) == sim_status::stream_capturing);
    static_cast<void>(sim_graph::end(s));
}

TEST_CASE("sim_graph: only the thread that began a capture ends it, unless its mode is relaxed") {
    sim_node   node{traced()};
    sim_stream s, t;
    sim_event  fork;
    auto const end_elsewhere = [&] {
        sim_status  seen = sim_status::ok;
        std::thread other{[&] { seen = status_of([&] { static_cast<void>(sim_graph::end(s)); }); }};
        other.join();
        return seen;
    };
    for (sim_capture_mode const mode :
         {sim_capture_mode::global, sim_capture_mode::thread_local_only}) {
        sim_graph::begin(s, mode);
        fork.record(s);
        fork.wait(t);
        CHECK(end_elsewhere() == sim_status::capture_wrong_thread);
        CHECK_FALSE(
            s.view().capturing()); // the refused call has ended the capture, without a graph
        CHECK_FALSE(t.view().capturing());
        CHECK(status_of([&] { static_cast<void>(sim_graph::end(s)); }) ==
              sim_status::capture_invalid);
    }
    sim_graph::begin(s, sim_capture_mode::relaxed);
    CHECK(end_elsewhere() == sim_status::ok);
    CHECK_FALSE(s.view().capturing());
}

TEST_CASE("sim_graph: the legacy default stream joins no capture") {
    sim_node   node{traced()};
    sim_stream blocking{sim_device{}, {.blocking = true}}, other;
    auto const legacy = sim_stream_view::legacy(sim_device{});
    sim_event  e;
    for (sim_stream const* const s : {&blocking, &other}) {
        sim_graph::begin(*s);
        e.record(*s);
        CHECK(status_of([&] { e.wait(legacy); }) ==
              (s == &blocking ? sim_status::capture_implicit : sim_status::stream_capturing));
        CHECK_FALSE(legacy.capturing());
        CHECK(status_of([&] { static_cast<void>(sim_graph::end(*s)); }) ==
              sim_status::capture_invalid);
    }
}

TEST_CASE("sim_graph: a synchronous copy in a captured default stream is refused in each mode") {
    sim_options options    = traced();
    options.default_stream = sim_default_stream::per_thread;
    sim_node              node{options};
    ends                  memory;
    sim_resource          mr;
    void* const           p = mr.allocate_sync(8);
    sim_stream_view const mine;
    sim_graph::begin(mine, sim_capture_mode::relaxed);
    CHECK(status_of([&] { sim_copy_sync(p, memory.far, 8); }) == sim_status::stream_capturing);
    CHECK(status_of([&] { static_cast<void>(sim_graph::end(mine)); }) ==
          sim_status::capture_invalid);
    mr.deallocate_sync(p, 8);
}

TEST_CASE("sim_graph: accesses are checked at each launch") {
    sim_node     node{traced()};
    sim_resource memory;
    sim_stream   s, t;
    void* const  p = memory.allocate_sync(8);
    sim_graph::begin(s);
    sim_launch(s, {.writes = {{p, 8}}});
    sim_graph const graph = sim_graph::end(s);
    graph.launch(s);
    CHECK(node.reports().empty());
    sim_launch(t, {.writes = {{p, 8}}});
    CHECK(node.reports().size() == 1);
    sim_device{}.synchronize();
    memory.deallocate_sync(p, 8);
}

TEST_CASE("sim_graph: pageable memory of a copy is in use until the launch is complete") {
    sim_node          node{{.on_report = sim_on_report::collect}};
    sim_stream        s, other;
    sim_resource      memory;
    void* const       p = memory.allocate_sync(1024);
    std::vector<char> up(1024), down(1024);
    sim_graph::begin(s);
    sim_copy(s, p, up.data(), 512);
    sim_copy(s, down.data(), p, 512);
    sim_graph const graph = sim_graph::end(s);
    sim_range const source{up.data(), 1024}, target{down.data(), 1024};
    sim_touch(source, sim_access::write); // before the launch
    graph.launch(s);
    SUBCASE("writes of the source and reads of the destination must wait") {
        sim_touch({up.data() + 512, 512}, sim_access::write); // the graph does not read it
        sim_touch(source, sim_access::read);
        CHECK(node.reports().empty());
        sim_touch(source, sim_access::write);
        sim_touch(target, sim_access::read);
        std::vector<sim_report> const all = node.take_reports();
        REQUIRE(all.size() == 2);
        CHECK(all[0].kind == sim_mistake::race);
        CHECK(all[0].bytes == 512);
        CHECK(all[0].first.graph);
        CHECK(all[1].kind == sim_mistake::race);
    }
    SUBCASE("a wait for the stream, an event or the device is an order") {
        s.synchronize();
        sim_touch(source, sim_access::write);
        sim_touch(target, sim_access::read);
        graph.launch(s); // again, on another stream
        graph.launch(other);
        sim_event e;
        e.record(other);
        e.synchronize();
        sim_touch(source, sim_access::write);
        sim_touch(target, sim_access::write);
        graph.launch(s);
        sim_device{}.synchronize();
        sim_touch(source, sim_access::write);
        sim_touch(target, sim_access::write);
    }
    SUBCASE("a copy outside a graph has read its source when the call returns") {
        s.synchronize();
        sim_copy(other, p, up.data(), 512);
        sim_touch(source, sim_access::write);
        sim_copy(other, down.data(), p, 512);
        sim_touch(target, sim_access::write);
    }
    CHECK(node.reports().empty());
    sim_device{}.synchronize();
    memory.deallocate_sync(p, 1024);
}

TEST_CASE("sim_graph: a capture belongs to its thread even if the thread uses other nodes") {
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

namespace {

/// Captures `left` on a first stream and `right` on a second one, between a fork and a join.
template <class Left, class Right>
sim_graph two_branches(sim_stream const& s, sim_stream const& t, Left left, Right right) {
    sim_event fork, join{t.view().device()};
    sim_graph::begin(s);
    fork.record(s);
    fork.wait(t);
    left(s);
    right(t);
    join.record(t);
    join.wait(s);
    return sim_graph::end(s);
}

/// Two streams, and device memory.
struct graph_scene {
    explicit graph_scene(sim_options o = {}) : node{collecting(std::move(o))} {}
    ~graph_scene() {
        for (int i = 0; i < node.options().devices; ++i) { sim_device{i}.synchronize(); }
        memory.deallocate_sync(p, 4096);
    }
    static sim_options collecting(sim_options o) {
        o.on_report = sim_on_report::collect;
        return o;
    }
    void write(sim_stream const& on, std::size_t from, std::size_t bytes) const {
        sim_launch(on, {.name     = "writer",
                        .writes   = {{static_cast<std::byte*>(p) + from, bytes}},
                        .duration = 1us});
    }

    sim_node         node;
    sim_resource     memory;
    void*            p = memory.allocate_sync(4096);
    sim_stream const s, t;
};

} // namespace

TEST_CASE("sim_graph: nodes without an edge are unordered, and run at the same time") {
    graph_scene g{{.compute_slots = 2}};
    SUBCASE("on different memory") {
        auto const graph = two_branches(
            g.s, g.t, [&](auto& on) { g.write(on, 0, 2048); },
            [&](auto& on) { g.write(on, 2048, 2048); });
        auto const before = g.node.now();
        graph.launch(g.s);
        g.s.synchronize();
        CHECK(g.node.now() - before == 1us);
        CHECK(g.node.reports().empty());
        g.write(g.s, 0, 4096); // after both branches
        CHECK(g.node.reports().empty());
        g.write(g.t, 0, 4096); // not ordered after them
        CHECK(g.node.take_reports().size() == 1);
    }
    SUBCASE("on one byte, which is a race") {
        auto const graph = two_branches(
            g.s, g.t, [&](auto& on) { g.write(on, 0, 2049); },
            [&](auto& on) { g.write(on, 2048, 2048); });
        graph.launch(g.s);
        REQUIRE(g.node.reports().size() == 1);
        CHECK(g.node.reports().front().kind == sim_mistake::race);
        CHECK(g.node.take_reports().front().bytes == 1);
    }
}

TEST_CASE("sim_graph: a node that waits for two branches is ordered after both") {
    graph_scene g;
    sim_event   fork, join;
    sim_graph::begin(g.s);
    g.write(g.s, 0, 4096);
    fork.record(g.s);
    fork.wait(g.t);
    g.write(g.s, 0, 2048);
    g.write(g.t, 2048, 2048);
    join.record(g.t);
    join.wait(g.s);
    g.write(g.s, 0, 4096);
    sim_graph const graph = sim_graph::end(g.s);
    graph.launch(g.s);
    graph.launch(g.t); // after the first launch
    CHECK(g.node.reports().empty());
}

TEST_CASE("sim_graph: a launch is ordered after the previous launch of the same graph only") {
    graph_scene g;
    sim_graph::begin(g.s);
    g.write(g.s, 0, 4096);
    sim_graph const graph = sim_graph::end(g.s);
    auto const      begin = g.node.now();
    graph.launch(g.s);
    graph.launch(g.t);
    g.t.synchronize();
    CHECK(g.node.now() - begin == 2us);
    CHECK(g.node.reports().empty());
    g.s.synchronize();
    sim_graph::begin(g.s);
    g.write(g.s, 0, 4096);
    sim_graph const other = sim_graph::end(g.s);
    graph.launch(g.s);
    other.launch(g.t);
    CHECK(g.node.take_reports().size() == 1);
}

TEST_CASE("sim_graph: a launch is ordered after each branch of the previous launch") {
    sim_node     node{traced()};
    sim_resource mr;
    void* const  p = mr.allocate_sync(64);
    // The more streams are ordered before the launch, the larger is the stream's vector clock.
    for (std::size_t before = 0; before < 12; ++before) {
        std::vector<sim_stream> streams(before);
        sim_stream const        main, side, other;
        sim_event               event;
        auto const              follow = [&](sim_stream const& from, sim_stream const& to) {
            event.record(from);
            event.wait(to);
        };
        sim_graph::begin(main);
        sim_launch(main, {.name = "first"});
        follow(main, side);
        sim_launch(main, {.name = "second"});
        sim_launch(side, {.name = "early"});
        sim_launch(main, {.name = "third"});
        follow(main, side);
        follow(side, main);
        sim_launch(side, {.name = "late", .writes = {{p, 64}}});
        sim_launch(main, {.name = "fourth"}); // beside "late"
        sim_launch(main, {.name = "fifth"});
        follow(side, main);
        sim_graph const graph = sim_graph::end(main);
        for (sim_stream const& each : streams) {
            sim_launch(each, {.name = "before"});
            follow(each, main);
        }
        graph.launch(main);
        graph.launch(other);
        other.synchronize();
    }
    CHECK(node.reports().empty());
    mr.deallocate_sync(p, 64);
}

TEST_CASE("sim_graph: a captured host function releases the work before its node") {
    graph_scene         g;
    sim_pinned_resource pinned;
    void* const         h = pinned.allocate_sync(4096);
    sim_gate            gate;
    struct message {
        sim_gate* gate;
        bool      sent;
    } m{&gate, false};
    sim_graph::begin(g.s);
    sim_copy(g.s, h, g.p, 4096);
    sim_call_host(
        g.s,
        [](void* to) {
            auto& one = *static_cast<message*>(to);
            {
                auto const held = one.gate->hold();
                one.sent        = true;
            }
            one.gate->notify();
        },
        &m);
    sim_copy(g.s, h, g.p, 8); // after the host function; the waiting thread is not ordered after it
    sim_graph const graph = sim_graph::end(g.s);
    graph.launch(g.s);
    {
        auto held = gate.hold();
        gate.wait(held, [&] { return m.sent; });
    }
    sim_touch({static_cast<std::byte*>(h) + 8, 4088}, sim_access::read);
    CHECK(g.node.reports().empty());
    sim_touch({h, 8}, sim_access::read);
    CHECK(g.node.take_reports().size() == 1);
    sim_device{}.synchronize();
    pinned.deallocate_sync(h, 4096);
}

TEST_CASE("sim_graph: memory that a capture allocates is live in each launch, and not outside") {
    graph_scene        g;
    sim_async_resource async;
    sim_graph::begin(g.s);
    void* const q = async.allocate(g.s, 4096);
    sim_launch(g.s, {.name = "writer", .writes = {{q, 4096}}});
    async.deallocate(g.s, q, 4096);
    sim_graph const graph = sim_graph::end(g.s);
    graph.launch(g.s);
    graph.launch(g.t);
    CHECK(g.node.reports().empty());
    g.t.synchronize();
    sim_launch(g.t, {.name = "late", .reads = {{q, 4096}}});
    REQUIRE(g.node.reports().size() == 1);
    CHECK(g.node.take_reports().front().kind == sim_mistake::use_after_free);
    CHECK(async.usage().live == 0);
}

TEST_CASE("sim_graph: a launch that allocates memory again waits for a queued free of it") {
    graph_scene        g;
    sim_async_resource async;
    sim_graph::begin(g.s);
    void* const q = async.allocate(g.s, 4096);
    sim_launch(g.s, {.name = "writer", .writes = {{q, 4096}}, .duration = 3us});
    sim_graph const graph = sim_graph::end(g.s);
    graph.launch(g.s);
    g.s.synchronize();
    sim_call_host(g.t, sim_host_work{.name = "earlier", .duration = 20us}, [] {});
    async.deallocate(g.t, q, 4096);
    sim_call_host(g.t, sim_host_work{.name = "later", .duration = 50us}, [] {});
    sim_time const before = g.node.now();
    graph.launch(g.s);
    CHECK(async.usage().live == 4096);
    CHECK(async.usage().pending == 0);
    g.s.synchronize();
    CHECK(g.node.now() - before == 23us);
    g.t.synchronize();
    sim_launch(g.s, {.name = "again", .writes = {{q, 4096}}});
    async.deallocate(g.s, q, 4096);
    g.s.synchronize();
    CHECK(async.usage().live == 0);
    CHECK(g.node.reports().empty());
}

TEST_CASE("sim_graph: a launch waits for the free of its memory by another graph, or if other "
          "memory took the place") {
    for (bool const by_graph : {false, true}) {
        CAPTURE(by_graph);
        graph_scene        g;
        sim_async_resource async;
        sim_graph::begin(g.s);
        void* const q = async.allocate(g.s, 4096);
        sim_launch(g.s, {.name = "writer", .writes = {{q, 4096}}, .duration = 3us});
        sim_graph const graph = sim_graph::end(g.s);
        sim_graph::begin(g.t);
        async.deallocate(g.t, q, 4096);
        sim_graph const frees = sim_graph::end(g.t);
        graph.launch(g.s);
        g.s.synchronize();
        sim_call_host(g.t, sim_host_work{.name = "earlier", .duration = 20us}, [] {});
        void* other = nullptr;
        if (by_graph) {
            frees.launch(g.t);
        } else {
            async.deallocate(g.t, q, 4096);
            other = async.allocate(g.t, 4096);
        }
        sim_time const before = g.node.now();
        graph.launch(g.s);
        g.s.synchronize();
        CHECK(g.node.now() - before == 23us);
        async.deallocate(g.t, other, 4096);
        g.t.synchronize();
        async.deallocate(g.s, q, 4096);
        g.s.synchronize();
        CHECK(async.usage().live == 0);
        CHECK(g.node.reports().empty());
    }
}

TEST_CASE("sim_graph: the wait of a launch for a queued free orders nothing else") {
    graph_scene        g;
    sim_async_resource async;
    void* const        other = async.allocate(g.t, 4096);
    g.t.synchronize();
    sim_graph::begin(g.s);
    void* const q = async.allocate(g.s, 4096);
    sim_launch(g.s, {.name = "writer", .writes = {{q, 4096}, {other, 4096}}});
    sim_graph const graph = sim_graph::end(g.s);
    graph.launch(g.s);
    g.s.synchronize();
    sim_launch(g.t, {.name = "reader", .reads = {{q, 4096}, {other, 4096}}});
    async.deallocate(g.t, q, 4096);
    graph.launch(g.s);
    REQUIRE(g.node.reports().size() == 1);
    CHECK(g.node.take_reports().front().kind == sim_mistake::race);
    sim_device{}.synchronize();
    async.deallocate(g.s, q, 4096);
    async.deallocate(g.s, other, 4096);
}

TEST_CASE("sim_graph: a captured free that is not ordered after an earlier use is reported") {
    graph_scene        g;
    sim_async_resource async;
    sim_event          fork, join;
    sim_graph::begin(g.s);
    void* const q = async.allocate(g.s, 4096);
    fork.record(g.s);
    fork.wait(g.t);
    sim_launch(g.t, {.name = "writer", .writes = {{q, 4096}}});
    async.deallocate(g.s, q, 4096); // before the join
    join.record(g.t);
    join.wait(g.s);
    sim_graph const graph = sim_graph::end(g.s);
    graph.launch(g.s);
    REQUIRE(g.node.reports().size() == 1);
    CHECK(g.node.take_reports().front().kind == sim_mistake::free_before_last_use);
}

TEST_CASE("sim_graph: the addresses of captured memory are reused after the graph is destroyed") {
    sim_node           node{{.capacity = 1_MiB, .on_report = sim_on_report::collect}};
    sim_async_resource async;
    sim_stream const   s;
    for (int i = 0; i < 50; ++i) {
        sim_graph::begin(s);
        async.deallocate(s, async.allocate(s, 512_KiB), 512_KiB);
        sim_graph::end(s).launch(s);
    }
    s.synchronize();
    CHECK(node.reports().empty());
}

TEST_CASE("sim_graph: each node runs on the device that it was captured on") {
    graph_scene      g{{.devices = 2, .peer_access = false}};
    sim_resource     there{sim_device{1}};
    void* const      q = there.allocate_sync(4096);
    sim_stream const other{sim_device{1}};
    auto const       graph = two_branches(
        g.s, other, [&](auto& on) { g.write(on, 0, 4096); },
        [&](auto& on) { sim_launch(on, {.name = "there", .writes = {{q, 4096}}}); });
    graph.launch(g.s);
    CHECK(g.node.reports().empty());
    sim_graph::begin(g.s);
    sim_launch(g.s, {.name = "peer", .writes = {{q, 4096}}});
    sim_graph const wrong = sim_graph::end(g.s);
    g.s.synchronize();
    wrong.launch(other); // the stream's device does not matter
    REQUIRE(g.node.reports().size() == 1);
    CHECK(g.node.take_reports().front().kind == sim_mistake::peer_access);
    sim_device{1}.synchronize();
    sim_device{0}.synchronize();
    there.deallocate_sync(q, 4096);
}

TEST_CASE("sim_graph: a graph that is launched during a capture keeps its edges") {
    graph_scene g;
    auto const  inner = two_branches(
        g.s, g.t, [&](auto& on) { g.write(on, 0, 1024); },
        [&](auto& on) { g.write(on, 1024, 1024); });
    sim_graph::begin(g.s);
    g.write(g.s, 0, 4096);
    inner.launch(g.s);
    g.write(g.s, 0, 4096);
    sim_graph const outer = sim_graph::end(g.s);
    REQUIRE(outer.size() == 4);
    CHECK(outer.after(1) == std::vector<std::size_t>{0});
    CHECK(outer.after(2) == std::vector<std::size_t>{0});
    CHECK(outer.after(3) == std::vector<std::size_t>{1, 2});
    outer.launch(g.t);
    CHECK(g.node.reports().empty());
}

TEST_CASE("sim_graph: a capture may free its blocks in any order, each of them once") {
    sim_node           node{{.on_report = sim_on_report::collect}};
    sim_stream         s;
    sim_async_resource memory;
    sim_graph::begin(s);
    std::vector<void*> blocks;
    for (int i = 0; i < 1000; ++i) { blocks.push_back(memory.allocate(s, 512)); }
    CHECK(memory.usage().live >= 512'000);
    for (std::size_t i = 1; i < 1000; i += 2) { memory.deallocate(s, blocks[i], 512); }
    for (std::size_t i = 1000; i > 0; i -= 2) { memory.deallocate(s, blocks[i - 2], 512); }
    CHECK(memory.usage().live == 0);
    CHECK(node.take_reports().empty());
    {
        doubles::mishaps const told;
        memory.deallocate(s, blocks[7], 512); // again
    }
    CHECK(node.take_reports().size() == 1);
    CHECK(memory.usage().live == 0);
    sim_graph const graph = sim_graph::end(s);
    graph.launch(s);
    s.synchronize();
    CHECK(node.take_reports().empty());
}

TEST_CASE(
    "sim_graph: a graph that frees a block keeps its address after the graph that allocates it "
    "is destroyed") {
    sim_node                 node{{.on_report = sim_on_report::collect}};
    sim_async_resource       memory;
    sim_stream               s;
    std::optional<sim_graph> freeing, outer;
    void*                    p = nullptr;
    {
        sim_graph::begin(s);
        p                     = memory.allocate(s, 512);
        sim_graph const first = sim_graph::end(s);
        sim_graph::begin(s);
        memory.deallocate(s, p, 512);
        freeing = sim_graph::end(s);
        first.launch(s);
        freeing->launch(s);
        first.launch(s); // live again
        CHECK(node.reports().empty());
        memory.deallocate(s, p, 512);
        s.synchronize();
    }
    auto const fill = [&] { // as many frees as the simulation remembers, and more
        bool other = true;
        for (int i = 0; i < 5000; ++i) {
            void* const q = memory.allocate(s, 512);
            other         = other && q != p;
            memory.deallocate(s, q, 512);
            s.synchronize();
        }
        return other;
    };
    CHECK(fill());
    freeing->launch(s);
    REQUIRE(node.reports().size() == 1);
    CHECK(node.take_reports().front().kind == sim_mistake::double_free);
    // A graph that a capture has included allocates the block, too.
    {
        sim_graph::begin(s);
        p                     = memory.allocate(s, 512);
        sim_graph const first = sim_graph::end(s);
        sim_graph::begin(s);
        first.launch(s);
        outer = sim_graph::end(s);
        first.launch(s);
        memory.deallocate(s, p, 512);
    }
    CHECK(fill());
    outer->launch(s);
    memory.deallocate(s, p, 512);
    s.synchronize();
    CHECK(node.reports().empty());
}

TEST_CASE("sim_graph: memory that a launch makes live again counts in the peaks of the device") {
    sim_node           node{{.on_report = sim_on_report::collect}};
    sim_async_resource memory;
    sim_resource       plain;
    sim_stream         s;
    sim_graph::begin(s);
    void* const     p     = memory.allocate(s, 4096);
    sim_graph const graph = sim_graph::end(s);
    graph.launch(s);
    memory.deallocate(s, p, 4096);
    s.synchronize();
    CHECK(node.figures().used == 0);
    node.reset_figures();
    void* const q = plain.allocate_sync(512);
    CHECK(node.figures().peak_used == 512);
    graph.launch(s);
    CHECK(node.figures().used == 4608);
    CHECK(node.figures().peak_used == 4608);
    CHECK(memory.usage().peak_reserved == 4096);
    memory.deallocate(s, p, 4096);
    s.synchronize();
    CHECK(node.figures().peak_used == 4608);
    plain.deallocate_sync(q, 512);
    CHECK(node.reports().empty());
}
