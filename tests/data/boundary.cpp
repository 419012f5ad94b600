// SPDX-License-Identifier: Apache-2.0
#include <vram/data/boundary.hpp> // first: the header stands alone

#include "volumes.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

using vram::boundary;

namespace boundary_tests {

constexpr boundary all[] = {boundary::clip,      boundary::edge, boundary::mirror,
                            boundary::symmetric, boundary::wrap, boundary::constant};

/// `abcd` with `n` more at each side.
std::string around(boundary how, std::ptrdiff_t n) {
    std::string text;
    for (std::ptrdiff_t at = -n; at < 4 + n; ++at) {
        std::size_t const place = vram::boundary_place(how, at, 4);
        text += place == vram::nowhere ? 'x' : static_cast<char>('a' + place);
    }
    return text;
}

TEST_CASE("boundary: each border continues a row as its name says") {
    CHECK(around(boundary::clip, 2) == "xxabcdxx");
    CHECK(around(boundary::constant, 2) == "xxabcdxx");
    CHECK(around(boundary::edge, 5) == "aaaaaabcdddddd");
    CHECK(around(boundary::mirror, 4) == "cdcbabcdcbab");
    CHECK(around(boundary::symmetric, 4) == "dcbaabcddcba");
    CHECK(around(boundary::wrap, 5) == "dabcdabcdabcda");
}

TEST_CASE("boundary: a border of any width equals one that is built step by step") {
    for (boundary const how : all) {
        for (std::size_t extent = 1; extent < 7; ++extent) {
            for (std::ptrdiff_t at = -40; at < 40; ++at) {
                auto const wanted = volumes::walked(how, at, static_cast<std::ptrdiff_t>(extent));
                CAPTURE(static_cast<int>(how));
                CAPTURE(extent);
                CAPTURE(at);
                REQUIRE(vram::boundary_place(how, at, extent) == static_cast<std::size_t>(wanted));
            }
        }
    }
}

TEST_CASE("boundary: an empty row has nothing around it, and no position is too far") {
    using limits = std::numeric_limits<std::ptrdiff_t>;
    for (boundary const how : all) {
        CHECK(vram::boundary_place(how, 0, 0) == vram::nowhere);
        CHECK(vram::boundary_place(how, -3, 0) == vram::nowhere);
        for (std::ptrdiff_t const at : {limits::min(), limits::max()}) {
            std::size_t const place = vram::boundary_place(how, at, 1000);
            CHECK((place == vram::nowhere || place < 1000));
        }
    }
    CHECK(vram::boundary_place(boundary::wrap, limits::min(), 1024) == 0); // -2^63
}

TEST_CASE("boundary: runs are the contiguous pieces, each element once, in order") {
    for (boundary const how : all) {
        for (std::size_t extent = 1; extent < 6; ++extent) {
            for (std::ptrdiff_t begin = -9; begin < 9; ++begin) {
                for (std::size_t length = 0; length < 14; ++length) {
                    std::vector<std::ptrdiff_t> got(length, -1);
                    std::size_t                 runs = 0, next = 0;
                    vram::for_each_run(how, begin, length, extent,
                                       [&](std::size_t at, std::size_t place, std::size_t n) {
                                           REQUIRE(at >= next);
                                           REQUIRE(n > 0);
                                           next = at + n;
                                           REQUIRE(next <= length);
                                           for (std::size_t i = 0; i < n; ++i) {
                                               got[at + i] = static_cast<std::ptrdiff_t>(place + i);
                                           }
                                           ++runs;
                                       });
                    for (std::size_t i = 0; i < length; ++i) {
                        auto const at = begin + static_cast<std::ptrdiff_t>(i);
                        REQUIRE(got[i] ==
                                volumes::walked(how, at, static_cast<std::ptrdiff_t>(extent)));
                    }
                    bool const inside =
                        begin >= 0 && static_cast<std::size_t>(begin) + length <= extent;
                    if (inside && length != 0) { REQUIRE(runs == 1); }
                    if (how == boundary::clip) { REQUIRE(runs <= 1); }
                    if (how == boundary::wrap) { REQUIRE(runs <= 2 + length / extent); }
                }
            }
        }
    }
}

} // namespace boundary_tests
