// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/waiting_frees.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include "../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

using namespace vram;
using namespace std::chrono_literals;

template class vram::waiting_frees<sim_platform>;
template class vram::waiting_frees<host_platform>;

namespace {

freed_blocks::link* link_at(std::uintptr_t address, std::size_t bytes) {
    return new freed_blocks::link{reinterpret_cast<void*>(address), bytes, 256};
}
freed_blocks collected(auto& waiting) {
    freed_blocks free;
    waiting.collect(free);
    return free;
}
void keep_at_work(sim_stream const& s, sim_time how_long = 1ms) {
    sim_launch(s, {.name = "busy", .duration = how_long});
}

} // namespace

TEST_CASE("waiting_frees: what a stream is not past stays, and every stream goes at its own pace") {
    sim_node                    node{{.compute_slots = 2}};
    waiting_frees<sim_platform> waiting;
    sim_stream                  quick, slow;
    keep_at_work(quick, 1ms);
    keep_at_work(slow, 5ms);
    waiting.add(slow, link_at(256, 10), 1);
    waiting.add(quick, link_at(512, 20), 1);
    keep_at_work(quick, 10ms);
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

TEST_CASE("waiting_frees: a batch has as many blocks as may share an event") {
    sim_node                    node;
    waiting_frees<sim_platform> waiting;
    sim_stream                  s;
    for (std::uintptr_t i = 1; i <= 5; ++i) { waiting.add(s, link_at(i * 256, 1), 2); }
    CHECK(waiting.events() == 2);
    waiting.close(s);
    CHECK(waiting.events() == 3);
    waiting.close(s);
    CHECK(waiting.events() == 3);
    CHECK(collected(waiting).count() == 5);
}

TEST_CASE("waiting_frees: the oldest can be waited for, and others may collect it meanwhile") {
    sim_node                    node{{.compute_slots = 2}};
    waiting_frees<sim_platform> waiting;
    sim_stream                  first, second;
    keep_at_work(first, 3ms);
    keep_at_work(second, 1ms);
    waiting.add(first, link_at(256, 10), 1);
    waiting.add(second, link_at(512, 20), 1);
    auto const oldest = waiting.pin_oldest();
    auto const again  = waiting.pin_oldest(); // two hosts wait for one batch
    CHECK(oldest.at == again.at);
    oldest.wait();
    CHECK(node.now() == 3ms);
    waiting.unpin(oldest, true);
    CHECK(collected(waiting).bytes() == 30); // gone from the queue, but still pinned
    waiting.add(first, link_at(768, 40), 1);
    again.wait();
    waiting.unpin(again, true);
    CHECK(collected(waiting).bytes() == 40);
    CHECK(waiting.pin_oldest().at == nullptr);
}

TEST_CASE("waiting_frees: a wait that failed leaves everything as it was") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    waiting_frees<sim_platform> waiting;
    sim_stream                  s;
    keep_at_work(s, 3ms);
    waiting.add(s, link_at(256, 10), 1);
    node.faults().at(sim_call_kind::synchronize, 1);
    auto const oldest = waiting.pin_oldest();
    CHECK_THROWS_AS(oldest.wait(), sim_error);
    waiting.unpin(oldest, false);
    CHECK(waiting.bytes() == 10);
    CHECK(waiting.settle().bytes() == 10);
    CHECK(node.now() >= 3ms);
}

TEST_CASE("waiting_frees: what could not be recorded is still the caller's") {
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

TEST_CASE("waiting_frees: streams of two devices use events of their own") {
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

TEST_CASE("waiting_frees: settling waits for everything, and tells what fails") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    doubles::mishaps            told;
    waiting_frees<sim_platform> first;
    sim_stream                  s;
    keep_at_work(s, 2ms);
    first.add(s, link_at(256, 10), 2); // still open
    waiting_frees<sim_platform> waiting = std::move(first);
    CHECK(first.empty());
    CHECK(waiting.settle().bytes() == 10);
    CHECK(node.now() >= 2ms);
    CHECK(told.count() == 0);
    waiting.add(s, link_at(256, 10), 1);
    node.faults().at(sim_call_kind::synchronize, 1);
    CHECK(waiting.settle().bytes() == 10);
    CHECK(told.count(mishap::platform_error) == 1);
}

TEST_CASE("waiting_frees: what nobody could be made to wait for is told as a leak, and kept") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    doubles::mishaps            told;
    waiting_frees<sim_platform> waiting;
    sim_stream                  first, second;
    waiting.add(first, link_at(256, 10), 1);
    waiting.add(second, link_at(512, 20), 1);
    node.faults().at(sim_call_kind::synchronize, 1, {}, 2); // the event, and its device
    CHECK(waiting.settle().bytes() == 20);
    CHECK(waiting.empty());
    CHECK(told.count(mishap::platform_error) == 2);
    CHECK(told.count(mishap::leak) == 1);
    CHECK(told.pointer() == reinterpret_cast<void*>(std::uintptr_t{256}));
}

TEST_CASE("waiting_frees: when a question throws, what was collected before it is not lost") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    waiting_frees<sim_platform> waiting;
    sim_stream                  first, second;
    waiting.add(first, link_at(256, 10), 1);
    waiting.add(second, link_at(512, 20), 1);
    freed_blocks free;
    node.faults().at(sim_call_kind::query, 2, {.status = sim_status::launch_failed});
    CHECK_THROWS_AS(waiting.collect(free), sim_error);
    CHECK(free.bytes() + waiting.bytes() == 30);
    node.faults().clear();
    waiting.collect(free);
    CHECK(free.bytes() == 30);
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
    CHECK(waiting.settle().bytes() == 10);
    CHECK(node.now() >= sim_time{1ms});
}
