// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_advice.hpp> // first: the header stands alone

#include <vram/sim/machine/sim_names.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace vram;
using namespace vram::detail;

namespace {

sim_event_of operation(bool host, std::size_t actor, std::uint64_t number) {
    sim_event_of one;
    one.host   = host;
    one.actor  = actor;
    one.number = number;
    one.name   = "fill";
    return one;
}

/// Returns the advice for a race between two operations without names.
std::string advice_for(sim_event_of second, sim_event_of first,
                       sim_event_of::kind what = sim_event_of::kind::write) {
    second.what = what;
    sim_report r{sim_mistake::race, second, first};
    sim_names{}.complete(r);
    return sim_advice(r);
}

} // namespace

TEST_CASE("sim_advice: it names the operation, and the stream or thread that must wait") {
    CHECK(advice_for(operation(false, 2, 9), operation(false, 1, 4)) ==
          "stream 2 must wait for an event recorded on stream 1 after `fill` #4");
    CHECK(advice_for(operation(true, 2, 9), operation(false, 1, 4)) ==
          "the host must wait for stream 1, or for an event recorded on it, after `fill` #4");
    CHECK(advice_for(operation(true, 2, 9), operation(true, 1, 4)) ==
          "host thread 2 must wait for host thread 1 (a gate, a join) after `fill` #4");
    CHECK(advice_for(operation(false, 2, 9), operation(true, 1, 4)) ==
          "the stream's work must be enqueued by a thread that has waited for host thread 1 after "
          "`fill` #4");
}

TEST_CASE("sim_advice: for a free, the free itself can move") {
    auto const free = sim_event_of::kind::release;
    CHECK(advice_for(operation(false, 2, 9), operation(false, 1, 4), free) ==
          "free the block on stream 1, or before the free stream 2 must wait for an event recorded "
          "on stream 1 after `fill` #4");
    CHECK(advice_for(operation(true, 2, 9), operation(false, 1, 4), free) ==
          "the host must wait for stream 1, or for an event recorded on it, after `fill` #4, "
          "before the free");
}

TEST_CASE("sim_advice: two branches of one graph have the same stream, so it names the nodes") {
    sim_event_of second = operation(false, 1, 9), first = operation(false, 1, 4);
    second.graph = first.graph = true;
    CHECK(advice_for(second, first) ==
          "during the capture, the stream of `fill` #9 must wait for an "
          "event recorded on the stream of `fill` #4 after it");
}

TEST_CASE("sim_advice: it names the stream that is passed to staging, not that of its copies") {
    sim_event_of copy = operation(false, 7, 4);
    copy.part         = sim_part::staging;
    CHECK(advice_for(operation(false, 2, 9), copy) ==
          "stream 2 must wait for an event recorded on the stream that is passed to staging after "
          "`fill` #4");
    CHECK(advice_for(copy, operation(false, 2, 9)) ==
          "the stream that is passed to staging must wait for an event recorded on stream 2 after "
          "`fill` #9");
}
