// SPDX-License-Identifier: Apache-2.0
#include <vram/order/core/timeline_table.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;

using sim_table = timeline_table<sim_platform>;
template class vram::detail::timeline_table<sim_platform>;

TEST_CASE("timeline_table: a stream is found by its handle or id, and by its slot") {
    for (bool const by_name : {false, true}) {
        CAPTURE(by_name);
        sim_node   node;
        sim_table  table{by_name, false, 8};
        sim_stream a, b;
        CHECK(table.met(a) == nullptr);
        auto& first  = table.of(a);
        auto& second = table.of(b);
        CHECK(&first != &second);
        CHECK(&table.of(a) == &first);
        CHECK(table.known(b) == &second);
        CHECK(table.known(a) == &first);
        CHECK(table.met(b) == &second);
        CHECK(&table[first.slot()] == &first);
        CHECK(&table[second.slot()] == &second);
        CHECK(table.size() == 2);
        CHECK(&table.by_id(sim_platform::id(b)) == &second);
        std::size_t count = 0;
        for (auto* const each : table) { count += each->alive(); }
        CHECK(count == 2);
    }
}

TEST_CASE("timeline_table: one timeline of each device is visited, also of streams that ended") {
    sim_node                node{{.devices = 3}};
    sim_table               table{true, false, 8};
    sim_stream              a, far{sim_device{2}}, b, farther{sim_device{1}};
    std::vector<sim_device> seen;
    auto const              see = [&](auto& its) { seen.push_back(its.device()); };
    table.for_each_device(see);
    CHECK(seen.empty());
    for (sim_stream const* s : {&a, &far, &b}) { (void)table.of(*s); }
    table.forget(table.of(far));
    table.for_each_device([&](auto& its) {
        see(its);
        (void)table.of(farther); // a visit may add a timeline
    });
    CHECK(seen == std::vector<sim_device>{sim_device{0}, sim_device{2}, sim_device{1}});
}

TEST_CASE("timeline_table: a timeline that was forgotten is not found") {
    sim_node   node;
    sim_table  table{true, false, 8};
    sim_stream a;
    auto&      first = table.of(a);
    table.forget(first);
    CHECK_FALSE(first.alive());
    CHECK(table.known(a) == nullptr);
    CHECK(table.met(a) == nullptr);
    CHECK(&table.of(a) != &first); // below 16 timelines none is reused
}

TEST_CASE("timeline_table: with many streams the slot of one without pending uses is reused") {
    sim_node                                 node;
    sim_table                                table{true, false, 8};
    std::vector<std::unique_ptr<sim_stream>> streams;
    for (int i = 0; i < 16; ++i) {
        streams.push_back(std::make_unique<sim_stream>());
        (void)table.of(*streams.back());
    }
    table.forget(table[3]);
    (void)table[5].epoch_of_free();
    table.forget(table[5]);
    sim_stream next, after;
    CHECK(table.of(next).slot() == 3);
    CHECK(table.size() == 16);
    CHECK(table.of(after).slot() == 16); // slot 5 has a pending use
}

TEST_CASE("timeline_table: the stream of another thread is found only if its id is known") {
    sim_node   node;
    sim_table  table{true, false, 8};
    sim_stream a;
    (void)sim_platform::id(a);
    auto* const found = table.of_another(a);
    REQUIRE(found != nullptr);
    CHECK(&table.of(a) == found);
}

TEST_CASE("timeline_table: without host memory no timeline is created, and a move leaves none") {
    sim_node   node;
    sim_table  table{false, false, 8};
    sim_stream a;
    {
        doubles::bombing armed{1};
        CHECK_THROWS_AS((void)table.of(a), std::bad_alloc);
    }
    CHECK(table.size() == 0);
    auto*     first = &table.of(a);
    sim_table moved = std::move(table);
    CHECK(&moved.of(a) == first);
    CHECK(table.size() == 0); // NOLINT(bugprone-use-after-move)
    CHECK(table.known(a) == nullptr);
    CHECK(table.met(a) == nullptr);
}
