// SPDX-License-Identifier: Apache-2.0
#include <vram/source/core/page_pieces.hpp> // first: the header stands alone

#include "../../doubles/bombing.hpp"
#include "../../doubles/contracts_throw.hpp"

#include <doctest/doctest.h>

#include <algorithm> // count, find
#include <array>
#include <cstddef>
#include <random> // minstd_rand
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;

template class vram::detail::page_pieces<int>;

namespace {

using int_pieces = page_pieces<int>;

constexpr auto nowhere = int_pieces::nowhere;

int_pieces::number piece_made(int_pieces& all, int memory) {
    all.reserve();
    return all.add(memory);
}

/// Returns all pages with a stale mapping of a piece, and forgets these.
std::vector<int_pieces::number> pages_in_vain(int_pieces& all, int_pieces::number k) {
    std::vector<int_pieces::number> found;
    while (all.stale_page(k) != nowhere) {
        found.push_back(all.stale_page(k));
        all.unmap(found.back());
    }
    return found;
}

} // namespace

TEST_CASE("page_pieces: a piece is spare until a page gets it, and again after the page loses it") {
    int_pieces all{4};
    CHECK(all.pages() == 4);
    auto const k = piece_made(all, 70);
    CHECK(all.memory(k) == 70);
    CHECK(all.spares() == 1);
    CHECK(all.spare_at(0) == k);
    CHECK(all.piece(2) == nowhere);
    all.map(2, k);
    CHECK(all.piece(2) == k);
    CHECK_FALSE(all.has(2)); // a stale mapping
    CHECK_FALSE(all.granted(2));
    CHECK(all.stale_page(k) == 2);
    all.grant(2);
    all.attach(2);
    CHECK(all.has(2));
    CHECK(all.granted(2));
    CHECK(all.stale_page(k) == nowhere);
    CHECK(all.spares() == 0);
    CHECK(all.held() == 1);
    all.detach(2);
    CHECK_FALSE(all.has(2));
    CHECK(all.piece(2) == k); // still mapped to it
    CHECK(all.granted(2));
    CHECK(all.current_owner(2) == nowhere); // no page has it
    CHECK(all.spares() == 1);
    all.unmap(2);
    CHECK(all.piece(2) == nowhere);
    CHECK_FALSE(all.granted(2));
    all.remove(k);
    CHECK(all.held() == 0);
    CHECK(all.spares() == 0);
}

TEST_CASE(
    "page_pieces: a piece moves from page to page, and its earlier pages know the present one") {
    int_pieces all{8};
    auto const k = piece_made(all, 1);
    for (int_pieces::number i : {5U, 1U, 3U}) {
        all.map(i, k);
        all.attach(i);
    }
    CHECK(all.has(3));
    CHECK_FALSE(all.has(5));
    CHECK(all.current_owner(5) == 3);
    CHECK(all.current_owner(1) == 3);
    CHECK(all.current_owner(3) == nowhere);
    CHECK(all.current_owner(0) == nowhere); // mapped to nothing
    all.attach(5);                          // the piece is mapped again without a call
    CHECK(all.has(5));
    CHECK(all.current_owner(3) == 5);
    CHECK(all.current_owner(1) == 5);
    CHECK(all.spares() == 0);
    all.unmap(1);
    CHECK(pages_in_vain(all, k) == std::vector<int_pieces::number>{3});
}

TEST_CASE("page_pieces: the number of a removed piece is reused") {
    int_pieces all{2};
    auto const a = piece_made(all, 1), b = piece_made(all, 2), c = piece_made(all, 3);
    CHECK(all.spares() == 3);
    all.remove(a); // removes one from the middle of the list
    CHECK(all.spares() == 2);
    CHECK(all.held() == 2);
    CHECK((all.spare_at(0) == b || all.spare_at(1) == b));
    CHECK((all.spare_at(0) == c || all.spare_at(1) == c));
    CHECK(piece_made(all, 4) == a);
    CHECK(all.memory(a) == 4);
    CHECK(all.stale_page(a) == nowhere);
}

TEST_CASE("page_pieces: a range with more pages than numbers is refused") {
    doubles::contracts_throw const throwing;
    CHECK_THROWS_AS(int_pieces{std::size_t{nowhere}}, doubles::broken_contract);
}

