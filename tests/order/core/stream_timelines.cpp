// SPDX-License-Identifier: Apache-2.0
#include <vram/order/core/stream_timelines.hpp> // first: the header stands alone

#include <vram/concepts/core/platform_lock.hpp>
#include <vram/sim/sim.hpp>

#include "../../doubles/bombing.hpp"
#include "../../doubles/ending_platform.hpp"
#include "../../doubles/mishaps.hpp"
#include "../../doubles/streams_at_work.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

using sim_clocks = stream_timelines<sim_platform>;
template class vram::detail::stream_timelines<sim_platform>;

namespace {

void work(sim_stream const& s, sim_time how_long = 1ms) {
    sim_launch(s, {.name = "work", .duration = how_long});
}

/// The tag of something that was just freed on a stream.
tags freed(sim_clocks& all, sim_stream const& s) {
    auto& c = all.of(s);
    return tags{{0, 256, c.epoch_of_free(), c.slot()}};
}

} // namespace

TEST_CASE("stream_timelines: own memory is ready, another stream's needs a wait, unless it was "
          "waited for or "
          "is complete") {
    sim_node   node;
    sim_clocks all;
    sim_stream a, b, c;
    work(a);
    tags const held = freed(all, a);
    CHECK(all.of(held, &all.of(a), false) == availability::ready);
    CHECK(all.of(held, &all.of(b), false) == availability::needs_wait);
    CHECK(all.of(held, nullptr, false) == availability::needs_wait);
    CHECK(all.order(all.of(b), held) == nullptr);
    CHECK(all.of(held, &all.of(b), false) == availability::ready);
    CHECK(all.of(held, &all.of(c), false) == availability::needs_wait);
    CHECK(all.order(all.of(b), held) == nullptr);
    CHECK(all.waits() == 1);
    a.synchronize();
    all.poll();
    CHECK(all.of(held, &all.of(c), false) == availability::ready);
    CHECK(all.events() == 1);
}

TEST_CASE("stream_timelines: the host waits with the lock released, and only as necessary") {
    sim_node                    node;
    sim_clocks                  all;
    platform_lock<sim_platform> lock;
    sim_stream                  a, b;
    work(a, 2ms);
    work(b, 50ms);
    tags const held = freed(all, a);
    tags const late = freed(all, b);
    auto       open = lock.hold();
    CHECK(all.finish(held, open) == nullptr);
    CHECK(open.owns_lock());
    CHECK(all.is_complete(*held.begin()));
    CHECK_FALSE(all.is_complete(*late.begin()));
    CHECK(node.now() < 50ms);
    all.finish_all(open);
    CHECK(all.is_complete(*late.begin()));
}

TEST_CASE("stream_timelines: the host waits for all streams with a pending use of a block") {
    sim_node                    node;
    sim_clocks                  all;
    platform_lock<sim_platform> lock;
    sim_stream                  a, b;
    work(a);
    work(b, 2ms);
    tags  held = freed(all, a);
    auto& c    = all.of(b);
    CHECK(held.merge(tags{{256, 512, c.epoch_of_free(), c.slot()}},
                     [](tag const&) { return false; }));
    auto open = lock.hold();
    CHECK(all.finish(held, open) == nullptr);
    for (tag const& t : held) { CHECK(all.is_complete(t)); }
    CHECK(b.done());
}

TEST_CASE(
    "stream_timelines: an event that the host waits for is pinned while the lock is released") {
    sim_node   node;
    sim_clocks all;
    sim_stream a;
    work(a);
    tags const held = freed(all, a);
    CHECK(all.of(a).ensure_event(held.begin()->epoch));
    auto& e = all.of(a).event_for(held.begin()->epoch);
    struct {
        unsigned const& pins;
        unsigned        meanwhile = 0;

        void unlock() noexcept { meanwhile = pins; }
        void lock() noexcept {}
    } open{e.pins};
    CHECK(all.finish(held, open) == nullptr);
    CHECK(open.meanwhile == 1);
    CHECK(e.pins == 0);
}

TEST_CASE(
    "stream_timelines: if the wait for a stream fails, the host waits for the stream's device") {
    sim_node               node{{.devices = 2}};
    doubles::mishaps const told;
    sim_clocks             all;
    sim_stream const       s{sim_device{1}};
    work(s);
    node.faults().at(sim_call_kind::synchronize, 1, {.status = sim_status::launch_failed});
    CHECK(all.wait_for_user(s)); // there is no timeline of `s`, and the current device is 0
    CHECK(s.done());
    CHECK(told.count() == 1);
}

