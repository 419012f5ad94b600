// SPDX-License-Identifier: Apache-2.0
#include <vram/order/core/waiting_frees.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include "../../doubles/mishaps.hpp"
#include "../../doubles/streams_at_work.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

using namespace vram;
using namespace vram::detail;
using doubles::keep_busy;
using namespace std::chrono_literals;

template class vram::detail::waiting_frees<sim_platform>;
template class vram::detail::waiting_frees<host_platform>;

namespace {

freed_blocks::link* link_at(std::uintptr_t address, std::size_t bytes) {
    return new freed_blocks::link{reinterpret_cast<void*>(address), bytes, 256};
}
freed_blocks collected(auto& waiting) {
    freed_blocks free;
    waiting.collect(free);
    return free;
}
/// Runs a function of the test right before an event is recorded, and right after it.
struct overtaken_platform : sim_platform {
    static void record(event& e, stream s, at where = at::current()) {
        if (auto const once = std::exchange(before, nullptr)) { once(); }
        sim_platform::record(e, s, where);
        if (auto const once = std::exchange(after, nullptr)) { once(); }
    }

    static inline std::function<void()> before, after;
};

/// All that it says of streams is that they are aliases.
struct naming_platform : sim_platform {
    [[nodiscard]] static bool is_default_stream(stream) { return true; }
};

} // namespace

TEST_CASE("waiting_frees: each stream's frees complete independently of other streams") {
    sim_node                    node{{.compute_slots = 2}};
    waiting_frees<sim_platform> waiting;
    sim_stream                  quick, slow;
    keep_busy(quick, 1ms);
    keep_busy(slow, 5ms);
    waiting.add(slow, link_at(256, 10), 1);
    waiting.add(quick, link_at(512, 20), 1);
    keep_busy(quick, 10ms);
    waiting.add(quick, link_at(768, 30), 1);
    CHECK(waiting.bytes() == 60);
    CHECK(waiting.events() == 3);
    CHECK(collected(waiting).empty());
    node.work(2ms);
    CHECK(collected(waiting).bytes() == 20);
    node.work(20ms);
    CHECK(collected(waiting).bytes() == 40);
    CHECK(waiting.empty());
}

TEST_CASE("waiting_frees: a batch has at most the number of blocks that may share an event") {
    sim_node                    node;
    waiting_frees<sim_platform> waiting;
    sim_stream                  s;
    for (std::uintptr_t i = 1; i <= 5; ++i) { waiting.add(s, link_at(i * 256, 1), 2); }
    CHECK(waiting.events() == 2);
    waiting.retire(s);
    CHECK(waiting.events() == 3);
    waiting.retire(s);
    CHECK(waiting.events() == 3);
    CHECK(collected(waiting).count() == 5);
}

TEST_CASE("waiting_frees: a thread can wait for the oldest free while others collect it") {
    sim_node                    node{{.compute_slots = 2}};
    waiting_frees<sim_platform> waiting;
    sim_stream                  first, second;
    keep_busy(first, 3ms);
    keep_busy(second, 1ms);
    waiting.add(first, link_at(256, 10), 1);
    waiting.add(second, link_at(512, 20), 1);
    auto const oldest = waiting.pin_oldest();
    auto const again  = waiting.pin_oldest(); // two hosts wait for one batch
    CHECK(oldest.event == again.event);
    oldest.wait();
    CHECK(node.now() == 3ms);
    waiting.unpin(oldest, true);
    CHECK(collected(waiting).bytes() == 30); // gone from the queue, but still pinned
    waiting.add(first, link_at(768, 40), 1);
    again.wait();
    waiting.unpin(again, true);
    CHECK(collected(waiting).bytes() == 40);
    CHECK_FALSE(waiting.pin_oldest());
}

