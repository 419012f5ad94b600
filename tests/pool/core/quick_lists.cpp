// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/quick_lists.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;

namespace {

block given_back(std::uintptr_t address, std::size_t bytes, std::uint32_t slot) {
    block b;
    b.address = address;
    b.bytes   = bytes;
    b.slot    = slot;
    return b;
}
void put(quick_lists& warm, block& b) { warm.put(&b, b.bytes, b.slot); }

} // namespace

TEST_CASE("quick_lists: the stream that freed a block gets it back, for its size and alignment") {
    quick_lists warm;
    block       b = given_back(0x1200, 512, 4);
    put(warm, b);
    CHECK(b.now == block::state::cached);
    CHECK(warm.take(5, 512, 256) == nullptr);
    CHECK(warm.take(8, 512, 256) == nullptr); // the same way as 4
    CHECK(warm.take(4, 256, 256) == nullptr);
    CHECK(warm.take(4, 512, 1024) == nullptr);
    CHECK(warm.take(4, 512, 512) == &b);
    CHECK(warm.take(4, 512, 512) == nullptr);
}

TEST_CASE("quick_lists: of blocks of one size, the last freed is the first reused") {
    quick_lists warm;
    block       first = given_back(0x1000, 512, 0), second = given_back(0x2000, 512, 0);
    put(warm, first);
    put(warm, second);
    CHECK(warm.take(0, 512, 256) == &second);
    CHECK(warm.take(0, 512, 256) == &first);
    CHECK(warm.take(0, 512, 256) == nullptr);
}

TEST_CASE("quick_lists: a block may be an eighth larger than the request, but less than 32 KiB") {
    quick_lists warm;
    block       b = given_back(0x100000, 9 * 1024, 0), c = given_back(0x200000, 1 << 20, 0);
    put(warm, b);
    put(warm, c);
    CHECK(warm.take(0, 8 * 1024 - 256, 256) == nullptr); // more than an eighth
    CHECK(warm.take(0, 9 * 1024 + 256, 256) == nullptr); // too small
    CHECK(warm.take(0, 8 * 1024, 256) == &b);
    CHECK(warm.take(0, (1 << 20) - 32 * 1024, 256) == nullptr);
    CHECK(warm.take(0, (1 << 20) - 28 * 1024, 256) == &c);
}

TEST_CASE("quick_lists: a block that is too small for its list does not hide the next") {
    quick_lists warm;
    block       low = given_back(0x100000, 64 * 1024, 0), high = given_back(0x200000, 66 * 1024, 0);
    put(warm, high);
    put(warm, low);
    CHECK(warm.take(0, 65 * 1024, 256) == &high); // 64 and 65 KiB have one list
    CHECK(warm.take(0, 65 * 1024, 256) == nullptr);
    CHECK(warm.take(0, 64 * 1024, 256) == &low);
}

TEST_CASE("quick_lists: an empty list is skipped, and used again") {
    quick_lists warm;
    block       low = given_back(0x100000, 66 * 1024, 0), high = given_back(0x200000, 68 * 1024, 0);
    for (int i = 0; i < 3; ++i) {
        put(warm, low);
        put(warm, high);
        CHECK(warm.take(0, 66 * 1024, 256) == &low); // and its list is empty
        CHECK(warm.take(0, 65 * 1024, 256) == &high);
        CHECK(warm.take(0, 65 * 1024, 256) == nullptr);
    }
    CHECK_FALSE(warm.drain(256, [](block*) {}));
    put(warm, low);
    CHECK(warm.drain(256, [&](block* b) { CHECK(b == &low); }));
}

TEST_CASE("quick_lists: memory that a capture used is not cached for its stream") {
    quick_lists warm;
    block       b = given_back(0x1000, 512, 0);
    put(warm, b);
    b.epoch = tag::captured;
    CHECK(warm.take(0, 512, 256) == nullptr);
}

