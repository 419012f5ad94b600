// SPDX-License-Identifier: Apache-2.0
#include <vram/order/core/recorded_events.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

using namespace vram;
using namespace vram::detail;

template class vram::detail::recorded_events<sim_platform>;

namespace {

using events = recorded_events<sim_platform>;

/// Makes an event stand for `epoch`, as if it were recorded. Returns null if there is none.
events::entry* record(events& of, std::uint64_t epoch, sim_device const& d = {}) {
    events::entry* const one = of.spare(d);
    if (one != nullptr) { of.push(epoch); }
    return one;
}

} // namespace

TEST_CASE("recorded_events: they are kept oldest first, and the earliest that suffices is found") {
    sim_node node;
    events   all{8};
    CHECK(all.oldest() == nullptr);
    CHECK_FALSE(all.has_event(0));
    auto* const first  = record(all, 3);
    auto* const second = record(all, 5);
    CHECK(all.oldest() == first);
    CHECK(all.has_event(5));
    CHECK_FALSE(all.has_event(6));
    CHECK(&all.event_for(2) == first);
    CHECK(&all.event_for(3) == first);
    CHECK(&all.event_for(4) == second);
    all.pop();
    CHECK(all.oldest() == second);
    CHECK(&all.event_for(2) == second);
    all.pop();
    CHECK(all.oldest() == nullptr);
    CHECK_FALSE(all.has_event(5));
    CHECK(record(all, 7) != nullptr); // after the list was empty
    CHECK(all.oldest()->epoch == 7);
    all.clear();
    CHECK(all.oldest() == nullptr);
}

TEST_CASE("recorded_events: an event that was not recorded is used for the next epoch") {
    sim_node    node;
    events      all{8};
    auto* const one = all.spare({});
    CHECK(all.oldest() == nullptr);
    CHECK(all.spare({}) == one);
    all.push(1);
    CHECK(all.spare({}) != one);
}

TEST_CASE("recorded_events: if all are in use, the oldest is reused, but never the newest") {
    sim_node    node;
    events      all{3};
    auto* const first  = record(all, 1);
    auto* const second = record(all, 2);
    auto* const third  = record(all, 3);
    CHECK(record(all, 4) == first);
    CHECK(&all.event_for(1) == second); // the next one stands for its epoch as well
    second->pins = 1;
    CHECK(record(all, 5) == third);
    CHECK(all.oldest() == second);
    first->pins = 1;
    CHECK(record(all, 6) == nullptr); // the newest is the only other one
    CHECK(all.has_event(5));
    first->pins = 0;
    CHECK(record(all, 6) == first);
    events single{1};
    CHECK(record(single, 1) != nullptr);
    CHECK(record(single, 2) == nullptr);
}

TEST_CASE("recorded_events: a complete event is not reused while a thread waits for it") {
    sim_node    node;
    events      all{8};
    auto* const one = record(all, 1);
    one->pins       = 1;
    all.pop();
    auto* const other = record(all, 2);
    CHECK(other != one);
    all.pop();
    CHECK(record(all, 3) == other); // behind the other one
    one->pins = 0;
    CHECK(record(all, 4) == one);
    CHECK(one->epoch == 4);
    CHECK(&all.event_for(3) == other);
}

TEST_CASE("recorded_events: an event of another device is replaced by one of the right device") {
    sim_node    node{{.devices = 2}};
    events      all{8};
    auto* const one = record(all, 1);
    all.pop();
    CHECK(record(all, 2, sim_device{1}) == one);
    CHECK(one->of == sim_device{1});
}

TEST_CASE("recorded_events: if no event can be created, nothing has changed") {
    sim_node node{{.on_report = sim_on_report::collect}};
    events   all{8};
    record(all, 1);
    node.faults().at(sim_call_kind::create_event, 1);
    CHECK_THROWS_AS((void)all.spare({}), sim_error);
    CHECK(all.has_event(1));
    CHECK(record(all, 2) != nullptr);
    CHECK(all.has_event(2));
}
