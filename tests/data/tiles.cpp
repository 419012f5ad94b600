// SPDX-License-Identifier: Apache-2.0
#include <vram/data/tiles.hpp> // first: the header stands alone

#include "../doubles/contracts_throw.hpp"
#include "volumes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

using namespace vram;

template class vram::tiles<1>;
template class vram::tiles<4>;
static_assert(std::is_trivially_copyable_v<tile_box<3>>); // it can be an argument of a kernel

namespace tiles_tests {

/// Checks any division: its tiles cover each element once, know their index, and have the expected
/// order.
template <std::size_t N>
void round(std::mt19937& random) {
    auto const       how = volumes::any<N>(random);
    tiles<N> const   cut{how};
    std::vector<int> covered(cut.volume(), 0);
    std::size_t      all = 1, largest = 0;
    for (std::size_t d = 0; d < N; ++d) {
        REQUIRE(cut.count(d) == (how.extent[d] + how.tile[d] - 1) / how.tile[d]);
        all *= cut.count(d);
    }
    REQUIRE(cut.size() == all);
    tile_box<N> before{};
    for (std::size_t i = 0; i < cut.size(); ++i) {
        tile_box<N> const box = cut[i];
        REQUIRE(cut.index_of(box.origin) == i);
        std::size_t steps = 0, moved = 0; // compared with the tile before
        for (std::size_t d = 0; d < N; ++d) {
            REQUIRE(box.origin[d] % how.tile[d] == 0);
            REQUIRE(box.inner[d] == std::min(how.tile[d], how.extent[d] - box.origin[d]));
            if (how.outside == boundary::clip) {
                REQUIRE(box.before[d] == std::min(how.halo[d], box.origin[d]));
                std::size_t const end = box.origin[d] + box.extent[d] - box.before[d];
                REQUIRE(end == std::min(how.extent[d], box.origin[d] + box.inner[d] + how.halo[d]));
            } else {
                REQUIRE(box.before[d] == how.halo[d]);
                REQUIRE(box.extent[d] == box.inner[d] + 2 * how.halo[d]);
            }
            auto const apart = box.origin[d] > before.origin[d] ? box.origin[d] - before.origin[d]
                                                                : before.origin[d] - box.origin[d];
            steps += apart / how.tile[d];
            moved += apart != 0 ? 1 : 0;
        }
        if (i > 0 && how.order == tile_order::snake) { // the tiles are neighbours
            REQUIRE(steps == 1);
            REQUIRE(moved == 1);
        }
        std::size_t const fast = how.order == tile_order::first_fastest ? 0 : N - 1;
        if (i == 1 && cut.count(fast) > 1) { REQUIRE(box.origin[fast] == how.tile[fast]); }
        before  = box;
        largest = std::max(largest, tiles<N>::elements(box));

        std::size_t at[N] = {};
        for (std::size_t n = 0; n < tiles<N>::inner_elements(box); ++n) {
            std::size_t place = 0, where[N];
            for (std::size_t d = 0; d < N; ++d) {
                where[d] = box.origin[d] + at[d];
                place    = place * how.extent[d] + where[d];
            }
            REQUIRE(cut.index_of(where) == i);
            ++covered[place];
            for (std::size_t d = N; d-- > 0 && ++at[d] == box.inner[d];) { at[d] = 0; }
        }
    }
    REQUIRE(std::ranges::all_of(covered, [](int times) { return times == 1; }));
    REQUIRE(cut.elements() >= largest);
    if (how.outside != boundary::clip) { REQUIRE(cut.elements() == largest); }
}

/// Returns the exception for an invalid division.
template <std::size_t N>
layout_error why(tile_options<N> const& how) {
    try {
        tiles<N> const cut{how};
    } catch (layout_error const& e) { return e; }
    FAIL("nothing was thrown");
    return layout_error{layout_error::reason::not_whole};
}

TEST_CASE("tiles: any division covers each element once, and elements can be found") {
    std::mt19937 random{11};
    for (int i = 0; i < 400; ++i) {
        round<1>(random);
        round<2>(random);
        round<3>(random);
        round<4>(random);
    }
}

TEST_CASE("tiles: six tiles have three possible orders") {
    auto const origins = [](tile_order order) {
        tiles<2> const   cut{{.extent = {2, 3}, .tile = {1, 1}, .order = order}};
        std::vector<int> all;
        for (std::size_t i = 0; i < cut.size(); ++i) {
            all.push_back(static_cast<int>(10 * cut[i].origin[0] + cut[i].origin[1]));
        }
        return all;
    };
    CHECK(origins(tile_order::last_fastest) == std::vector{00, 01, 02, 10, 11, 12});
    CHECK(origins(tile_order::first_fastest) == std::vector{00, 10, 01, 11, 02, 12});
    CHECK(origins(tile_order::snake) == std::vector{00, 01, 02, 12, 11, 10});
}

TEST_CASE("tiles: a tile larger than the volume is the volume with its halo") {
    tiles<2> const clipped{{.extent = {5, 6}, .tile = {100, 6}, .halo = {2, 3}}};
    REQUIRE(clipped.size() == 1);
    CHECK(clipped[0] == tile_box<2>{{0, 0}, {5, 6}, {0, 0}, {5, 6}});
    CHECK(clipped.elements() == 30);
    tiles<2> const whole{
        {.extent = {5, 6}, .tile = {100, 6}, .halo = {2, 3}, .outside = boundary::edge}};
    CHECK(whole[0] == tile_box<2>{{0, 0}, {5, 6}, {2, 3}, {9, 12}});
    CHECK(whole.elements() == 9 * 12);
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    CHECK(tiles<1>{{.extent = {5}, .tile = {most}, .halo = {1}}}.size() == 1);
}

TEST_CASE("tiles: a tile is short if the end of the volume cuts it, with any border") {
    for (boundary const outside : {boundary::clip, boundary::mirror}) {
        tiles<2> const cut{{.extent = {4, 5}, .tile = {2, 2}, .halo = {1, 1}, .outside = outside}};
        std::vector<std::size_t> cut_by_end;
        for (std::size_t i = 0; i < cut.size(); ++i) {
            if (cut.is_short(i)) { cut_by_end.push_back(i); }
        }
        CHECK(cut_by_end == std::vector<std::size_t>{2, 5});
    }
    tiles<2> const one{{.extent = {2, 4}, .tile = {3, 4}}};
    CHECK_FALSE(one.is_short(0)); // no tile is larger
}

TEST_CASE("tiles: an empty volume has no tiles") {
    tiles<3> const cut{{.extent = {5, 0, 7}, .tile = {2, 2, 2}}};
    CHECK(cut.size() == 0);
    CHECK(cut.volume() == 0);
    CHECK(cut.elements() >= 1); // a slot has at least something
}

TEST_CASE("tiles: an empty tile and numbers that overflow are refused, with the dimension") {
    using r                    = layout_error::reason;
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    CHECK(why<2>({.extent = {5, 5}, .tile = {0, 1}}).why() == r::empty);
    CHECK(why<2>({.extent = {5, 5}, .tile = {0, 1}}).dimension() == 0);
    CHECK(why<2>({.extent = {5, 5}, .tile = {1, 0}}).dimension() == 1);
    auto const long_row = why<1>({.extent = {most}, .tile = {1}});
    CHECK(long_row.why() == r::too_large);
    CHECK(long_row.value() == most);
    std::size_t const far = std::size_t{1} << 31;
    auto const product = why<3>({.extent = {far, far, far}, .tile = {1, 1, 1}}); // 2^93: wraps to 0
    CHECK(product.why() == r::too_large);
    CHECK(product.dimension() == 1); // 2^62 are too many already
    CHECK(product.value() == far);
    auto const halo = why<1>({.extent = {5}, .tile = {1}, .halo = {most / 2}});
    CHECK(halo.why() == r::too_large);
    CHECK(halo.value() == most / 2);
    auto const batch = why<2>({.extent  = {5, 5},
                               .tile    = {1, 1},
                               .halo    = {std::size_t{1} << 40, std::size_t{1} << 40},
                               .outside = boundary::wrap});
    CHECK(batch.why() == r::too_large); // the volume is small, its batches are not
    CHECK(batch.dimension() == 0);
    tiles<3> const large{{.extent = {1 << 20, 1 << 20, 1 << 20}, .tile = {1 << 20, 1, 1 << 20}}};
    CHECK(large.volume() == std::size_t{1} << 60);
    CHECK(large[(1 << 20) - 1].origin[1] == (1 << 20) - 1);
}

TEST_CASE("tiles: a tile or element index out of range is a broken contract") {
    tiles<2> const                 cut{{.extent = {5, 5}, .tile = {2, 2}}};
    doubles::contracts_throw const throws;
    CHECK_THROWS_AS((void)cut[9], doubles::broken_contract);
    CHECK_THROWS_AS((void)cut.index_of({4, 5}), doubles::broken_contract);
    CHECK(cut.index_of({4, 4}) == 8);
}

} // namespace tiles_tests