TEST_CASE("waiting_frees: an event is not reused while a thread waits for it") {
    sim_node                    node;
    waiting_frees<sim_platform> waiting;
    sim_stream                  s;
    keep_busy(s);
    waiting.add(s, link_at(256, 10), 1);
    auto const awaited = waiting.pin_oldest();
    s.synchronize();
    CHECK(collected(waiting).bytes() == 10); // by another thread
    keep_busy(s);
    waiting.add(s, link_at(512, 20), 1);
    auto const next = waiting.pin_oldest();
    CHECK(next.event != awaited.event);
    waiting.unpin(awaited, true);
    CHECK(collected(waiting).empty());
    waiting.unpin(next, false);
}

TEST_CASE("waiting_frees: the oldest free is the oldest of all streams") {
    sim_node                    node{{.compute_slots = 2}};
    waiting_frees<sim_platform> waiting;
    sim_stream                  first, second, third;
    keep_busy(second, 1ms);
    keep_busy(third, 9ms);
    waiting.add(first, link_at(256, 10), 1);
    waiting.add(second, link_at(512, 20), 1);
    waiting.add(third, link_at(768, 30), 1);
    CHECK(collected(waiting).bytes() == 10); // the last takes its place
    auto const oldest = waiting.pin_oldest();
    oldest.wait();
    CHECK(node.now() < 9ms);
    waiting.unpin(oldest, true);
    CHECK(collected(waiting).bytes() == 20);
}

TEST_CASE("waiting_frees: a failed wait changes nothing") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    waiting_frees<sim_platform> waiting;
    sim_stream                  s;
    keep_busy(s, 3ms);
    waiting.add(s, link_at(256, 10), 1);
    node.faults().at(sim_call_kind::synchronize, 1);
    auto const oldest = waiting.pin_oldest();
    CHECK_THROWS_AS(oldest.wait(), sim_error);
    waiting.unpin(oldest, false);
    CHECK(waiting.bytes() == 10);
    CHECK(waiting.wait_for_all().bytes() == 10);
    CHECK(node.now() >= 3ms);
}

TEST_CASE("waiting_frees: a block without a recorded event still belongs to the caller") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    waiting_frees<sim_platform> waiting;
    sim_stream                  s;
    for (auto const call : {sim_call_kind::create_event, sim_call_kind::record}) {
        node.faults().at(call, 1);
        auto* const one = link_at(256, 10);
        CHECK_THROWS_AS(waiting.add(s, one, 1), sim_error);
        CHECK(waiting.empty());
        CHECK(collected(waiting).empty());
        waiting.add(s, one, 1); // and can be tried again
        CHECK(collected(waiting).bytes() == 10);
    }
}

TEST_CASE("waiting_frees: streams of two devices use events of their own devices") {
    sim_node                    node{{.devices = 2, .on_report = sim_on_report::collect}};
    waiting_frees<sim_platform> waiting;
    sim_stream                  here{sim_device{0}}, there{sim_device{1}};
    for (int round = 0; round < 3; ++round) {
        waiting.add(here, link_at(256, 10), 1);
        waiting.add(there, link_at(512, 20), 1);
        CHECK(collected(waiting).bytes() == 30);
    }
    CHECK(node.reports().empty());
}

TEST_CASE("waiting_frees: draining waits for everything, and reports failures") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    doubles::mishaps            told;
    waiting_frees<sim_platform> first;
    sim_stream                  s;
    keep_busy(s, 2ms);
    first.add(s, link_at(256, 10), 2); // still open
    waiting_frees<sim_platform> waiting = std::move(first);
    CHECK(first.empty());
    CHECK(waiting.wait_for_all().bytes() == 10);
    CHECK(node.now() >= 2ms);
    CHECK(told.count() == 0);
    waiting.add(s, link_at(256, 10), 1);
    node.faults().at(sim_call_kind::synchronize, 1);
    CHECK(waiting.wait_for_all().bytes() == 10);
    CHECK(told.count(error_kind::platform_error) == 1);
}