TEST_CASE("quick_lists: a drain returns each block once, and a moved-from object has none") {
    quick_lists        warm;
    std::vector<block> all;
    for (std::size_t i = 1; i < 400; ++i) {
        std::size_t const bytes = i < 300 ? 256 * (i % 40 + 1) : std::size_t{1} << 20;
        all.push_back(given_back(0x200000 * i, bytes, static_cast<std::uint32_t>(i % 7)));
    }
    for (block& b : all) { put(warm, b); }
    quick_lists moved   = std::move(warm);
    std::size_t drained = 0;
    CHECK_FALSE(warm.drain(256, [&](block*) { ++drained; }));
    CHECK(moved.drain(256, [&](block*) { ++drained; }));
    CHECK(drained == all.size());
    CHECK_FALSE(moved.drain(256, [&](block*) { ++drained; }));
}

TEST_CASE("quick_lists: one large block is cached, and inserting another returns it") {
    quick_lists warm;
    block first = given_back(0x1000000, 2 << 20, 0), second = given_back(0x2000000, 4 << 20, 1);
    CHECK(warm.take_large() == nullptr);
    CHECK(warm.put_large(&first) == nullptr);
    CHECK(first.now == block::state::cached);
    CHECK(warm.put_large(&second) == &first);
    quick_lists moved = std::move(warm);
    CHECK(warm.take_large() == nullptr);
    CHECK(moved.take_large() == &second);
    CHECK(moved.take_large() == nullptr);
    CHECK_FALSE(moved.has_large());
    CHECK(moved.put_large(&first) == nullptr);
    CHECK_FALSE(moved.drain(256, [](block*) {})); // a drain of small blocks leaves it
    CHECK(moved.has_large());
    CHECK(moved.take_large() == &first);
}

TEST_CASE("quick_lists: a block among smaller ones is taken with its own size") {
    quick_lists warm;
    block       b = given_back(0x100000, 9 * 1024, 0);
    warm.put(&b, 8 * 1024, 0);
    CHECK(warm.take(0, 9 * 1024, 256) == nullptr);
    CHECK(warm.take(0, 8 * 1024 - 256, 256) == nullptr); // more than an eighth
    CHECK(warm.take(0, 8 * 1024, 256) == &b);
}

TEST_CASE("quick_lists: a drain from a size on leaves smaller blocks cached") {
    quick_lists warm;
    block       small = given_back(0x100000, 4096, 0),
          large       = given_back(0x200000, quick_lists::bulky, 0),
          other       = given_back(0x300000, 1 << 20, 3);
    for (block* b : {&small, &large, &other}) { put(warm, *b); }
    std::vector<block*> came;
    CHECK(warm.drain(quick_lists::bulky, [&](block* b) { came.push_back(b); }));
    CHECK(came == std::vector<block*>{&large, &other});
    CHECK_FALSE(warm.drain(quick_lists::bulky, [&](block* b) { came.push_back(b); }));
    CHECK(warm.take(0, 4096, 256) == &small);
}

TEST_CASE("quick_lists: within its list a block may also be larger than the request") {
    quick_lists warm;
    block       b = given_back(0x100000, 65 * 1024 + 512, 0);
    put(warm, b);
    CHECK(warm.take(0, 64 * 1024 + 512, 256) == &b);
}

TEST_CASE("quick_lists: a lookup that fails, or that takes another block, loses nothing") {
    quick_lists warm;
    block low = given_back(0x100000, 64 * 1024, 0), first = given_back(0x200000, 67 * 1024, 0),
          second = given_back(0x300000, 67 * 1024, 0);
    for (block* b : {&low, &first, &second}) { put(warm, *b); }
    CHECK(warm.take(0, 65 * 1024, 256) == &second); // `low` is too small
    std::vector<block*> came;
    CHECK(warm.drain(256, [&](block* b) { came.push_back(b); }));
    CHECK(came == std::vector<block*>{&low, &first});
}

TEST_CASE("quick_lists: a larger block too is only for its stream and alignment") {
    quick_lists warm;
    block       b = given_back(0x100200, 9 * 1024, 4);
    put(warm, b);
    CHECK(warm.take(8, 8 * 1024, 256) == nullptr); // the same way as 4
    CHECK(warm.take(4, 8 * 1024, 1024) == nullptr);
    CHECK(warm.take(4, 8 * 1024, 512) == &b);
}
