// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/page_book.hpp> // first: the header must stand alone

#include "../../doubles/at.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

using vram::detail::page_book;

namespace {
constexpr std::size_t    leaf = 4096;
constexpr std::uintptr_t near_base{0x100000}, far_base{0x900000};

void* address_of(std::uintptr_t at) { return reinterpret_cast<void*>(at); }
} // namespace

TEST_CASE("page_book: a new chunk is backed, and its extension is unbacked") {
    page_book book{leaf};
    book.add(address_of(far_base), 2 * leaf);
    book.add(address_of(near_base), 4 * leaf);
    book.widen(address_of(near_base), 3 * leaf);
    auto const all = book.touched(near_base, near_base + 7 * leaf);
    CHECK(book.address(all) == address_of(near_base));
    CHECK(book.bytes(all) == 7 * leaf);
    CHECK(book.mapped(all) == 4 * leaf);
    CHECK(book.missing(all) == 3 * leaf);
    CHECK(book.missing(book.touched(far_base, far_base + 2 * leaf)) == 0);
    CHECK(book.remove(address_of(near_base)) == 4 * leaf);
    CHECK(book.remove(address_of(near_base)) == 0);
    CHECK(book.remove(address_of(far_base)) == 2 * leaf);
}

TEST_CASE("page_book: a range touches the pages that it shares, and owns the others") {
    page_book book{leaf};
    book.add(address_of(near_base), 8 * leaf);
    auto const touched = book.touched(near_base + 1, near_base + 2 * leaf + 1);
    CHECK(touched.first == 0);
    CHECK(touched.last == 3);
    auto const own = book.whole(near_base + 1, near_base + 2 * leaf + 1);
    CHECK(own.first == 1);
    CHECK(own.last == 2);
    CHECK(book.bytes(book.whole(near_base + 1, near_base + leaf + 1)) == 0);
    CHECK(book.bytes(book.whole(near_base + 1, near_base + 2)) == 0);
}

TEST_CASE("page_book: a move goes from the first backed pages to the first unbacked ones") {
    page_book book{leaf};
    book.add(address_of(near_base), 4 * leaf);
    book.widen(address_of(near_base), 4 * leaf);
    auto const front = book.touched(near_base, near_base + 4 * leaf);
    auto const back  = book.touched(near_base + 4 * leaf, near_base + 8 * leaf);
    book.move(front, back, 3 * leaf);
    CHECK(book.mapped(front) == leaf);
    CHECK(book.mapped(back) == 3 * leaf);
    CHECK(book.mapped({front.chunk, 3, 4}) == leaf); // the last page of the front still has memory
    CHECK(book.missing({back.chunk, 7, 8}) == leaf);
    CHECK(book.back(back, 1).first == 6); // the last page has none
    CHECK(book.back(back, 2 * leaf).first == 5);
    CHECK(book.back(back, 9 * leaf).first == 4);
    book.set(front, true);
    CHECK(book.missing(front) == 0);
    book.set(front, false);
    CHECK(book.mapped(front) == 0);
}

TEST_CASE("page_book: backed bytes are counted, not only whole pages") {
    page_book book{leaf};
    book.add(address_of(near_base), 6 * leaf);
    book.set(book.touched(near_base + 2 * leaf, near_base + 4 * leaf), false);
    auto const behind = [&](std::size_t from, std::size_t to) {
        return book.behind(near_base + from, near_base + to);
    };
    CHECK(behind(leaf / 2, leaf) == leaf / 2);
    CHECK(behind(leaf / 2, leaf / 2 + 1) == 1);
    CHECK(behind(leaf / 2, 3 * leaf) == leaf + leaf / 2);
    CHECK(behind(leaf / 2, 4 * leaf + leaf / 2) == 2 * leaf);
    CHECK(behind(2 * leaf + 1, 4 * leaf - 1) == 0);
    CHECK(behind(2 * leaf + 1, 4 * leaf + 1) == 1);
    CHECK(behind(2 * leaf - 1, 3 * leaf - 1) == 1);
    CHECK(behind(0, 6 * leaf) == 4 * leaf);
}

TEST_CASE("page_book: runs of any length move page by page, in order") {
    std::mt19937_64 random{7};
    for (int turn = 0; turn != 200; ++turn) {
        constexpr std::size_t pages = 150;
        page_book             book{leaf};
        book.add(address_of(near_base), pages * leaf);
        book.add(address_of(far_base), pages * leaf);
        std::vector<bool> full[2]; // the model
        for (std::size_t c : {0, 1}) {
            std::uint64_t const rows = 1 + random() % 80;
            bool                now  = c == 0;
            for (std::size_t i = 0; i != pages; ++i) {
                if (random() % rows == 0) { now = !now; }
                full[c].push_back(now);
                if (!now) { book.set({c, i, i + 1}, false); }
            }
        }
        std::size_t const first[2] = {random() % 70, random() % 70};
        std::size_t const last[2]  = {first[0] + random() % 80, first[1] + random() % 80};
        std::size_t const has      = book.mapped({0, first[0], last[0]}) / leaf;
        std::size_t const lack     = book.missing({1, first[1], last[1]}) / leaf;
        std::size_t const both     = has < lack ? has : lack;
        std::size_t const n        = both == 0 ? 0 : random() % (both + 1);
        book.move({0, first[0], last[0]}, {1, first[1], last[1]}, n * leaf);

        std::size_t from = first[0], to = first[1];
        for (std::size_t i = 0; i != n; ++i) {
            while (!full[0][from]) { ++from; }
            while (full[1][to]) { ++to; }
            full[0][from] = false;
            full[1][to]   = true;
            CHECK(book.source_of({0, from}, {}).where == vram::detail::page_place{1, to});
            CHECK(book.left({0, from, from + 1}));
        }
        CHECK(book.shared() == 2 * n);
        for (std::size_t c : {0, 1}) {
            for (std::size_t i = 0; i != pages; ++i) { CHECK(book.has({c, i}) == full[c][i]); }
        }
    }
}

