// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/pitched_copy.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <array>

using namespace vram;

TEST_CASE("pitched_copy: the defaults describe one row") {
    pitched_copy const c;
    CHECK(c.height == 1);
    CHECK(c.depth == 1);
    CHECK(c.width == 0);
}

TEST_CASE("pitched_copy: a box moves between two layouts, and other bytes do not change") {
    // 2 slices of 2 rows of 3 bytes, out of rows of 5 and slices of 10, into rows of 4 and slices
    // of 12
    std::array<unsigned char, 20> from{};
    for (std::size_t i = 0; i < from.size(); ++i) { from[i] = static_cast<unsigned char>(i + 1); }
    std::array<unsigned char, 24> to{};
    host_platform::copy({}, pitched_copy{.to         = to.data(),
                                         .to_pitch   = 4,
                                         .to_slice   = 12,
                                         .from       = from.data(),
                                         .from_pitch = 5,
                                         .from_slice = 10,
                                         .width      = 3,
                                         .height     = 2,
                                         .depth      = 2});
    for (std::size_t z = 0; z < 2; ++z) {
        for (std::size_t y = 0; y < 3; ++y) {
            for (std::size_t x = 0; x < 4; ++x) {
                bool const inside = y < 2 && x < 3;
                CHECK(to[z * 12 + y * 4 + x] == (inside ? z * 10 + y * 5 + x + 1 : 0));
            }
        }
    }
}
