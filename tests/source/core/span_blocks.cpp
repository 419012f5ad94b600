// SPDX-License-Identifier: Apache-2.0
#include <vram/source/core/span_blocks.hpp> // first: the header stands alone

#include "../../doubles/at.hpp"

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;
using doubles::at;

namespace {

constexpr std::uintptr_t span_base = 1 << 20;

/// A span of `pages` pages of 100 bytes, which is no power of two on purpose.
span_blocks hundreds(std::size_t pages) { return {doubles::at(span_base), 100, pages}; }

span_blocks::block put_block(span_blocks& blocks, std::size_t bytes, std::size_t alignment = 1) {
    auto const b = blocks.place(bytes, alignment);
    REQUIRE_FALSE(b.empty());
    blocks.insert(b);
    return b;
}

} // namespace

TEST_CASE(
    "span_blocks: the first block is at the front, the second at half, the third between them") {
    auto       blocks = hundreds(16);
    auto const first  = put_block(blocks, 150);
    CHECK(first.address == span_base);
    CHECK(first.first == 0);
    CHECK(first.last == 2);
    auto const second = put_block(blocks, 100);
    CHECK(second.first == 9); // the middle of [2, 16)
    CHECK(second.pages() == 1);
    auto const third = put_block(blocks, 1);
    CHECK(third.first == 5); // the middle of [2, 9)
    CHECK_FALSE(blocks.empty());
}

TEST_CASE("span_blocks: a block that is too large for half a gap gets the best fit") {
    auto blocks = hundreds(16);
    put_block(blocks, 200);                    // [0, 2)
    put_block(blocks, 100);                    // [9, 10)
    auto const large = put_block(blocks, 600); // [10, 16) fits exactly, [2, 9) has seven
    CHECK(large.first == 10);
    CHECK(put_block(blocks, 700).first == 2);
    CHECK(blocks.place(1, 1).empty());
}

TEST_CASE("span_blocks: any alignment is met, at the front of a page") {
    auto blocks = hundreds(200'000);
    for (std::size_t const alignment : {1, 4, 64, 4096, 8192, 65'536}) {
        auto const b = put_block(blocks, 1010, alignment);
        CHECK(b.address % alignment == 0);
        CHECK(b.address == span_base + b.first * 100);
        CHECK(b.pages() == 11);
    }
    CHECK(blocks.place(1, std::size_t{1} << 62).empty());
}

TEST_CASE("span_blocks: sizes larger than the span are refused, also those that overflow") {
    auto blocks = hundreds(16);
    CHECK(blocks.place(1601, 1).empty());
    CHECK_FALSE(blocks.place(1600, 1).empty());
    for (std::size_t const n : {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 100, SIZE_MAX / 2}) {
        CHECK(blocks.place(n, 1).empty());
        CHECK(blocks.place(n, 4096).empty());
    }
}

TEST_CASE("span_blocks: a block grows up to the next one, and no further") {
    auto       blocks = hundreds(16);
    auto const first  = put_block(blocks, 100);
    put_block(blocks, 100); // [8, 9)
    auto const more = blocks.resized(first, 800);
    CHECK(more.last == 8);
    CHECK(blocks.resized(first, 801).empty());
    CHECK(blocks.resized(first, SIZE_MAX).empty());
    blocks.replace(more);
    CHECK(blocks.at(at(span_base)).bytes == 800);
    CHECK(blocks.resized(more, 50).last == 1);
    auto const last = blocks.place(100, 1);
    blocks.insert(last);
    CHECK(blocks.resized(last, (16 - last.first) * 100).last == 16);
    CHECK(blocks.resized(last, (16 - last.first) * 100 + 1).empty());
}

TEST_CASE("span_blocks: a range owns a page if it covers the page, or all of it that is used") {
    auto       blocks = hundreds(16);
    auto const b      = put_block(blocks, 450, 8); // five pages, the last one half used
    REQUIRE(b.address == span_base);
    auto const first_last = [&](std::uintptr_t from, std::size_t n) {
        auto const r = blocks.whole(at(span_base + from), n);
        return std::pair{r.first, r.last};
    };
    CHECK(first_last(0, 450) == std::pair<std::size_t, std::size_t>{0, 5});
    CHECK(first_last(1, 449) == std::pair<std::size_t, std::size_t>{1, 5});
    CHECK(first_last(100, 349) == std::pair<std::size_t, std::size_t>{1, 4});
    CHECK(first_last(101, 198) == std::pair<std::size_t, std::size_t>{0, 0});
    CHECK(first_last(101, 299) == std::pair<std::size_t, std::size_t>{2, 4});
    CHECK(first_last(0, 0) == std::pair<std::size_t, std::size_t>{0, 0});
    CHECK(blocks.share(1, at(span_base + 150), 100) == 50);
    CHECK(blocks.share(2, at(span_base + 150), 100) == 50);
    CHECK(blocks.share(1, at(span_base + 50), 200) == 100);
}

TEST_CASE("span_blocks: blocks are found by their start, and by any of their pages") {
    auto       blocks = hundreds(16);
    auto const b      = put_block(blocks, 150);
    CHECK(blocks.at(at(span_base)).bytes == 150);
    CHECK(blocks.at(at(span_base + 1)).empty());
    CHECK(blocks.touched(at(span_base + 1), 199).pages() == 2); // the rest of its page too
    CHECK(blocks.touched(at(span_base + 1), 200).empty());
    CHECK(blocks.touched(at(span_base + 1), 0).empty());
    CHECK(blocks.touched(at(span_base - 1), 1).empty());
    CHECK(blocks.touched(at(span_base + 99), 1).first == 0);
    CHECK(blocks.touched(at(span_base + 100), 1).first == 1);
    CHECK(blocks.touched(at(span_base), SIZE_MAX).empty());
    std::size_t seen = 0;
    blocks.for_each([&](auto const& each) { seen += each.bytes; });
    CHECK(seen == 150);
    blocks.erase(b);
    CHECK(blocks.empty());
    CHECK(blocks.touched(at(span_base), 1).empty());
    CHECK(blocks.whole(at(span_base), 1).empty());
}
