// SPDX-License-Identifier: Apache-2.0
#include <vram/order/core/stream_timeline.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include "../../doubles/mishaps.hpp"
#include "../../doubles/streams_at_work.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

using clock_of_sim = stream_timeline<sim_platform>;
template class vram::detail::stream_timeline<sim_platform>;

namespace {

void hold(sim_stream const& s, sim_time how_long = 1ms) {
    sim_launch(s, {.name = "work", .duration = how_long});
}

/// Another thread comes in between the question whether a stream is captured and the event.
struct late_platform : sim_platform {
    static void record(event& e, stream s, at where = at::current()) {
        if (auto const once = std::exchange(meanwhile, nullptr)) { once(); }
        sim_platform::record(e, s, where);
    }
    static inline std::function<void()> meanwhile;
};

} // namespace

TEST_CASE("stream_timeline: frees of an epoch are complete when the event at its end is") {
    sim_node     node;
    sim_stream   s;
    clock_of_sim c{s, s.id(), 0};
    CHECK(c.nothing_pending());
    hold(s);
    auto const epoch = c.epoch_of_free();
    CHECK_FALSE(c.done(epoch));
    CHECK_FALSE(c.nothing_pending());
    CHECK(c.ensure_event(epoch));
    CHECK(c.ensure_event(epoch)); // by the same event
    CHECK(c.events() == 1);
    c.poll();
    CHECK_FALSE(c.done(epoch));
    s.synchronize();
    c.poll();
    CHECK(c.done(epoch));
    CHECK(c.nothing_pending());
    CHECK(c.epoch_of_free() == epoch + 1);
}

TEST_CASE(
    "stream_timeline: a stream waits for another once, for the earliest event that suffices") {
    sim_node     node;
    sim_stream   a, b;
    clock_of_sim first{a, a.id(), 0}, second{b, b.id(), 1};
    hold(a);
    auto const one = first.epoch_of_free();
    CHECK(first.record());
    hold(a, 100ms);
    auto const two = first.epoch_of_free();
    CHECK(first.record());
    second.wait_for(first, one);
    CHECK(second.waited(0) == one);
    CHECK(second.waited(1) == 0);
    CHECK(second.waits() == 1);
    b.synchronize();
    CHECK(node.now() < 50ms);
    second.wait_for(first, two);
    CHECK(second.waited(0) == two);
}

TEST_CASE(
    "stream_timeline: few events are kept, and the next event covers the frees of the oldest") {
    sim_node      node;
    sim_stream    s;
    clock_of_sim  c{s, s.id(), 0};
    std::uint64_t first = 0;
    hold(s);
    for (std::size_t i = 0; i < 3 * clock_of_sim::most; ++i) {
        auto const epoch = c.epoch_of_free();
        first            = first == 0 ? epoch : first;
        CHECK(c.record());
        CHECK(c.event_for(epoch).epoch == epoch);
    }
    CHECK(c.event_for(first).epoch > first);
    s.synchronize();
    c.poll();
    CHECK(c.nothing_pending());
}

TEST_CASE("stream_timeline: an event that a thread waits for is not reused during the wait") {
    sim_node     node;
    sim_stream   s;
    clock_of_sim c{s, s.id(), 0};
    hold(s);
    auto const first = c.epoch_of_free();
    CHECK(c.record());
    auto& pinned = c.event_for(first);
    ++pinned.pins;
    auto const before = pinned.epoch;
    for (std::size_t i = 0; i < 3 * clock_of_sim::most; ++i) {
        (void)c.epoch_of_free();
        CHECK(c.record());
    }
    CHECK(pinned.epoch == before);
    --pinned.pins;
}

