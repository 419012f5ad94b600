// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_units.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <random>
#include <set>

using namespace vram::detail;

TEST_CASE("sim_units: agrees with a set of numbers over random changes") {
    std::mt19937          random{1};
    sim_units             units;
    std::set<std::size_t> model;
    int                   wrong = 0;
    for (int i = 0; i < 5000; ++i) {
        std::size_t const begin = random() % 60, end = begin + 1 + random() % 8;
        units.prepare(1);
        if (random() % 2 == 0) {
            units.add({begin, end});
            for (std::size_t u = begin; u < end; ++u) { model.insert(u); }
        } else if (units.contains({begin, end})) {
            units.remove({begin, end});
            for (std::size_t u = begin; u < end; ++u) { model.erase(u); }
        }
        std::size_t const from = random() % 60, to = from + random() % 20;
        std::size_t       count = 0, last = 0;
        for (std::size_t u = from; u < to; ++u) {
            if (model.count(u) == 0) { continue; }
            ++count;
            last = u + 1;
        }
        wrong += units.size() == model.size() && units.count({from, to}) == count ? 0 : 1;
        wrong += units.contains({from, to}) == (count == to - from) ? 0 : 1;
        wrong += units.last_in({from, to}).end == last ? 0 : 1;
    }
    CHECK(wrong == 0);
    units.clear();
    CHECK(units.size() == 0);
    CHECK(units.last_in({0, 100}).size() == 0);
}