TEST_CASE("stream_timelines: the end waits for the device of a captured graph") {
    sim_node                    node;
    sim_clocks                  all;
    platform_lock<sim_platform> lock;
    sim_stream                  a;
    (void)all.of(a).epoch_of_captured_free();
    work(a, 5ms); // the graph, which may run on any stream
    auto open = lock.hold();
    all.wait_for_all(open);
    CHECK(node.now() >= 5ms);
}

TEST_CASE("stream_timelines: the devices of all streams are waited for, once each, if a graph may "
          "use memory") {
    sim_node                    node{{.devices = 2, .on_report = sim_on_report::collect}};
    sim_clocks                  all;
    platform_lock<sim_platform> lock;
    sim_stream                  a, b, far{sim_device{1}}, unknown;
    auto&                       c = all.of(a);
    (void)all.of(b);
    (void)all.of(far);
    work(unknown, 3ms);
    work(far, 5ms);
    auto open = lock.hold();
    CHECK(all.finish_graphs(open) == 0);
    CHECK(node.now() == 0ms);
    (void)c.epoch_of_captured_free();
    CHECK(all.has_graph_memory());
    node.faults().at(sim_call_kind::synchronize, 2); // of the other device
    CHECK_THROWS_AS((void)all.finish_graphs(open), sim_error);
    CHECK(open.owns_lock());
    CHECK(all.has_graph_memory());
    CHECK(all.waits() == 1);
    CHECK(all.finish_graphs(open) == 2);
    CHECK(open.owns_lock());
    CHECK(node.now() == 5ms);
    CHECK_FALSE(all.has_graph_memory());
    CHECK(all.waits() == 3);
    CHECK(all.finish_graphs(open) == 0);
}

TEST_CASE("stream_timelines: a stream is neither queried nor waited for if the process is ending") {
    sim_node                                   node;
    sim_stream                                 s;
    stream_timelines<doubles::ending_platform> all;
    int const                                  before = doubles::ending_platform::queries;
    work(s, 5ms);
    CHECK(all.wait_for_user(s));
    CHECK(doubles::ending_platform::queries == before);
    CHECK(node.now() == 0ms);
}

TEST_CASE("stream_timelines: with a captured stream its events are waited for, and the device at "
          "the end") {
    sim_node                    node;
    doubles::mishaps const      told;
    sim_clocks                  all;
    platform_lock<sim_platform> lock;
    sim_stream                  a;
    work(a, 5ms);
    tags const before = freed(all, a);
    tag const  first  = *before.begin();
    CHECK(all.of(a).ensure_event(first.epoch));
    (void)freed(all, a);
    auto open = lock.hold();
    sim_graph::begin(a, sim_capture_mode::relaxed);
    CHECK_FALSE(all.finish_all(open));
    CHECK(node.now() >= 5ms);
    CHECK(all.is_complete(first));
    work(a, 0ms); // the graph's
    all.wait_for_all(open);
    open.unlock();
    CHECK(told.count() == 0);
    sim_graph const graph = sim_graph::end(a);
    open.lock();
    CHECK(all.finish_all(open));
}

TEST_CASE(
    "stream_timelines: memory that an event covers, or that is complete, belongs to no capture") {
    sim_node   node;
    sim_clocks all;
    sim_stream a, b;
    work(a);
    tags const early = freed(all, a);
    CHECK(all.in_capture(early) == nullptr);
    all.try_record_all();
    CHECK(all.of(b).slot() == 1);
    all.try_record_all(); // there are several now
    sim_graph::begin(a);
    CHECK(all.in_capture(early) == nullptr);
    tags const late = freed(all, a);
    CHECK(all.in_capture(late) == &all.of(a));
    (void)sim_graph::end(a);
    CHECK(all.in_capture(late) == nullptr);
}

TEST_CASE("stream_timelines: a captured stream may use memory of its own capture and memory "
          "without pending uses") {
    sim_node   node;
    sim_clocks all;
    sim_stream a, b;
    auto&      c      = all.of(a);
    tags const before = freed(all, a);
    tags const within{{0, 256, c.epoch_of_captured_free(), c.slot()}};
    CHECK(all.of(within, &c, true) == availability::ready);
    CHECK(all.of(within, &c, false) == availability::unavailable);
    CHECK(all.of(within, &all.of(b), true) == availability::unavailable);
    CHECK(all.of(within, nullptr, false) == availability::unavailable);
    CHECK(all.of(before, &c, true) == availability::unavailable);
    CHECK(all.of({}, &c, true) == availability::ready);
}

