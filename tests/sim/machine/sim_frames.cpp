// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_frames.hpp> // first: the header must stand alone

#include <vram/sim/machine/sim_space.hpp>

#include <doctest/doctest.h>

#include <cstring>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_frames: contents that were written at one address are read at another mapping") {
    sim_frames           frames;
    sim_space            space{1 << 20, true};
    std::uintptr_t const first  = space.begin();
    std::uintptr_t const second = first + 16 * sim_frames::page;
    std::uint64_t const  place  = frames.take(2 * sim_frames::page);
    std::uint64_t const  other  = frames.take(sim_frames::page);
    CHECK(other >= place + 2 * sim_frames::page);
    frames.show(first, place, 2 * sim_frames::page);
    std::memset(reinterpret_cast<void*>(first), 7, 2 * sim_frames::page);
    sim_frames::hide(first, 2 * sim_frames::page);
    CHECK(*reinterpret_cast<char*>(first) == 0);
    *reinterpret_cast<char*>(first) = 3; // into the void
    frames.show(second, place, 2 * sim_frames::page);
    CHECK(*reinterpret_cast<char*>(second) == 7);
    CHECK(*reinterpret_cast<char*>(second + 2 * sim_frames::page - 1) == 7);
    frames.give(place, 2 * sim_frames::page);
    CHECK(*reinterpret_cast<char*>(second) == 0); // its contents are gone at every address
}

TEST_CASE("sim_frames: offsets are consecutive and never reused") {
    sim_frames          frames;
    std::uint64_t const first = frames.take(std::size_t{1} << 40);
    frames.give(first, std::size_t{1} << 40);
    CHECK(frames.take(sim_frames::page) == first + (std::size_t{1} << 40));
    CHECK_THROWS_AS((void)frames.take(std::size_t{1} << 63), std::bad_alloc);
}
