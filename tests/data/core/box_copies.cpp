// SPDX-License-Identifier: Apache-2.0
#include <vram/data/core/box_copies.hpp> // first: the header stands alone

#include "../../doubles/at.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

using vram::detail::box_copies;
using vram::pitched_copy;

namespace box_copies_tests {

/// Copies any box and compares each element; elements outside the box must not change.
template <std::size_t N, class Element>
void round(std::mt19937& random) {
    auto const up_to = [&](std::size_t most) {
        return std::uniform_int_distribution<std::size_t>{0, most}(random);
    };
    std::size_t to_extent[N], from_extent[N], to_origin[N], from_origin[N], box[N];
    std::size_t to_all = 1, from_all = 1, elements = 1;
    for (std::size_t d = 0; d < N; ++d) {
        box[d]         = up_to(4);
        bool const all = up_to(2) == 0; // often the whole dimension, so that rows lie together
        to_origin[d]   = all ? 0 : up_to(3);
        from_origin[d] = all ? 0 : up_to(3);
        to_extent[d]   = to_origin[d] + box[d] + (all ? 0 : up_to(3));
        from_extent[d] = from_origin[d] + box[d] + (all ? 0 : up_to(3));
        to_all *= to_extent[d];
        from_all *= from_extent[d];
        elements *= box[d];
    }
    std::vector<Element> from(from_all), to(to_all, Element{0}), wanted(to_all, Element{0});
    for (std::size_t i = 0; i < from_all; ++i) { from[i] = static_cast<Element>(i + 1); }
    std::size_t at[N] = {};
    for (std::size_t n = 0; n < elements; ++n) {
        std::size_t t = 0, f = 0;
        for (std::size_t d = 0; d < N; ++d) {
            t = t * to_extent[d] + to_origin[d] + at[d];
            f = f * from_extent[d] + from_origin[d] + at[d];
        }
        wanted[t] = from[f];
        for (std::size_t d = N; d-- > 0 && ++at[d] == box[d];) { at[d] = 0; }
    }
    std::size_t copies = 0, bytes = 0;
    box_copies<N>(to.data(), {to_extent, to_origin}, from.data(), {from_extent, from_origin}, box,
                  sizeof(Element), [&](pitched_copy const& c) {
                      REQUIRE(c.to_pitch >= c.width);
                      REQUIRE(c.from_pitch >= c.width);
                      REQUIRE(c.to_slice % c.to_pitch == 0); // CUDA wants whole rows
                      REQUIRE(c.from_slice % c.from_pitch == 0);
                      REQUIRE(c.to_slice >= c.to_pitch * c.height - (c.to_pitch - c.width));
                      bytes += c.width * c.height * c.depth;
                      ++copies;
                      vram::detail::copy_box(c);
                  });
    REQUIRE(to == wanted);
    REQUIRE(bytes == elements * sizeof(Element));
    if (elements == 0) {
        REQUIRE(copies == 0);
    } else if (N <= 3) {
        REQUIRE(copies == 1);
    } else {
        REQUIRE(copies <= box[0]);
    }
}

TEST_CASE("box_copies: a box arrives with one copy up to three dimensions, and other bytes do not "
          "change") {
    std::mt19937 random{3};
    for (int i = 0; i < 3000; ++i) {
        round<1, char>(random);
        round<1, double>(random);
        round<2, short>(random);
        round<2, char>(random);
        round<3, int>(random);
        round<3, short>(random);
        round<4, double>(random);
        round<4, int>(random);
    }
}

TEST_CASE("box_copies: contiguous dimensions are merged, so four may need one copy") {
    std::size_t const         extent[] = {5, 6, 7, 8}, zero[] = {0, 0, 0, 0}, box[] = {5, 2, 7, 8};
    std::size_t const         tight[] = {5, 2, 7, 8};
    std::vector<pitched_copy> all;
    auto const                keep = [&](pitched_copy const& c) { all.push_back(c); };
    box_copies<4>(doubles::at(4096), {tight, zero}, doubles::at(8192), {extent, zero}, box, 4,
                  keep);
    REQUIRE(all.size() == 1);
    CHECK(all[0].width == 2 * 7 * 8 * 4); // rows and slices are contiguous
    CHECK(all[0].height == 5);
    CHECK(all[0].from_pitch == 6 * 7 * 8 * 4);
    all.clear();
    box_copies<4>(doubles::at(4096), {extent, zero}, doubles::at(8192), {extent, zero}, extent, 4,
                  keep);
    REQUIRE(all.size() == 1);
    CHECK(all[0].width == 5 * 6 * 7 * 8 * 4); // the whole box is contiguous
    CHECK(all[0].height == 1);
    CHECK(all[0].depth == 1);
}

TEST_CASE("box_copies: rows that are too far apart for a pitch are copied one by one") {
    constexpr std::size_t     wide    = std::size_t{1} << 31; // bytes: one more than a pitch can be
    std::size_t const         large[] = {10, wide}, origin[] = {3, 5}, box[] = {4, 100};
    std::size_t const         zero[] = {0, 0};
    std::vector<pitched_copy> all;
    auto const                keep = [&](pitched_copy const& c) { all.push_back(c); };
    box_copies<2>(doubles::at(1 << 20), {box, zero}, doubles::at(1 << 30), {large, origin}, box, 1,
                  keep);
    REQUIRE(all.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
        CHECK(all[i].to == doubles::at((1 << 20) + i * 100));
        CHECK(all[i].from == doubles::at((1 << 30) + (3 + i) * wide + 5));
        CHECK(all[i].width == 100);
        CHECK(all[i].height == 1);
        CHECK(all[i].depth == 1);
    }
    all.clear();
    std::size_t const fits[] = {10, wide - 1};
    box_copies<2>(doubles::at(1 << 20), {box, zero}, doubles::at(1 << 30), {fits, origin}, box, 1,
                  keep);
    CHECK(all.size() == 1);
}

} // namespace box_copies_tests