TEST_CASE("waiting_frees: draining makes no wait if a query finds the block unused") {
    sim_node                    node;
    waiting_frees<sim_platform> waiting;
    sim_stream                  s;
    waiting.add(s, link_at(256, 10), 2); // without an event
    auto const before = host_waits_made;
    CHECK(waiting.wait_for_all().bytes() == 10);
    CHECK(host_waits_made == before);
    keep_busy(s);
    waiting.add(s, link_at(256, 10), 2);
    CHECK(waiting.wait_for_all().bytes() == 10);
    CHECK(host_waits_made == before + 1);
}

TEST_CASE("waiting_frees: a block that no wait covers is reported as a leak, and kept") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    doubles::mishaps            told;
    waiting_frees<sim_platform> waiting;
    sim_stream                  first, second;
    waiting.add(first, link_at(256, 10), 1);
    waiting.add(second, link_at(512, 20), 1);
    node.faults().at(sim_call_kind::synchronize, 1, {}, 2); // the event, and its device
    CHECK(waiting.wait_for_all().bytes() == 20);
    CHECK(waiting.empty());
    CHECK(told.count(error_kind::platform_error) == 2);
    CHECK(told.count(error_kind::leak) == 1);
    CHECK(told.pointer() == reinterpret_cast<void*>(std::uintptr_t{256}));
}

TEST_CASE("waiting_frees: if a query throws, blocks that were collected before it are not lost") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    waiting_frees<sim_platform> waiting;
    sim_stream                  first, second;
    waiting.add(first, link_at(256, 10), 1);
    waiting.add(second, link_at(512, 20), 1);
    freed_blocks free;
    node.faults().at(sim_call_kind::query, 2, {.status = sim_status::launch_failed}, 5);
    CHECK_THROWS_AS(waiting.collect(free), sim_error);
    CHECK(free.bytes() + waiting.bytes() == 30);
    node.faults().clear();
    waiting.collect(free);
    CHECK(free.bytes() == 30);
}

TEST_CASE("waiting_frees: a stream that cannot be queried does not block others") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    waiting_frees<sim_platform> waiting;
    sim_stream                  first, second, third;
    waiting.add(first, link_at(256, 10), 1);
    waiting.add(second, link_at(512, 20), 1);
    waiting.add(third, link_at(768, 30), 1);
    freed_blocks free;
    node.faults().at(sim_call_kind::query, 1, {}, 2 * 5); // each is recorded, and asked, again
    CHECK_THROWS_AS(waiting.collect(free), sim_error);
    CHECK(free.bytes() == 30);
    node.faults().clear();
    CHECK(collected(waiting).bytes() == 30);
}

TEST_CASE("waiting_frees: a batch stays open while its stream is captured") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    doubles::mishaps            told;
    waiting_frees<sim_platform> waiting;
    sim_stream                  s, other;
    waiting.add(s, link_at(256, 10), 4);
    sim_graph::begin(s, sim_capture_mode::relaxed);
    waiting.retire(s);
    CHECK(collected(waiting).empty());
    CHECK_FALSE(waiting.pin_oldest()); // a wait would end the capture
    CHECK_FALSE(waiting.pin_uncovered(waiting.next_age()));
    CHECK(waiting.events() == 0);
    waiting.add(other, link_at(512, 20), 1);
    auto const oldest = waiting.pin_oldest(); // of those that can be waited for
    oldest.wait();
    waiting.unpin(oldest, true);
    CHECK(collected(waiting).bytes() == 20);
    CHECK(sim_graph::end(s).size() == 0);
    keep_busy(s);
    CHECK(collected(waiting).empty());
    CHECK(waiting.events() == 2);
    s.synchronize();
    CHECK(collected(waiting).bytes() == 10);
    CHECK(told.count() == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("waiting_frees: at the end a batch that a capture keeps open waits for the device, and "
          "the capture continues") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    doubles::mishaps            told;
    waiting_frees<sim_platform> waiting;
    sim_stream                  s;
    keep_busy(s);
    waiting.add(s, link_at(256, 10), 1); // its event is of before the capture
    waiting.add(s, link_at(512, 20), 2);
    sim_graph::begin(s, sim_capture_mode::relaxed);
    CHECK(waiting.wait_for_all().bytes() == 30);
    CHECK(node.now() >= 1ms);
    CHECK(waiting.empty());
    CHECK(told.count() == 0);
    CHECK_NOTHROW((void)sim_graph::end(s));
}

