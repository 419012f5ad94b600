// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_choices.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_choices: decisions follow the script, then take the first candidate") {
    sim_choices c{sim_order::by_choice, 1, {2, 1}};
    CHECK(c.choose(3) == 2);
    CHECK(c.choose(1) == 0); // no choice: not remembered
    CHECK(c.choose(2) == 1);
    CHECK(c.choose(4) == 0);
    REQUIRE(c.taken().size() == 3);
    CHECK(c.taken()[2].among == 4);
}

TEST_CASE("sim_choices: an index that is too large is taken modulo the number of candidates") {
    sim_choices c{sim_order::by_choice, 1, {7, 2}};
    CHECK(c.choose(3) == 1);
    CHECK(c.choose(2) == 0);
    CHECK(c.taken()[0].taken == 1); // so that `sim_explore` sees that the script did not fit
}

TEST_CASE("sim_choices: equal seeds give equal decisions, and different seeds differ") {
    auto const run = [](std::uint64_t seed) {
        sim_choices           c{sim_order::by_seed, seed, {}};
        std::vector<unsigned> all;
        for (int i = 0; i < 64; ++i) { all.push_back(c.choose(5)); }
        return all;
    };
    CHECK(run(7) == run(7));
    CHECK(run(7) != run(8));
}

TEST_CASE("sim_random: numbers are below the bound and reach all values") {
    sim_random random{3};
    bool       seen[6] = {};
    for (int i = 0; i < 200; ++i) {
        auto const n = random.below(6);
        REQUIRE(n < 6);
        seen[n] = true;
    }
    for (bool const s : seen) { CHECK(s); }
}