TEST_CASE("stream_timelines: an event that a capture took is recorded again before its stream is "
          "forgotten") {
    for (bool const waits : {true, false}) { // a pool, and `stream_ordered`
        sim_node         node{{.on_report = sim_on_report::collect}};
        doubles::mishaps told;
        sim_clocks       all;
        sim_stream       s;
        auto&            c = all.of(s);
        work(s);
        auto const epoch = c.epoch_of_free();
        c.try_record();
        node.faults().at(sim_call_kind::query, 1); // as for an event of a graph
        if (waits) {
            all.retire(s);
        } else {
            all.try_retire(s);
        }
        CHECK_FALSE(c.alive());
        CHECK(c.has_event(epoch));
        s.synchronize();
        CHECK_NOTHROW(all.poll());
        CHECK(c.done(epoch));
        CHECK(told.count() == 0);
    }
}

TEST_CASE("stream_timelines: without a wait, a stream is forgotten only once an event covers it") {
    sim_node         node{{.on_report = sim_on_report::collect}};
    doubles::mishaps told;
    sim_clocks       all;
    sim_stream       s;
    auto&            c     = all.of(s);
    auto const       epoch = c.epoch_of_free();
    work(s);
    sim_graph::begin(s);
    all.try_retire(s);
    CHECK(c.alive());
    CHECK(sim_graph::end(s).size() == 0);
    node.faults().at(sim_call_kind::record, 1);
    all.try_retire(s);
    CHECK(c.alive());
    CHECK(told.count(error_kind::platform_error) == 1);
    all.try_retire(s);
    CHECK_FALSE(c.alive());
    CHECK(c.has_event(epoch));
    CHECK_FALSE(c.done(epoch));
    CHECK(told.count() == 1);
}

TEST_CASE("stream_timelines: a dead stream is found without a wait, and reported once with the "
          "bytes that wait for it") {
    sim_node         node{{.on_report = sim_on_report::collect}};
    doubles::mishaps told;
    sim_clocks       all;
    auto             s = std::make_unique<sim_stream>(doubles::raw_stream());
    auto&            c = all.of(*s);
    work(*s, 5ms);
    (void)c.epoch_of_free();
    s.reset();
    CHECK(all.cover(c, 100) == recorded::lost);
    CHECK(all.cover(c, 100) == recorded::lost);
    CHECK_FALSE(c.alive());
    CHECK(c.has_frees());
    CHECK(node.now() < 5ms);
    CHECK(told.count(error_kind::dead_stream) == 1);
    CHECK(told.last().bytes == 100);
}

TEST_CASE("stream_timelines: slots of retired streams are reused") {
    sim_node   node;
    sim_clocks all;
    for (int i = 0; i < 200; ++i) {
        sim_stream s;
        (void)freed(all, s);
        all.retire(s);
        all.retire(s);
    }
    CHECK(all.size() <= 16);
    std::vector<std::unique_ptr<sim_stream>> many;
    for (int i = 0; i < 100; ++i) {
        many.push_back(std::make_unique<sim_stream>());
        work(*many.back());
        (void)freed(all, *many.back());
    }
    CHECK(all.size() >= 100); // these are all waited for
    for (auto const& s : many) { CHECK(all.of(s->view()).id() == s->id()); }
}

TEST_CASE("stream_timelines: slots of streams that have ended are reused, also if no event was "
          "recorded") {
    sim_node   node;
    sim_clocks all;
    for (int i = 0; i != 100; ++i) {
        sim_stream const s;
        (void)freed(all, s);
    }
    CHECK(all.size() == 16);
}

TEST_CASE("stream_timelines: without host memory for a new stream nothing has changed") {
    sim_node   node;
    sim_clocks all;
    sim_stream a;
    work(a, 1ms);
    for (std::uint64_t n = 1;; ++n) {
        bool             threw = false;
        doubles::bombing armed{n};
        try {
            (void)all.of(a);
        } catch (std::bad_alloc const&) { threw = true; }
        bool const hit = armed.defuse();
        CHECK(threw == hit);
        if (!hit) { break; }
        CHECK(all.size() == 0);
    }
    CHECK(all.size() == 1);
}

TEST_CASE("stream_timelines: a moved-from object has no streams") {
    sim_node   node;
    sim_stream s;
    sim_clocks a;
    (void)freed(a, s);
    sim_clocks b{std::move(a)};
    CHECK(a.size() == 0);
    CHECK(b.of(s).id() == s.id());
    CHECK(b.size() == 1);
    a = std::move(b);
    CHECK(a.size() == 1);
}