TEST_CASE("page_book: a page without its memory is unbacked until it has memory again") {
    page_book book{leaf};
    book.add(address_of(near_base), 4 * leaf);
    book.widen(address_of(near_base), 4 * leaf);
    auto const front = book.touched(near_base, near_base + 4 * leaf);
    auto const back  = book.touched(near_base + 4 * leaf, near_base + 8 * leaf);
    CHECK_FALSE(book.left(front));
    CHECK_FALSE(book.left(back)); // it never had any
    book.move(front, back, 2 * leaf);
    CHECK(book.left(front));
    CHECK_FALSE(book.left(book.touched(near_base + 2 * leaf, near_base + 4 * leaf)));
    CHECK_FALSE(book.left(back));
    book.move(back, front, 2 * leaf);
    CHECK_FALSE(book.left(front));
    CHECK(book.left(back));
    book.set(back, true);
    CHECK_FALSE(book.left(back));
    book.set(front, false); // freed
    CHECK_FALSE(book.left(front));
    for (std::size_t i = 0; i != 8; ++i) { book.look({front.chunk, i}, i >= 4); }
    CHECK(book.left(front)); // pages without memory: it may have moved anywhere
    CHECK_FALSE(book.left(back));
    CHECK(book.fresh(front) == 0);
}

TEST_CASE("page_book: memory that left a page is found at its present page while it is unchanged") {
    page_book book{leaf};
    book.add(address_of(near_base), 4 * leaf);
    book.widen(address_of(near_base), 4 * leaf);
    book.add(address_of(far_base), 2 * leaf);
    auto const front = book.touched(near_base, near_base + 4 * leaf);
    auto const back  = book.touched(near_base + 4 * leaf, near_base + 8 * leaf);
    auto const found = [&](std::size_t i) { return book.source_of({front.chunk, i}, {}); };
    CHECK(book.shared() == 0);
    CHECK(book.fresh(back) == 4 * leaf);
    book.move({front.chunk, 0, 2}, {back.chunk, 4, 6}, 2 * leaf);
    CHECK(book.shared() == 4);
    CHECK(book.fresh(front) == 0);
    CHECK(book.fresh(back) == 2 * leaf);
    CHECK(found(0).known);
    CHECK(found(0).where == vram::detail::page_place{back.chunk, 4});
    CHECK(found(1).where == vram::detail::page_place{back.chunk, 5});
    CHECK_FALSE(found(2).known); // that page has memory of its own
    // Two pages of the run had the same memory.
    CHECK_FALSE(book.source_of({front.chunk, 0}, {front.chunk, 0, 5}).known);
    CHECK(book.source_of({front.chunk, 0}, {front.chunk, 0, 4}).known);
    book.move({back.chunk, 4, 5}, {back.chunk, 6, 7}, leaf); // and on, to a third
    CHECK(found(0).where == vram::detail::page_place{back.chunk, 6});
    CHECK(book.source_of({back.chunk, 4}, {}).where == vram::detail::page_place{back.chunk, 6});
    book.move({back.chunk, 6, 7}, {front.chunk, 0, 1}, leaf); // home again
    CHECK_FALSE(found(0).known);
    CHECK(book.source_of({back.chunk, 4}, {}).where == vram::detail::page_place{front.chunk, 0});
    book.set({back.chunk, 4, 5}, true); // new memory
    CHECK_FALSE(book.source_of({back.chunk, 4}, {}).known);
    CHECK(book.source_of({back.chunk, 6}, {}).where == vram::detail::page_place{front.chunk, 0});
    book.set({front.chunk, 0, 1}, false); // the memory was returned to the device
    CHECK_FALSE(book.source_of({back.chunk, 6}, {}).known);
    CHECK(book.fresh({back.chunk, 6, 7}) == leaf); // nothing can return
    CHECK(book.shared() == 2);

    book.find({front.chunk, 0}, address_of(far_base));
    book.find({front.chunk, 3}, address_of(far_base - leaf)); // not in a chunk: nothing changes
    book.look({front.chunk, 0}, false);
    CHECK(found(0).where == vram::detail::page_place{1, 0});
    CHECK(book.remove(address_of(near_base)) == 4 * leaf); // the other chunk gets its number
    CHECK(book.shared() == 0);
    CHECK(book.has({0, 0}));
}

