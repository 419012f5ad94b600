// SPDX-License-Identifier: Apache-2.0
#include <vram/data/chunking.hpp> // first: the header stands alone

#include "../doubles/contracts_throw.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <vector>

using vram::chunking;
using vram::layout_error;

namespace chunking_tests {

/// The same division, computed step by step.
std::vector<chunking::piece> one_by_one(std::size_t total, std::size_t chunk,
                                        vram::chunking_options how) {
    std::vector<chunking::piece> all;
    for (std::size_t at = how.first; at < total;) {
        std::size_t const n = chunk < total - at ? chunk : total - at;
        if (n == chunk || !how.drop_partial) { all.push_back({at, n}); }
        if (at + n == total) { break; } // all is covered: nothing but overlap would be left
        at += n - how.overlap;
    }
    return all;
}

TEST_CASE("chunking: chunks are consecutive, overlap as requested, and cover everything") {
    chunking const cut{1000, 400, {.overlap = 100}};
    REQUIRE(cut.size() == 3);
    CHECK(cut[0] == chunking::piece{0, 400});
    CHECK(cut[1] == chunking::piece{300, 400});
    CHECK(cut[2] == chunking::piece{600, 400}); // and not one more, of overlap alone
    CHECK(cut.batch_bytes() == 400);
    chunking const longer{1001, 400, {.overlap = 100}};
    CHECK(longer.size() == 4);
    CHECK(longer[3] == chunking::piece{900, 101});
}

TEST_CASE("chunking: the chunks equal those of a step-by-step division") {
    std::mt19937 random{7};
    auto const   up_to = [&](std::size_t most) {
        return std::uniform_int_distribution<std::size_t>{0, most}(random);
    };
    for (int round = 0; round < 20000; ++round) {
        std::size_t const            total = up_to(60), chunk = 1 + up_to(20);
        vram::chunking_options const how{
            .first = up_to(30), .overlap = up_to(chunk - 1), .drop_partial = up_to(1) == 0};
        chunking const               cut{total, chunk, how};
        auto const                   all = one_by_one(total, chunk, how);
        std::vector<chunking::piece> got;
        std::size_t                  longest = 1;
        for (std::size_t i = 0; i < cut.size(); ++i) {
            got.push_back(cut[i]);
            longest = got.back().bytes > longest ? got.back().bytes : longest;
        }
        CAPTURE(total);
        CAPTURE(chunk);
        CAPTURE(how.overlap);
        REQUIRE(got == all);
        REQUIRE(cut.batch_bytes() >= longest);
        REQUIRE(cut.batch_bytes() <= chunk);
    }
}

TEST_CASE("chunking: zero bytes have no chunk, and less than a chunk has one") {
    CHECK(chunking{0, 10}.size() == 0);
    CHECK(chunking{0, 10}.batch_bytes() == 1);
    CHECK(chunking{5, 10, {.first = 5}}.size() == 0);
    CHECK(chunking{5, 10, {.first = 50}}.size() == 0);
    CHECK(chunking{5, 10}.size() == 1);
    CHECK(chunking{5, 10}.batch_bytes() == 5);
    CHECK(chunking{5, 10, {.drop_partial = true}}.size() == 0);
}

TEST_CASE("chunking: no size overflows it") {
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    CHECK(chunking{most, most}.size() == 1);
    chunking const single{most, 1};
    CHECK(single.size() == most);
    CHECK(single[most - 1] == chunking::piece{most - 1, 1});
    chunking const half{most, most / 2 + 2, {.overlap = most / 2}};
    CHECK(half[half.size() - 1].offset + half[half.size() - 1].bytes == most);
}

TEST_CASE("chunking: chunks of zero bytes, or of overlap only, are refused with their numbers") {
    using r           = layout_error::reason;
    auto const why_of = [](std::size_t chunk, std::size_t overlap) {
        try {
            chunking const cut{100, chunk, {.overlap = overlap}};
        } catch (layout_error const& e) { return e; }
        FAIL("nothing was thrown");
        return layout_error{r::empty};
    };
    CHECK(why_of(0, 0).why() == r::empty);
    for (std::size_t const overlap : {std::size_t{5}, std::size_t{6}}) {
        CHECK(why_of(5, overlap).why() == r::overlap);
        CHECK(why_of(5, overlap).value() == overlap);
        CHECK(why_of(5, overlap).limit() == 5);
    }
    doubles::contracts_throw const throws;
    CHECK_THROWS_AS((void)chunking(100, 10)[10], doubles::broken_contract);
}

} // namespace chunking_tests
