// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_actors.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <cstddef>

using namespace vram::detail;

TEST_CASE("sim_actors: an index is reused only after everything that its owner did") {
    sim_actors        actors;
    vector_clock      creator;
    std::size_t const a = actors.take(creator), b = actors.take(creator);
    CHECK(a != b);
    actors.retire(a, 5);
    creator.raise(a, 4);
    CHECK(actors.take(creator) != a);
    creator.raise(a, 5);
    CHECK(actors.take(creator) == a);
    CHECK(actors.take(creator) != a); // it is taken
}

TEST_CASE("sim_actors: an index that can be reused is found among many that cannot") {
    sim_actors   actors;
    vector_clock creator;
    for (std::size_t i = 0; i < 100; ++i) { actors.retire(actors.take(creator), 1); }
    creator.raise(3, 1);
    std::size_t taken = 0;
    while (actors.take(creator) != 3 && taken < 100) { ++taken; }
    CHECK(taken < 100);
}