TEST_CASE("stream_timeline: a completed event is not reused while a thread uses it") {
    sim_node     node;
    sim_stream   s;
    clock_of_sim c{s, s.id(), 0};
    hold(s);
    (void)c.epoch_of_free();
    CHECK(c.record());
    auto& pinned = c.event_for(1);
    ++pinned.pins;
    s.synchronize();
    c.poll();
    CHECK(c.done(1));
    hold(s);
    auto const next = c.epoch_of_free();
    CHECK(c.record());
    CHECK(&c.event_for(next) != &pinned);
    --pinned.pins;
}

TEST_CASE("stream_timeline: a dead stream is reported, and its device is waited for") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    auto                   s = std::make_unique<sim_stream>(doubles::raw_stream());
    clock_of_sim           c{*s, s->id(), 0};
    hold(*s, 5ms);
    auto const epoch = c.epoch_of_free();
    s.reset();
    sim_stream const heir; // of the handle
    CHECK(c.ensure_event(epoch));
    CHECK(c.done(epoch));
    CHECK(node.now() >= 5ms);
    CHECK(told.count(error_kind::dead_stream) == 1);
}

TEST_CASE("stream_timeline: a dead stream is reported once, also if the wait fails") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    auto                   s = std::make_unique<sim_stream>(doubles::raw_stream());
    clock_of_sim           c{*s, s->id(), 0};
    auto const             epoch = c.epoch_of_free();
    s.reset();
    for (int i = 0; i != 3; ++i) {
        node.faults().at(sim_call_kind::synchronize, 1);
        CHECK_THROWS_AS((void)c.ensure_event(epoch), sim_error);
        CHECK_FALSE(c.done(epoch));
        CHECK(c.alive());
    }
    CHECK(c.ensure_event(epoch));
    CHECK(c.done(epoch));
    CHECK_FALSE(c.alive());
    CHECK(told.count(error_kind::dead_stream) == 1);
}