TEST_CASE("page_book: alias rings survive a change of the chunk's number") {
    page_book book{leaf};
    book.add(address_of(near_base), 2 * leaf);
    book.add(address_of(far_base), 2 * leaf);
    book.widen(address_of(far_base), 2 * leaf);
    book.move({1, 0, 2}, {1, 2, 4}, 2 * leaf);
    CHECK(book.remove(address_of(near_base)) == 2 * leaf);
    CHECK(book.source_of({0, 0}, {}).where == vram::detail::page_place{0, 2});
    CHECK(book.source_of({0, 1}, {}).where == vram::detail::page_place{0, 3});
    page_book other{std::move(book)};
    CHECK(other.shared() == 4);
    CHECK(book.shared() == 0); // NOLINT(bugprone-use-after-move): it is as new
    CHECK(other.remove(address_of(far_base)) == 2 * leaf);
    CHECK(other.shared() == 0);
}

TEST_CASE("page_book: unbacked pages are visited from the last, until enough are found") {
    page_book book{leaf};
    book.add(address_of(near_base), 200 * leaf);
    for (std::size_t const i : {3, 63, 64, 130}) { book.set({0, i, i + 1}, false); }
    book.look({0, 64}, false);
    std::vector<std::size_t> met;
    auto const               note = [&](vram::detail::page_place const& p, bool left) {
        CHECK(left == (p.page == 64));
        met.push_back(p.page);
        return met.size() != 3;
    };
    book.for_each_missing({0, 0, 200}, note);
    CHECK(met == std::vector<std::size_t>{130, 64, 63});
    met.clear();
    book.for_each_missing({0, 0, 200}, [&](vram::detail::page_place const& p, bool) {
        met.push_back(p.page);
        return false;
    });
    CHECK(met == std::vector<std::size_t>{130});
    met.clear();
    book.for_each_missing({0, 3, 64}, note);
    CHECK(met == std::vector<std::size_t>{63, 3});
    met.clear();
    book.for_each_missing({0, 4, 63}, note);
    CHECK(met.empty());
    CHECK(book.complete(near_base + 4 * leaf, near_base + 63 * leaf));
    CHECK_FALSE(book.complete(near_base + 4 * leaf, near_base + 63 * leaf + 1));
    CHECK(book.complete(near_base + 65 * leaf, near_base + 130 * leaf));
}

TEST_CASE("page_book: a page that is offered stays so until it is withdrawn") {
    page_book book{3 * leaf}; // no power of two
    book.add(address_of(near_base), 12 * leaf);
    book.set({0, 1, 2}, false);
    book.offer({0, 0, 2});
    CHECK(book.offered({0, 0}));
    CHECK_FALSE(book.offered({0, 1})); // it has nothing
    CHECK_FALSE(book.offered({0, 2}));
    book.withdraw();
    CHECK_FALSE(book.offered({0, 0}));
    CHECK(book.touched(near_base + 3 * leaf, near_base + 6 * leaf + 1).last == 3);
}

TEST_CASE("page_book: of the wanted pages, backed ones are given run by run") {
    page_book book{leaf};
    book.add(address_of(near_base), 130 * leaf); // more than two words of bits
    auto const all   = book.touched(near_base, near_base + 130 * leaf);
    auto const page  = [&](std::size_t i) { return page_book::run{all.chunk, i, i + 1}; };
    auto const place = [&](std::size_t i) { return vram::detail::page_place{all.chunk, i}; };
    book.set({all.chunk, 63, 66}, false);
    CHECK(book.missing(all) == 3 * leaf);
    CHECK_FALSE(book.wanted(all));
    for (std::size_t const i : {62, 63, 128}) { book.want(page(i), true); }
    CHECK(book.wanted({all.chunk, 0, 63}));
    CHECK_FALSE(book.wanted({all.chunk, 0, 62}));
    CHECK_FALSE(book.wanted({all.chunk, 63, 128})); // that one has no memory
    book.give({all.chunk, 60, 66});
    CHECK(book.given(place(62)));
    CHECK_FALSE(book.given(place(61)));
    CHECK_FALSE(book.given(place(63)));
    CHECK_FALSE(book.given(place(128)));
    CHECK(book.given_first({all.chunk, 62, 130}) == leaf);
    CHECK(book.given_first({all.chunk, 61, 130}) == 0);
    book.give(all);
    CHECK(book.given(place(128)));
    book.want({all.chunk, 66, 130}, true);
    book.give({all.chunk, 66, 129});
    CHECK(book.given_first({all.chunk, 66, 130}) == 63 * leaf); // over the end of a word
    CHECK(book.given_first({all.chunk, 66, 100}) == 34 * leaf);
    CHECK(book.given_first({all.chunk, 70, 128}) == 58 * leaf); // up to the end of one
    CHECK(book.given_first({all.chunk, 128, 128}) == 0);
    book.want({all.chunk, 66, 130}, false);
    book.want(page(128), true);
    book.give(all);
    book.want(page(62), false);
    CHECK_FALSE(book.given(place(62)));
    book.want(page(128), false);
    CHECK_FALSE(book.wanted(all));
}