TEST_CASE("waiting_frees: an event that another thread's capture took is recorded again") {
    enum class when { at_the_free, at_the_question };
    for (bool const brief : {false, true}) { // the capture has ended before the event is queried
        for (when const it_begins : {when::at_the_free, when::at_the_question}) {
            CAPTURE(brief);
            sim_node                          node{{.on_report = sim_on_report::collect}};
            waiting_frees<overtaken_platform> waiting;
            sim_stream                        s, other;
            auto const                        begin = [&] {
                overtaken_platform::before = [&] {
                    sim_graph::begin(s, sim_capture_mode::relaxed);
                    if (brief) {
                        overtaken_platform::after = [&] { (void)sim_graph::end(s); };
                    }
                };
            };
            keep_busy(s);
            if (it_begins == when::at_the_free) { begin(); }
            waiting.add(s, link_at(256, 10), it_begins == when::at_the_free ? 1 : 2);
            if (it_begins == when::at_the_question) { begin(); }
            freed_blocks free;
            CHECK_NOTHROW(waiting.retire(s));
            CHECK(waiting.events() == (brief ? 1 : 0));
            waiting.collect(free); // if no check was possible, the event is found to be the graph's
            if (!brief) { (void)sim_graph::end(s); }
            waiting.collect(free);
            CHECK(waiting.events() == 1);
            CHECK(free.empty());
            s.synchronize();
            waiting.collect(free);
            CHECK(free.bytes() == 10);
            CHECK(node.reports().empty());
        }
    }
}

TEST_CASE("waiting_frees: an event that cannot be recorded is tried again, and delays nothing") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    doubles::mishaps            told;
    waiting_frees<sim_platform> waiting;
    sim_stream                  s;
    keep_busy(s);
    waiting.add(s, link_at(256, 10), 4);
    node.faults().at(sim_call_kind::record, 1);
    CHECK(collected(waiting).empty());
    CHECK(told.count(error_kind::platform_error) == 1); // the stream lives
    CHECK(told.count() == 1);
    s.synchronize();
    CHECK(collected(waiting).bytes() == 10);
    CHECK(waiting.events() == 1);
    CHECK(told.count() == 1);
}

TEST_CASE("waiting_frees: without events the host waits for the device, and later frees are not "
          "part of that wait") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    doubles::mishaps            told;
    waiting_frees<sim_platform> waiting;
    sim_stream                  s;
    keep_busy(s);
    waiting.add(s, link_at(256, 10), 4);
    node.faults().at(sim_call_kind::record, 1);
    auto const oldest = waiting.pin_oldest();
    REQUIRE(oldest);
    CHECK(told.count(error_kind::platform_error) == 1);
    oldest.wait();
    CHECK(node.now() >= 1ms);
    keep_busy(s); // another thread comes, before the first one has the lock again
    waiting.add(s, link_at(512, 20), 4);
    waiting.unpin(oldest, true);
    CHECK(collected(waiting).bytes() == 10);
    CHECK(waiting.bytes() == 20);
    s.synchronize();
    CHECK(collected(waiting).bytes() == 20);
    CHECK(node.reports().empty());
}