TEST_CASE(
    "stream_timeline: the next stream of a timeline may be another device's, with its own events") {
    sim_node               node{{.devices = 2, .on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    auto                   s = std::make_unique<sim_stream>(doubles::raw_stream(sim_device{0}));
    clock_of_sim           c{*s, s->id(), 0};
    CHECK(c.ensure_event(c.epoch_of_free())); // by an event of the first device
    c.poll();
    auto epoch = c.epoch_of_free();
    s.reset();
    sim_stream const heir{sim_device{1}};
    CHECK(c.ensure_event(epoch));
    CHECK_FALSE(c.alive());
    CHECK(told.count(error_kind::dead_stream) == 1);
    c.adopt(heir, heir.id());
    CHECK(c.alive());
    CHECK(c.device() == sim_device{1});
    epoch = c.epoch_of_free();
    CHECK(c.ensure_event(epoch));
    c.poll();
    CHECK(c.done(epoch));
    CHECK(c.events() == 2);
    CHECK(told.count() == 1);
}

TEST_CASE("stream_timeline: an event that cannot be recorded is reported, and tried once more") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    sim_stream             s;
    clock_of_sim           c{s, s.id(), 0};
    hold(s, 5ms);
    auto const epoch = c.epoch_of_free();
    node.faults().at(sim_call_kind::create_event, 1);
    CHECK(c.record());
    CHECK(c.has_event(epoch));
    CHECK_FALSE(c.done(epoch));
    CHECK(told.count(error_kind::platform_error) == 1);
    node.faults().at(sim_call_kind::record, 1, {}, 2);
    CHECK_THROWS_AS((void)c.ensure_event(c.epoch_of_free()), sim_error);
    CHECK(c.ensure_event(c.epoch_of_free()));
}

TEST_CASE("stream_timeline: no event can cover a stream that is being captured") {
    sim_node     node{{.on_report = sim_on_report::collect}};
    sim_stream   s;
    clock_of_sim c{s, s.id(), 0};
    auto const   epoch = c.epoch_of_free();
    sim_graph::begin(s);
    CHECK_FALSE(c.ensure_event(epoch));
    CHECK(c.has_graph_memory());
    CHECK_FALSE(c.nothing_pending());
    CHECK(sim_graph::end(s).size() == 0);
    c.forget_captures();
    CHECK(c.epoch_of_captured_free() == tag::captured);
    CHECK(c.has_graph_memory());
}

TEST_CASE(
    "stream_timeline: if a stream is found captured, its graph may use memory that it freed") {
    sim_node               node;
    doubles::mishaps const told;
    auto                   s = std::make_unique<sim_stream>(doubles::raw_stream());
    clock_of_sim           c{*s, s->id(), 0};
    (void)c.epoch_of_free();
    CHECK_FALSE(c.captured());
    CHECK_FALSE(c.has_graph_memory());
    sim_graph::begin(*s);
    CHECK(c.captured());
    CHECK(c.has_graph_memory());
    CHECK(sim_graph::end(*s).size() == 0);
    CHECK_FALSE(c.captured());
    CHECK(c.has_graph_memory()); // until captures are forgotten
    s.reset();
    sim_stream const heir; // which has its handle
    sim_graph::begin(heir);
    CHECK_FALSE(c.captured());
    CHECK(sim_graph::end(heir).size() == 0);
    CHECK(told.count() == 0);
}

TEST_CASE(
    "stream_timeline: covering a stream quickly costs one event, and nothing without events") {
    sim_node     node;
    sim_stream   s;
    clock_of_sim c{s, s.id(), 0};
    c.try_record_event(); // nothing was freed
    CHECK(c.events() == 0);
    auto const epoch = c.epoch_of_free();
    CHECK_FALSE(c.has_event(epoch));
    sim_graph::begin(s);
    c.try_record_event();
    CHECK_FALSE(c.has_event(epoch));
    CHECK_FALSE(c.has_graph_memory()); // nothing is the graph's by being asked about
    CHECK(sim_graph::end(s).size() == 0);
    c.try_record_event();
    CHECK(c.has_event(epoch));
    CHECK(c.events() == 1);
    c.try_record_event();
    CHECK(c.events() == 1);
}

TEST_CASE("stream_timeline: if an event is complete, the stream is not queried") {
    sim_node     node;
    sim_stream   s;
    clock_of_sim c{s, s.id(), 0};
    auto         epoch = c.epoch_of_free();
    CHECK(c.ensure_event(epoch));
    CHECK(c.done(epoch));
    CHECK(c.nothing_pending());
    CHECK(c.events() == 1);
    hold(s, 9ms);
    epoch = c.epoch_of_free();
    c.try_record_event();
    CHECK(c.has_event(epoch));
    CHECK_FALSE(c.done(epoch));
    CHECK(node.figures().queries == 2);
    s.synchronize();
    c.poll();
    CHECK(c.done(epoch));
    CHECK(c.events() == 2);
}

TEST_CASE("stream_timeline: an event that cannot be queried is recorded again") {
    for (bool const captured : {false, true}) {
        CAPTURE(captured);
        sim_node     node{{.on_report = sim_on_report::collect}};
        sim_stream   s;
        clock_of_sim c{s, s.id(), 0};
        hold(s, 5ms);
        auto const epoch = c.epoch_of_free();
        c.try_record();
        CHECK(c.has_event(epoch));
        if (captured) { sim_graph::begin(s, sim_capture_mode::relaxed); }
        node.faults().at(sim_call_kind::query, 1);
        CHECK_NOTHROW(c.poll());
        CHECK(c.has_event(epoch) != captured); // it cannot be, and covers nothing
        CHECK_FALSE(c.done(epoch));
        if (captured) { CHECK(sim_graph::end(s).size() == 0); }
        CHECK(c.ensure_event(epoch));
        s.synchronize();
        c.poll();
        CHECK(c.nothing_pending());
        CHECK(node.reports().empty());
    }
}

TEST_CASE("stream_timeline: a query does not wait for a dead stream") {
    sim_node     node{{.on_report = sim_on_report::collect}};
    auto         gone = std::make_unique<sim_stream>(doubles::raw_stream());
    clock_of_sim c{*gone, gone->id(), 0};
    hold(*gone, 9ms);
    auto const epoch = c.epoch_of_free();
    gone.reset();
    sim_stream const heir; // of the handle
    c.try_record_event();
    CHECK_FALSE(c.has_event(epoch));
    CHECK(node.now() < 9ms);
}

TEST_CASE("stream_timeline: another stream in the same slot continues its epochs") {
    sim_node     node;
    sim_stream   a, b;
    clock_of_sim c{a, a.id(), 3};
    auto const   epoch = c.epoch_of_free();
    CHECK(c.ensure_event(epoch));
    c.poll();
    c.end();
    CHECK_FALSE(c.alive());
    c.adopt(b, 2 * b.id() + 1);
    CHECK(c.alive());
    CHECK(c.id() == b.id());
    CHECK(c.done(epoch));
    CHECK(c.epoch_of_free() > epoch);
}

TEST_CASE("stream_timeline: an event that a capture took is discarded, and proves nothing") {
    for (bool const quickly : {false, true}) {
        sim_node                       node{{.on_report = sim_on_report::collect}};
        doubles::mishaps const         told;
        sim_stream                     s;
        stream_timeline<late_platform> c{s, s.id(), 0};
        hold(s, 5ms);
        auto const epoch         = c.epoch_of_free();
        late_platform::meanwhile = [&] { sim_graph::begin(s, sim_capture_mode::relaxed); };
        if (quickly) {
            c.try_record_event();
        } else {
            CHECK_FALSE(c.ensure_event(epoch));
        }
        CHECK(late_platform::meanwhile == nullptr);
        CHECK_FALSE(c.has_event(epoch));
        CHECK(c.epoch_of_free() == epoch);
        CHECK(c.events() == 0);
        CHECK_NOTHROW(c.poll());
        CHECK_NOTHROW((void)sim_graph::end(s));
        c.forget_captures();
        CHECK(c.ensure_event(epoch));
        CHECK(c.events() == 1);
        s.synchronize();
        c.poll();
        CHECK(c.done(epoch));
        CHECK(c.nothing_pending());
        CHECK(told.count() == 0);
        CHECK(node.reports().empty());
    }
}

TEST_CASE("stream_timeline: try_record does not wait if all events are awaited") {
    sim_node     node;
    sim_stream   s;
    clock_of_sim c{s, s.id(), 0};
    hold(s, 5ms);
    for (std::size_t i = 0; i < clock_of_sim::most; ++i) {
        auto const epoch = c.epoch_of_free();
        c.try_record();
        ++c.event_for(epoch).pins;
    }
    auto const epoch = c.epoch_of_free();
    c.try_record();
    CHECK(node.now() < 5ms);
    CHECK_FALSE(c.has_event(epoch));
    CHECK(c.epoch_of_free() == epoch);
    --c.event_for(1).pins;
    c.try_record(); // later frees use it
    CHECK(c.has_event(epoch));
    CHECK(node.now() < 5ms);
    CHECK(c.waits() == 0);
}

TEST_CASE("stream_timeline: a host wait for lack of an event is counted") {
    sim_node               node;
    doubles::mishaps const told;
    auto                   s = std::make_unique<sim_stream>(doubles::raw_stream());
    clock_of_sim           c{*s, s->id(), 0};
    hold(*s, 5ms);
    for (std::size_t i = 0; i < clock_of_sim::most; ++i) {
        auto const each = c.epoch_of_free();
        CHECK(c.record());
        ++c.event_for(each).pins;
    }
    CHECK(c.ensure_event(c.epoch_of_free())); // each event is being waited for
    CHECK(node.now() >= 5ms);
    CHECK(c.waits() == 1);
    CHECK(c.nothing_pending());
    auto const epoch = c.epoch_of_free();
    s.reset();
    CHECK(c.ensure_event(epoch)); // by a wait for the device
    CHECK(c.waits() == 2);
    CHECK(c.events() == clock_of_sim::most);
}
