// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_pool.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_pool: the pending bytes are the sum of the frees that are not complete") {
    sim_pool pool;
    CHECK(pool.pending_bytes == 0);
    pool.add({.slot = 1, .bytes = 512, .ticket = 1});
    pool.add({.slot = 2, .bytes = 1024, .ticket = 2});
    pool.add({.slot = 1, .bytes = 256, .ticket = 3});
    CHECK(pool.pending_bytes == 1792);
    pool.remove(1);
    pool.remove(1); // has no effect
    CHECK(pool.pending_bytes == 1280);
    CHECK(pool.maximum == unsatisfiable);
}

TEST_CASE("sim_pool: the first free is the oldest one that meets the condition") {
    sim_pool pool;
    pool.add({.slot = 2, .bytes = 1, .ticket = 1});
    pool.add({.slot = 1, .bytes = 1, .ticket = 2});
    pool.add({.slot = 1, .bytes = 1, .ticket = 3});
    auto const of_slot = [](std::size_t slot) {
        return [slot](sim_pool::waiting const& w) { return slot == 0 || w.slot == slot; };
    };
    CHECK(pool.first(of_slot(0))->ticket == 1);
    CHECK(pool.first(of_slot(1))->ticket == 2);
    CHECK(pool.first(of_slot(3)) == nullptr);
    pool.remove(2);
    CHECK(pool.first(of_slot(1))->ticket == 3);
}
