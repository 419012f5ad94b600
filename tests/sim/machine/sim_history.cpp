// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_history.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

using namespace vram;
using namespace vram::detail;

namespace {

using access = sim_event_of::kind;

sim_event_of access_by(std::size_t slot, std::uint64_t count, access what = access::read) {
    sim_event_of e;
    e.what  = what;
    e.slot  = slot;
    e.count = count;
    return e;
}

} // namespace

TEST_CASE("sim_history: of each stream, the last read and the last atomic access are kept") {
    sim_history          h;
    sim_late_order const late;
    for (std::size_t slot : {7U, 2U, 5U, 2U}) { h.note(access_by(slot, slot), late); }
    CHECK(h.reads.size() == 3);
    CHECK_FALSE(h.mixed);
    h.note(access_by(5, 9), late);
    h.note(access_by(5, 10, access::atomic), late);
    CHECK(h.mixed);
    REQUIRE(h.reads.size() == 4);
    CHECK(h.reads[0].slot == 2);
    CHECK(h.reads[1].count == 9);
    CHECK(h.reads[2].count == 10);
    CHECK(h.reads[3].slot == 7);
}

TEST_CASE("sim_history: accesses that no later one can conflict with are forgotten") {
    interval_map<sim_history> map{100, {access_by(1, 1, access::allocation), {}}};
    sim_late_order const      late;
    map.assign(10, 20, {access_by(1, 2, access::write), {}});
    map.assign(20, 30, {access_by(1, 3, access::write), {}});
    map.change(25, 30, [&](std::size_t, std::size_t, sim_history& h) {
        h.note(access_by(2, 1, access::atomic), late);
    });
    auto const until = [](std::uint64_t last) {
        return [last](std::size_t, std::uint64_t count) { return count <= last; };
    };
    forget_past(map, until(0), true);
    CHECK(map.pieces() == 5);
    forget_past(map, until(2), true);
    CHECK(map.pieces() == 4); // the allocation, nothing, and two pieces of the last write
    CHECK(map.at(0).write.what == access::allocation);
    CHECK(map.at(15).write.what == access::none);
    CHECK_FALSE(map.at(27).mixed);
    forget_past(map, until(3), false);
    CHECK(map.pieces() == 1);
}

TEST_CASE(
    "sim_history: many streams that read in turns, or one after the other, keep their order") {
    sim_late_order const late;
    sim_history          h;
    for (std::uint64_t round = 1; round <= 3; ++round) {
        for (std::size_t slot = 0; slot < 100; ++slot) { h.note(access_by(slot, round), late); }
    }
    for (std::size_t slot : {50U, 3U, 4U, 99U, 0U, 1U}) { h.note(access_by(slot, 9), late); }
    REQUIRE(h.reads.size() == 100);
    for (std::size_t slot = 0; slot < 100; ++slot) {
        CHECK(h.reads[slot].slot == slot);
        bool const again = slot == 50 || slot == 3 || slot == 4 || slot == 99 || slot < 2;
        CHECK(h.reads[slot].count == (again ? 9 : 3));
    }
}