TEST_CASE("page_pieces: a move leaves nothing behind") {
    int_pieces first{3};
    auto const k = piece_made(first, 9);
    first.map(0, k);
    int_pieces const second{std::move(first)};
    CHECK(first.pages() == 0);
    CHECK(first.held() == 0);
    CHECK(first.spares() == 0);
    CHECK(second.pages() == 3);
    CHECK(second.memory(second.spare_at(0)) == 9);
    CHECK(second.stale_page(k) == 0);
}

TEST_CASE(
    "page_pieces: after `reserve` a piece can be added, spared and removed without host memory") {
    for (std::uint64_t n = 1, hit = 1; hit != 0; ++n) {
        int_pieces       all{4};
        std::size_t      made = 0;
        doubles::bombing armed{n};
        try {
            for (; made < 40; ++made) { piece_made(all, static_cast<int>(made)); }
        } catch (std::bad_alloc const&) {}
        hit = armed.defuse() ? 1 : 0;
        CHECK(all.held() == made);
        CHECK(all.spares() == made);
        std::uint64_t const before = doubles::host_allocations();
        while (all.spares() != 0) { all.remove(all.spare_at(all.spares() / 2)); }
        CHECK(doubles::host_allocations() == before);
        CHECK(all.held() == 0);
        CHECK(piece_made(all, 5) < 64);
    }
}

TEST_CASE("page_pieces: it agrees with a plain list after random operations") {
    constexpr int_pieces::number          pages = 8;
    std::minstd_rand                      random{3};
    int_pieces                            all{pages};
    std::vector<int_pieces::number>       alive;            // pieces
    std::array<int_pieces::number, pages> mapped, owner_of; // by page; by page the piece it has
    mapped.fill(nowhere);
    owner_of.fill(nowhere);
    auto const owner = [&](int_pieces::number k) {
        auto const found = std::find(owner_of.begin(), owner_of.end(), k);
        return found == owner_of.end() ? nowhere
                                       : static_cast<int_pieces::number>(found - owner_of.begin());
    };
    for (int step = 0; step < 3000; ++step) {
        auto const i = static_cast<int_pieces::number>(random() % pages);
        switch (random() % 6) {
        case 0:
            if (alive.size() < 12) { alive.push_back(piece_made(all, step)); }
            break;
        case 1:
            if (alive.empty() || mapped[i] != nowhere) { break; }
            mapped[i] = alive[random() % alive.size()];
            all.map(i, mapped[i]);
            break;
        case 2:
            if (mapped[i] == nowhere || owner_of[i] != nowhere) { break; }
            if (auto const other = owner(mapped[i]); other != nowhere) {
                owner_of[other] = nowhere;
            }
            owner_of[i] = mapped[i];
            all.attach(i);
            break;
        case 3:
            if (owner_of[i] == nowhere) { break; }
            owner_of[i] = nowhere;
            all.detach(i);
            break;
        case 4:
            if (mapped[i] == nowhere || owner_of[i] != nowhere) { break; }
            mapped[i] = nowhere;
            all.unmap(i);
            break;
        default: {
            if (alive.empty()) { break; }
            auto const k = alive[random() % alive.size()];
            if (std::count(mapped.begin(), mapped.end(), k) != 0) { break; }
            std::erase(alive, k);
            all.remove(k);
        }
        }
        std::size_t spares = 0;
        for (auto const k : alive) { spares += owner(k) == nowhere ? 1 : 0; }
        REQUIRE(all.held() == alive.size());
        REQUIRE(all.spares() == spares);
        for (std::size_t k = 0; k < spares; ++k) { // each is there once
            REQUIRE(owner(all.spare_at(k)) == nowhere);
            REQUIRE(std::count(alive.begin(), alive.end(), all.spare_at(k)) == 1);
            for (std::size_t j = 0; j < k; ++j) { REQUIRE(all.spare_at(j) != all.spare_at(k)); }
        }
        for (int_pieces::number p = 0; p < pages; ++p) {
            REQUIRE(all.piece(p) == mapped[p]);
            REQUIRE(all.has(p) == (owner_of[p] != nowhere));
            bool const elsewhere = mapped[p] != nowhere && owner_of[p] == nowhere;
            REQUIRE(all.current_owner(p) == (elsewhere ? owner(mapped[p]) : nowhere));
        }
        for (auto const k : alive) {
            auto const those = std::count(mapped.begin(), mapped.end(), k);
            auto const p     = all.stale_page(k);
            REQUIRE((p == nowhere) == (those == (owner(k) == nowhere ? 0 : 1)));
            if (p != nowhere) { REQUIRE((all.piece(p) == k && !all.has(p))); }
        }
    }
}