TEST_CASE("waiting_frees: after a failed wait the next event covers the blocks") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    doubles::mishaps            told;
    waiting_frees<sim_platform> waiting;
    sim_stream                  s;
    keep_busy(s);
    waiting.add(s, link_at(256, 10), 4);
    node.faults().at(sim_call_kind::record, 1, {}, 2);
    auto const oldest = waiting.pin_oldest();
    waiting.add(s, link_at(512, 20), 4);
    node.faults().at(sim_call_kind::synchronize, 1);
    CHECK_THROWS_AS(oldest.wait(), sim_error);
    waiting.unpin(oldest, false);
    node.faults().clear();
    CHECK(collected(waiting).empty());
    CHECK(waiting.events() == 1); // the younger one's
    s.synchronize();
    CHECK(collected(waiting).bytes() == 30);
}

TEST_CASE("waiting_frees: a dead stream is reported once, and its device is waited for") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    doubles::mishaps            told;
    waiting_frees<sim_platform> waiting;
    std::optional<sim_stream>   s{doubles::raw_stream()};
    keep_busy(*s);
    waiting.add(*s, link_at(256, 10), 4);
    auto const before = waiting.next_age();
    s.reset(); // without a word
    sim_stream other;
    waiting.add(other, link_at(512, 20), 1);
    CHECK(collected(waiting).bytes() == 20);
    CHECK(collected(waiting).empty());
    CHECK(told.count(error_kind::dead_stream) == 1);
    CHECK(told.count() == 1);
    CHECK_FALSE(waiting.pin_uncovered(before - 1)); // that is younger
    auto const lost = waiting.pin_uncovered(before);
    REQUIRE(lost);
    lost.wait();
    CHECK(node.now() >= 1ms);
    waiting.unpin(lost, true);
    CHECK(collected(waiting).bytes() == 10);
    CHECK_FALSE(waiting.pin_uncovered(waiting.next_age()));
}

TEST_CASE("waiting_frees: a default stream's batch waits for its own thread's stream, or for the "
          "device") {
    sim_node node{
        {.default_stream = sim_default_stream::per_thread, .on_report = sim_on_report::collect}};
    doubles::mishaps            told;
    waiting_frees<sim_platform> waiting;
    for (bool const own : {true, false}) {
        sim_launch({}, {.name = "busy", .duration = 1ms});
        waiting.add({}, link_at(256, 10), 4);
        sim_time const busy = node.now() + 1ms;
        std::thread{[&] {
            CHECK(collected(waiting).empty());
            if (own) { return; }
            auto const lost = waiting.pin_uncovered(waiting.next_age());
            REQUIRE(lost);
            lost.wait();
            waiting.unpin(lost, true);
            CHECK(collected(waiting).bytes() == 10);
        }}.join();
        if (own) {
            CHECK(collected(waiting).empty());
            CHECK(waiting.events() == 1);
            sim_stream_view{}.synchronize();
            CHECK(collected(waiting).bytes() == 10);
        }
        CHECK(node.now() >= busy);
        CHECK(waiting.empty());
    }
    CHECK(told.count() == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("waiting_frees: the platform decides which handles are default streams, if it can") {
    sim_node                       node{{.on_report = sim_on_report::collect}};
    doubles::mishaps               told;
    waiting_frees<naming_platform> waiting;
    std::optional<sim_stream>      s{doubles::raw_stream()};
    waiting.add(*s, link_at(256, 10), 4);
    s.reset(); // as if it were another thread's
    freed_blocks free;
    waiting.collect(free);
    CHECK(free.empty());
    CHECK(told.count() == 0);
    CHECK(waiting.wait_for_all().bytes() == 10);
}

TEST_CASE("waiting_frees: a move takes everything along") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    waiting_frees<sim_platform> first, second;
    sim_stream                  s;
    first.add(s, link_at(256, 10), 1);
    second = std::move(first);
    CHECK(first.empty());
    CHECK(first.events() == 0);
    CHECK(collected(first).empty());
    CHECK(second.events() == 1);
    auto& same = second;
    second     = std::move(same);
    CHECK(collected(second).bytes() == 10);
    first.add(s, link_at(512, 20), 1);
    CHECK(collected(first).bytes() == 20);
}

TEST_CASE("waiting_frees: a batch of the default stream gets no event on another thread's") {
    sim_node node{
        {.default_stream = sim_default_stream::per_thread, .on_report = sim_on_report::collect}};
    waiting_frees<sim_platform> waiting;
    sim_launch({}, {.name = "busy", .duration = 1ms});
    waiting.add({}, link_at(256, 10), 2); // still open when the other thread comes
    std::thread{[&] {
        CHECK(collected(waiting).empty()); // its own default stream is idle, ours is not
        CHECK(waiting.events() == 0);
    }}.join();
    CHECK(waiting.wait_for_all().bytes() == 10);
    CHECK(node.now() >= sim_time{1ms});
}

TEST_CASE("waiting_frees: a stream that is idle by the time of the request needs no wait") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    waiting_frees<sim_platform> waiting;
    sim_stream                  s;
    waiting.add(s, link_at(256, 10), 4); // without an event
    auto const oldest = waiting.pin_oldest();
    REQUIRE(oldest);
    CHECK(oldest.how == waiting_frees<sim_platform>::pin::by::nothing);
    auto const before = node.now();
    oldest.wait();
    CHECK(node.now() == before);
    waiting.unpin(oldest, true);
    CHECK_FALSE(waiting.pin_uncovered(waiting.next_age()));
    CHECK(collected(waiting).bytes() == 10);
    waiting.add(s, link_at(256, 10), 4);
    CHECK(waiting.wait_for_all().bytes() == 10);
    CHECK(node.reports().empty());
}

