// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_range.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <array>

using namespace vram;

TEST_CASE("sim_range: it converts from a pointer and a size, and from a span") {
    std::array<float, 8> a{};
    sim_range const      whole{std::span{a}};
    CHECK(whole.data == a.data());
    CHECK(whole.bytes == 32);
    CHECK(whole.end() - whole.begin() == 32);
    sim_range const part{a.data() + 2, 4};
    CHECK(part.begin() == whole.begin() + 8);
    CHECK(sim_range{}.bytes == 0);
}
