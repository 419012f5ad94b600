// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/block_chunks.hpp> // first: the header stands alone

#include "../../doubles/at.hpp"
#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

using namespace vram;
using namespace vram::detail;
using doubles::at;

namespace {

/// Two chunks: one of two blocks, and one of a single free one.
struct two_chunks {
    two_chunks() {
        set(blocks[0], 0x10000, 0x1000);
        set(blocks[1], 0x11000, 0x3000);
        set(blocks[2], 0x40000, 0x2000);
        blocks[0].after  = &blocks[1];
        blocks[1].before = &blocks[0];
        blocks[2].now    = block::state::free;
        chunks.reserve();
        chunks.add({.first = &blocks[0], .base = at(0x10000), .bytes = 0x4000, .alignment = 256});
        chunks.reserve();
        chunks.add({.first = &blocks[2], .base = at(0x40000), .bytes = 0x2000, .alignment = 256});
    }
    static void set(block& b, std::uintptr_t address, std::size_t bytes) {
        b.address = address;
        b.bytes   = bytes;
    }

    block        blocks[3];
    block_chunks chunks;
};

} // namespace

TEST_CASE("block_chunks: chunks are counted, and found by start and end") {
    two_chunks f;
    CHECK(f.chunks.size() == 2);
    CHECK(f.chunks.reserved() == 0x6000);
    CHECK(f.chunks.is_chunk(at(0x40000)));
    CHECK_FALSE(f.chunks.is_chunk(at(0x11000)));
    CHECK(f.chunks.at(at(0x40000)).first == &f.blocks[2]);
    CHECK(f.chunks.around(&f.blocks[1]).first == &f.blocks[0]);
    CHECK(f.chunks.around(&f.blocks[2]).end() == 0x42000);
}

TEST_CASE("block_chunks: an address belongs to a chunk from its first byte to its last") {
    two_chunks const f;
    CHECK(f.chunks.owns(at(0x10000)));
    CHECK(f.chunks.owns(at(0x13fff)));
    CHECK_FALSE(f.chunks.owns(at(0x14000)));
    CHECK_FALSE(f.chunks.owns(at(0xffff)));
    CHECK_FALSE(f.chunks.owns(nullptr));
    CHECK_FALSE(block_chunks{}.owns(nullptr));
}

TEST_CASE("block_chunks: a chunk is idle if it is one free block") {
    two_chunks f;
    CHECK_FALSE(f.chunks[0].idle());
    CHECK(f.chunks[1].idle());
    f.blocks[0].now = block::state::free;
    CHECK_FALSE(f.chunks[0].idle());
    f.blocks[2].now = block::state::live;
    CHECK_FALSE(f.chunks[1].idle());
}

TEST_CASE("block_chunks: blocks are visited in the order of addresses") {
    two_chunks const f;
    std::size_t      seen = 0;
    f.chunks.for_each([&](block const& b) { CHECK(&b == &f.blocks[seen++]); });
    CHECK(seen == 3);
}

TEST_CASE("block_chunks: growing, shrinking and removing a chunk changes the bytes") {
    two_chunks f;
    f.chunks.extend(f.chunks.at(at(0x10000)), 0x1000);
    CHECK(f.chunks.reserved() == 0x7000);
    CHECK(f.chunks[0].bytes == 0x5000);
    f.chunks.extend(f.chunks.at(at(0x10000)), std::size_t{0} - 0x2000);
    CHECK(f.chunks.reserved() == 0x5000);
    auto const gone = f.chunks.take(0);
    CHECK(gone.bytes == 0x3000);
    CHECK(f.chunks.size() == 1);
    CHECK(f.chunks.reserved() == 0x2000);
    CHECK(f.chunks.begin()->base == at(0x40000));
}

TEST_CASE("block_chunks: a moved-from list is empty") {
    two_chunks   f;
    block_chunks moved{std::move(f.chunks)};
    CHECK(moved.size() == 2);
    CHECK(moved.reserved() == 0x6000);
    CHECK(f.chunks.size() == 0);
    CHECK(f.chunks.reserved() == 0);
    CHECK(f.chunks.begin() == f.chunks.end());
    f.chunks = std::move(moved);
    CHECK(f.chunks.reserved() == 0x6000);
    CHECK(moved.reserved() == 0);
}

TEST_CASE("block_chunks: without host memory nothing has changed") {
    block_chunks     none;
    doubles::bombing armed{1};
    CHECK_THROWS_AS(none.reserve(), std::bad_alloc);
    armed.defuse();
    CHECK(none.size() == 0);
}