TEST_CASE("waiting_frees: a stream that was retired during a capture is covered later") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    doubles::mishaps            told;
    waiting_frees<sim_platform> waiting;
    sim_stream                  s;
    keep_busy(s);
    waiting.add(s, link_at(256, 10), 4);
    sim_graph::begin(s, sim_capture_mode::relaxed);
    waiting.retire(s);
    CHECK(waiting.events() == 0);
    CHECK(sim_graph::end(s).size() == 0);
    CHECK(collected(waiting).empty());
    CHECK(waiting.events() == 1);
    waiting.retire(s);
    waiting.add(s, link_at(512, 20), 1); // a retired stream may be used again
    s.synchronize();
    CHECK(collected(waiting).bytes() == 30);
    CHECK(told.count() == 0);
}

TEST_CASE("waiting_frees: more blocks than a pool keeps events for are returned one by one") {
    sim_node                    node;
    waiting_frees<sim_platform> waiting;
    sim_stream                  s;
    std::size_t const           count = 3 * stream_timeline<sim_platform>::most;
    for (std::size_t i = 1; i <= count; ++i) {
        keep_busy(s, 1ms);
        waiting.add(s, link_at(i * 256, 1), 1);
    }
    CHECK(waiting.count() == count);
    for (std::size_t i = 1; i <= count; ++i) {
        auto const oldest = waiting.pin_oldest();
        oldest.wait();
        waiting.unpin(oldest, true);
        CHECK(collected(waiting).count() == 1);
    }
}

TEST_CASE("waiting_frees: a destroyed stream is held until its blocks are unused, no longer") {
    sim_node                    node;
    waiting_frees<sim_platform> waiting;
    std::optional<sim_stream>   s{std::in_place};
    auto const* const           handle = s->view().get();
    keep_busy(*s);
    waiting.add(*s, link_at(256, 10), 4); // without an event
    s.reset();
    {
        sim_stream const other;
        CHECK(other.view().get() != handle);
    }
    CHECK(collected(waiting).empty()); // the event is recorded through the hold
    CHECK(waiting.events() == 1);
    sim_device{}.synchronize();
    CHECK(collected(waiting).bytes() == 10);
    sim_stream const first, second;
    CHECK((first.view().get() == handle || second.view().get() == handle));
}
