// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/page_book.hpp> // first: the header must stand alone

#include "../doubles/at.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

using vram::page_book;

namespace {
constexpr std::size_t    leaf = 4096;
constexpr std::uintptr_t near_base{0x100000}, far_base{0x900000};

void* address_of(std::uintptr_t at) { return reinterpret_cast<void*>(at); }
} // namespace

TEST_CASE("page_book: a chunk has memory everywhere, and what it is widened by has none") {
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

TEST_CASE(
    "page_book: a range touches the pages that it shares, and has to itself those it does not") {
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

TEST_CASE(
    "page_book: what moves leaves the first pages that had memory for the first that had none") {
    page_book book{leaf};
    book.add(address_of(near_base), 4 * leaf);
    book.widen(address_of(near_base), 4 * leaf);
    auto const front = book.touched(near_base, near_base + 4 * leaf);
    auto const back  = book.touched(near_base + 4 * leaf, near_base + 8 * leaf);
    book.move(front, back, 3 * leaf);
    CHECK(book.mapped(front) == leaf);
    CHECK(book.mapped(back) == 3 * leaf);
    CHECK(book.mapped({front.chunk, 3, 4}) == leaf); // the last of the front stayed
    CHECK(book.missing({back.chunk, 7, 8}) == leaf);
    CHECK(book.back(back, 1).first == 6); // the last is without
    CHECK(book.back(back, 2 * leaf).first == 5);
    CHECK(book.back(back, 9 * leaf).first == 4);
    book.set(front, true);
    CHECK(book.missing(front) == 0);
    book.set(front, false);
    CHECK(book.mapped(front) == 0);
}

TEST_CASE("page_book: a page that its memory left is one until it has some again") {
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
    book.set(front, false); // given back: out of use
    CHECK_FALSE(book.left(front));
    book.leave(book.touched(near_base, near_base + 8 * leaf));
    CHECK(book.left(front));
    CHECK_FALSE(book.left(back)); // which has memory
}

TEST_CASE("page_book: of the pages that are wanted, those with memory are given, run by run") {
    page_book book{leaf};
    book.add(address_of(near_base), 130 * leaf); // more than two words of bits
    auto const page = [](std::size_t i) { return address_of(near_base + i * leaf); };
    auto const all  = book.touched(near_base, near_base + 130 * leaf);
    book.set({all.chunk, 63, 66}, false);
    CHECK(book.missing(all) == 3 * leaf);
    CHECK_FALSE(book.wanted(all));
    for (std::size_t const i : {62, 63, 128}) { book.want(page(i), true); }
    book.want(address_of(far_base), true); // none of ours: nothing happens
    CHECK_FALSE(book.given(address_of(far_base)));
    CHECK(book.wanted({all.chunk, 0, 63}));
    CHECK_FALSE(book.wanted({all.chunk, 0, 62}));
    CHECK_FALSE(book.wanted({all.chunk, 63, 128})); // that one has no memory
    book.give({all.chunk, 60, 66});
    CHECK(book.given(page(62)));
    CHECK_FALSE(book.given(page(61)));
    CHECK_FALSE(book.given(page(63)));
    CHECK_FALSE(book.given(page(128)));
    book.give(all);
    CHECK(book.given(page(128)));
    book.want(page(62), false);
    CHECK_FALSE(book.given(page(62)));
    book.want(page(128), false);
    CHECK_FALSE(book.wanted(all));
}
