// SPDX-License-Identifier: Apache-2.0
#include <vram/data/core/tile_copies.hpp> // first: the header stands alone

#include "../volumes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

using namespace vram;
using namespace vram::detail;

template class vram::detail::tile_copies<1>;
template class vram::detail::tile_copies<4>;

namespace tile_copies_tests {

template <std::size_t N>
std::size_t copies_of(tile_options<N> const& how, std::size_t const (&place)[N]) {
    tiles<N> const       cut{how};
    tile_copies<N> const copies{cut, sizeof(int)};
    std::vector<int>     volume(cut.volume()), batch(cut.elements());
    std::size_t          n = 0;
    copies.gather(cut.index_of(place), batch.data(), volume.data(),
                  [&](pitched_copy const&) { ++n; });
    return n;
}

TEST_CASE("tile_copies: an inner tile is one copy, and a border tile the documented number") {
    tile_options<3> how{.extent = {12, 12, 12}, .tile = {4, 4, 4}, .halo = {1, 2, 1}};
    for (boundary const b : {boundary::clip, boundary::edge, boundary::mirror, boundary::symmetric,
                             boundary::wrap, boundary::constant}) {
        how.outside = b;
        CHECK(copies_of(how, {5, 5, 5}) == 1);
        bool const        one    = b == boundary::clip || b == boundary::constant;
        bool const        turns  = b == boundary::wrap;
        std::size_t const face   = one ? 1 : turns ? 2 : 3;         // two elements beyond
        std::size_t const corner = one ? 1 : turns ? 8 : 2 * 3 * 2; // one, two and one
        CHECK(copies_of(how, {5, 0, 5}) == face);
        CHECK(copies_of(how, {0, 11, 11}) == corner);
    }
    tile_options<4> const four{.extent = {6, 6, 6, 6}, .tile = {2, 3, 3, 3}};
    CHECK(copies_of(four, {2, 0, 0, 0}) == 2);
    tile_options<4> const slabs{.extent = {6, 6, 6, 6}, .tile = {2, 3, 6, 6}};
    CHECK(copies_of(slabs, {2, 0, 0, 0}) == 1);
}

TEST_CASE("tile_copies: it has the bytes of a batch and of a tile, and if the tile is inside") {
    tiles<2> const       cut{{.extent = {10, 10}, .tile = {4, 5}, .halo = {1, 1}}};
    tile_copies<2> const clipped{cut, 4};
    CHECK(clipped.bytes(0) == 5 * 6 * 4);
    CHECK(clipped.bytes(0, tile_part::inner) == 4 * 5 * 4);
    CHECK(clipped.bytes(5, tile_part::inner) == 2 * 5 * 4);                    // cut by the border
    for (std::size_t i = 0; i < cut.size(); ++i) { CHECK(clipped.inside(i)); } // all that is seen
    std::mt19937 random{5};
    for (int round = 0; round < 2000; ++round) {
        tiles<2> const       any{volumes::any<2>(random)};
        tile_copies<2> const copies{any, 1};
        auto const           volume = std::vector<int>(any.volume(), 1);
        for (std::size_t i = 0; i < any.size(); ++i) {
            // Another division of the volume, with a visible outside.
            auto how    = any.options();
            how.outside = how.outside == boundary::clip ? boundary::clip : boundary::constant;
            tiles<2> const seen{how};
            auto const     batch   = volumes::gathered(seen, seen[i], volume, 0);
            bool const     outside = std::find(batch.begin(), batch.end(), 0) != batch.end();
            REQUIRE(copies.inside(i) == !outside);
        }
    }
}

TEST_CASE("tile_copies: gathered and scattered tiles restore the volume, with either engine") {
    std::mt19937 random{6};
    for (int round = 0; round < 500; ++round) {
        tiles<3> const       cut{volumes::any<3>(random)};
        tile_copies<3> const copies{cut, sizeof(int)};
        auto const           volume = volumes::counted(cut.volume());
        std::vector<int>     whole(cut.volume()), inner(cut.volume()), batch(cut.elements());
        for (std::size_t i = 0; i < cut.size(); ++i) {
            copies.gather(i, batch.data(), volume.data(), copy_box);
            copies.scatter(i, batch.data(), tile_part::whole, whole.data(), copy_box);
            // the tile alone, cut out of its batch
            auto const        box     = cut[i];
            std::size_t const zero[3] = {};
            std::vector<int>  alone(tiles<3>::inner_elements(box));
            box_copies<3>(alone.data(), {box.inner, zero}, batch.data(), {box.extent, box.before},
                          box.inner, sizeof(int), copy_box);
            copies.scatter(i, alone.data(), tile_part::inner, inner.data(), copy_box);
        }
        REQUIRE(whole == volume);
        REQUIRE(inner == volume);
    }
}

} // namespace tile_copies_tests
