// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_free_space.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram::detail;

TEST_CASE("sim_free_space: a range is merged with both neighbours in its list") {
    sim_free_space space{100};
    space.stock(3);
    space.join(0, 10, {.end = 20, .stream = 0, .ticket = 1});
    space.join(0, 30, {.end = 40, .stream = 0, .ticket = 2, .pending = true});
    space.join(1, 40, {.end = 50, .stream = 1, .ticket = 3});
    CHECK(space.pending() == 10);
    space.join(0, 20, {.end = 30, .stream = 0, .ticket = 4, .pending = true});
    auto const at = space.list.at(0, 10);
    REQUIRE(at != space.list.none());
    CHECK(at->second.end == 40);
    CHECK(at->second.ticket == 4);
    CHECK(space.pending() == 30);
    space.complete(0, 2); // a later free is pending
    CHECK(space.pending() == 30);
    space.complete(0, 4);
    CHECK(space.pending() == 0);
    CHECK(space.list.at(1, 40)->second.end == 50);
}

TEST_CASE("sim_free_space: a range of the pool is whole if each unit that it touches is backed") {
    sim_free_space space{100};
    space.stock(3);
    space.units.prepare(2);
    space.drop(space.list.at(sim_free_space::pool, 0));
    space.put(sim_free_space::pool, 50, {.end = 250});
    auto const at = space.list.at(sim_free_space::pool, 50);
    CHECK_FALSE(at->second.whole);
    CHECK_FALSE(at->second.spare);
    space.units.add({0, 2});
    space.flag(at);
    CHECK_FALSE(at->second.whole);
    CHECK(at->second.spare); // the unit of the bytes 100 to 200
    space.units.add({2, 3});
    space.flag(at);
    CHECK(at->second.whole);
}

TEST_CASE("sim_free_space: guards of one stream are merged, and end with their free") {
    sim_free_space space{100};
    space.stock(9);
    auto const visited = [&](std::size_t begin, std::size_t end) {
        std::size_t tickets = 0;
        space.for_guards(begin, end, [&](std::size_t stream, std::size_t ticket) {
            tickets = 100 * tickets + 10 * stream + ticket;
        });
        return tickets;
    };
    space.guard(10, {.end = 20, .stream = 1, .ticket = 1, .pending = true});
    space.guard(30, {.end = 40, .stream = 1, .ticket = 2, .pending = true});
    space.guard(40, {.end = 50, .stream = 2, .ticket = 3, .pending = true});
    CHECK(visited(0, 100) == 11'12'23);
    CHECK(visited(15, 35) == 11'12);
    CHECK(visited(20, 30) == 0);
    space.guard(20, {.end = 30, .stream = 1, .ticket = 4, .pending = true});
    CHECK(visited(0, 100) == 14'23);
    CHECK(space.pending() == 40);
    space.unguard(10, 15, [](std::size_t, auto const&) {});
    CHECK(visited(0, 15) == 0);
    CHECK(visited(0, 16) == 14);
    CHECK(space.pending() == 35);
    space.complete(1, 4);
    CHECK(visited(0, 100) == 23);
    CHECK(space.pending() == 10);
}
