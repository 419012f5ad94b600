// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/warm_blocks.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <utility>
#include <vector>

using namespace vram;

namespace {

block given_back(std::uintptr_t address, std::size_t bytes, std::uint32_t slot) {
    block b;
    b.address = address;
    b.bytes   = bytes;
    b.slot    = slot;
    return b;
}

} // namespace

TEST_CASE("warm_blocks: the stream that gave a block has it back, for its size and an alignment") {
    warm_blocks warm;
    block       b = given_back(0x1200, 512, 4);
    CHECK(warm.put(&b) == nullptr);
    CHECK(b.now == block::state::resting);
    CHECK(warm.take(5, 512, 256) == nullptr);
    CHECK(warm.take(4, 256, 256) == nullptr);
    CHECK(warm.take(4, 512, 1024) == nullptr);
    CHECK(warm.take(4, 512, 512) == &b);
    CHECK(warm.take(4, 512, 512) == nullptr);
}

TEST_CASE("warm_blocks: the later of two blocks of one size stays, and the earlier goes") {
    warm_blocks warm;
    block       first = given_back(0x1000, 512, 0), second = given_back(0x2000, 512, 0);
    CHECK(warm.put(&first) == nullptr);
    CHECK(warm.put(&second) == &first);
    CHECK(warm.take(0, 512, 256) == &second);
}

TEST_CASE("warm_blocks: what a capture used does not rest for its stream") {
    warm_blocks warm;
    block       b = given_back(0x1000, 512, 0);
    CHECK(warm.put(&b) == nullptr);
    b.epoch = tag::captured;
    CHECK(warm.take(0, 512, 256) == nullptr);
}

TEST_CASE("warm_blocks: drained, all of them come once, and moved from, none") {
    warm_blocks        warm;
    std::vector<block> all;
    for (std::size_t i = 1; i < 40; ++i) {
        all.push_back(given_back(0x1000 * i, 256 * i, static_cast<std::uint32_t>(i % 3)));
    }
    std::size_t displaced = 0;
    for (block& b : all) { displaced += warm.put(&b) != nullptr; }
    warm_blocks moved   = std::move(warm);
    std::size_t drained = 0;
    CHECK_FALSE(warm.drain([&](block*) { ++drained; }));
    CHECK(moved.drain([&](block*) { ++drained; }));
    CHECK_FALSE(moved.drain([&](block*) { ++drained; }));
    CHECK(drained + displaced == all.size());
}
