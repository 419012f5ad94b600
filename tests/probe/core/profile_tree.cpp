// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/profile_tree.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>

using namespace vram;
using detail::profile_tree;

static_assert(detail::times_events<sim_platform> && !detail::times_events<host_platform>);

TEST_CASE("profile_tree: a scope is found again by its name and the scope around it") {
    sim_node                   node;
    profile_tree<sim_platform> tree;
    auto&                      a = tree.enter(nullptr, "a");
    CHECK(&tree.enter(nullptr, "a") == &a);
    CHECK(&tree.enter(&a, "a") != &a);
    CHECK(&tree.enter(&a, "a") == a.inner[0].get());
}

TEST_CASE("profile_tree: events are used again after they were read, on their device only") {
    sim_node                   node{{.devices = 2}};
    sim_stream                 s;
    profile_tree<sim_platform> tree;
    auto&                      a     = tree.enter(nullptr, "a");
    auto                       of    = tree.take_events(sim_device{0});
    sim_event const*           id    = &of.from;
    auto const* const          state = &id->state();
    of.from.record(s);
    of.to.record(s);
    tree.add(a, 0, std::move(of));
    CHECK(&tree.take_events(sim_device{0}).from.state() != state); // not read yet
    CHECK(tree.rows(false)[0].device.count == 1);
    CHECK(&tree.take_events(sim_device{1}).from.state() != state);
    CHECK(&tree.take_events(sim_device{0}).from.state() == state);
}

TEST_CASE("profile_tree: a table whose wait fails loses no run") {
    for (std::uint64_t nth = 1; nth != 7; ++nth) {
        sim_node                   node;
        sim_stream                 s;
        profile_tree<sim_platform> tree;
        auto&                      a = tree.enter(nullptr, "a");
        for (int i = 0; i != 3; ++i) {
            auto of = tree.take_events(sim_device{0});
            of.from.record(s);
            of.to.record(s);
            tree.add(a, 0, std::move(of));
        }
        node.faults().at(sim_call_kind::synchronize, nth);
        try {
            (void)tree.rows(false);
        } catch (sim_error const&) {}
        CHECK(tree.rows(false)[0].device.count == 3);
    }
}