TEST_CASE("stream_timelines: covered memory is found complete by a query, without a wait") {
    sim_node   node;
    sim_clocks all;
    sim_stream a, b;
    work(a);
    auto const first = freed(all, a);
    CHECK(all.of(b).events() == 0);
    all.try_record_events(first);
    all.try_record_events(first); // again: it is
    CHECK(all.events() == 1);
    all.poll();
    CHECK(all.of(first, nullptr, false) == availability::needs_wait);
    a.synchronize();
    all.poll();
    CHECK(all.of(first, nullptr, false) == availability::ready);
    all.try_record_events(first);
    CHECK(all.events() == 1);
    CHECK(all.waits() == 0);
}

TEST_CASE("stream_timelines: a query learns of completed work, and makes no stream wait") {
    sim_node   node;
    sim_clocks all;
    sim_stream a, b;
    work(a);
    tags const held = freed(all, a);
    (void)all.of(b);
    all.ask(held); // an event, since there is none
    CHECK(all.events() == 1);
    CHECK_FALSE(all.is_complete(*held.begin()));
    a.synchronize();
    all.ask(held);
    CHECK(all.is_complete(*held.begin()));
    all.ask(held);
    CHECK(all.events() == 1);
    CHECK(all.waits() == 0);
    tags const graph{{0, 256, all.of(a).epoch_of_captured_free(), all.of(a).slot()}};
    all.ask(graph);
    CHECK(all.events() == 1);
}

TEST_CASE("stream_timelines: a stream without pending work is not waited for") {
    sim_node   node;
    sim_clocks all;
    sim_stream a, b;
    for (std::uint64_t events = 1; events != 3; ++events) {
        tags const held = freed(all, a);
        CHECK(all.order(all.of(b), held) == nullptr);
        CHECK(all.is_complete(*held.begin()));
        CHECK(all.events() == events);
        CHECK(all.waits() == 0);
    }
    work(a);
    CHECK(all.order(all.of(b), freed(all, a)) == nullptr);
    CHECK(all.events() == 3);
    CHECK(all.waits() == 1);
    a.synchronize();
    b.synchronize();
}

TEST_CASE("stream_timelines: with several streams all are covered, and a single one is not") {
    sim_node   node;
    sim_clocks all;
    sim_stream a, b;
    (void)freed(all, a);
    all.try_record_all();
    CHECK(all.events() == 0);
    (void)freed(all, b);
    all.try_record_all();
    CHECK(all.events() == 2);
}

TEST_CASE("stream_timelines: memory of an excluded stream is unavailable until the streams are "
          "readmitted") {
    sim_node   node;
    sim_clocks all;
    sim_stream a, b;
    work(a);
    auto const covered = freed(all, a);
    all.try_record_events(covered);
    auto const held = freed(all, a);
    all.exclude(all.of(a).slot());
    CHECK(all.of(held, &all.of(b), false) == availability::unavailable);
    CHECK(all.of(held, &all.of(a), false) == availability::ready); // its own
    CHECK(all.of(covered, &all.of(b), false) ==
          availability::needs_wait); // there is an event for that
    all.readmit();
    CHECK(all.of(held, &all.of(b), false) == availability::needs_wait);
}

TEST_CASE("stream_timelines: alternating streams keep their own timelines until they are retired") {
    sim_node                           node;
    sim_clocks                         all{true}; // by name, which a new stream may have again
    std::vector<sim_stream>            streams(12);
    std::vector<sim_clocks::timeline*> its;
    for (sim_stream& s : streams) {
        CHECK(all.known(s) == nullptr);
        its.push_back(&all.of(s));
        CHECK(all.known(s) == its.back());
    }
    std::size_t known = 0;
    for (int turn = 0; turn < 3; ++turn) {
        for (std::size_t i = 0; i < streams.size(); ++i) {
            auto* const told = all.known(streams[i]);
            CHECK_UNARY(told == nullptr || told == its[i]);
            known += told != nullptr;
            CHECK_UNARY(&all.of(streams[i]) == its[i]);
        }
    }
    CHECK(known != 0); // though not all have a seat
    for (sim_stream& s : streams) {
        (void)all.of(s);
        all.retire(s);
        CHECK_UNARY(all.known(s) == nullptr);
    }
    sim_clocks moved{std::move(all)};
    CHECK(moved.size() == 12);
    (void)moved.of(streams[0]);
    sim_clocks there{std::move(moved)};
    CHECK(there.known(streams[0]) == &there.of(streams[0]));
    CHECK(moved.known(streams[0]) == nullptr);
}
