// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_conflicts.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

namespace {

sim_event_of earlier_step(sim_event_of::kind what, std::size_t slot, std::uint64_t count) {
    return {.what = what, .slot = slot, .count = count};
}

} // namespace

TEST_CASE("sim_conflicts: the last operation of each actor, with the range of all of them") {
    using kind = sim_event_of::kind;
    vector_clock clock;
    clock.raise(1, 5);
    vector_clock const* const clocks[] = {&clock};
    sim_event_of const        step     = earlier_step(kind::write, 0, 1);
    sim_conflicts             found{step, clocks};
    found.collect(0, 10, {earlier_step(kind::write, 1, 5), {}}); // ordered
    CHECK(found.found().empty());
    found.collect(10, 20, {earlier_step(kind::write, 1, 7), {earlier_step(kind::read, 2, 1)}});
    found.collect(30, 40, {earlier_step(kind::write, 1, 6), {}});
    REQUIRE(found.found().size() == 2);
    CHECK(found.found()[0].with.count == 7);
    CHECK(found.found()[0].begin == 10);
    CHECK(found.found()[0].end == 40);
    CHECK(found.found()[1].with.what == kind::read);
    found.ignore({2});
    CHECK(found.found().size() == 1);
}

TEST_CASE("sim_conflicts: the waits of resources are an order after frees, or if asked for") {
    using kind = sim_event_of::kind;
    vector_clock clock, other;
    other.raise(1, 5);
    clock.join_by_resource(other);
    vector_clock const* const clocks[] = {&clock};
    sim_event_of const        step     = earlier_step(kind::write, 0, 1);
    sim_conflicts             program{step, clocks}, full{step, clocks, true};
    program.look(0, 8, earlier_step(kind::release, 1, 5));
    CHECK(program.found().empty());
    program.look(0, 8, earlier_step(kind::write, 1, 5));
    CHECK(program.found().size() == 1);
    full.look(0, 8, earlier_step(kind::write, 1, 5));
    CHECK(full.found().empty());
}

TEST_CASE("sim_conflicts: an operation happens after each of its clocks") {
    using kind = sim_event_of::kind;
    vector_clock a, b;
    a.raise(1, 5);
    b.raise(2, 5);
    vector_clock const* const clocks[] = {&a, &b};
    sim_event_of const        step     = earlier_step(kind::release, 0, 1);
    sim_conflicts             found{step, clocks};
    found.look(0, 8, earlier_step(kind::write, 1, 5));
    found.look(0, 8, earlier_step(kind::write, 2, 5));
    CHECK(found.found().empty());
    found.uses_only();
    found.look(0, 8, earlier_step(kind::allocation, 3, 1));
    CHECK(found.found().empty());
    found.look(0, 8, earlier_step(kind::read, 3, 1));
    CHECK(found.found().size() == 1);
}
