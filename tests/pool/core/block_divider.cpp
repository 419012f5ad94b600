// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/block_divider.hpp> // first: the header stands alone

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

constexpr auto        never_done  = [](tag const&) { return false; };
constexpr auto        always_done = [](tag const&) { return true; };
constexpr std::size_t base        = 0x10000;

/// A chunk of 16 KiB. Its first block is divided off, because it never changes
/// its descriptor.
struct divided {
    block_divider divider;
    block_chunks  chunks;
    block*        first = nullptr;

    explicit divided(bool in_place = false) : divider{in_place, true} {
        divider.reserve(4);
        chunks.reserve();
        block* const all = divider.add(at(base), 16384, {});
        chunks.add({.first = all, .base = at(base), .bytes = 16384, .alignment = 256});
        first = take(all, base, 256);
    }
    block* take(block* from, std::size_t start, std::size_t bytes) {
        divider.reserve(3);
        block* const b = divider.take({from, start}, bytes);
        b->now         = block::state::live;
        return b;
    }
};

} // namespace

TEST_CASE("block_divider: a block out of the middle leaves free blocks before "
          "and after it") {
    divided      it;
    block* const rest = it.first->after;
    CHECK(rest->bytes == 16384 - 256);
    block* const middle = it.take(rest, base + 4096, 1024);
    CHECK(middle->before->address == base + 256);
    CHECK(middle->before->bytes == 4096 - 256);
    CHECK(middle->after->address == base + 5120);
    CHECK(bool{middle->apart});
    CHECK(it.divider.index().largest_block() == 16384 - 5120);
    block* const whole = it.divider.give_again(middle, never_done);
    CHECK(whole->address == base + 256);
    CHECK(whole->bytes == 16384 - 256);
    CHECK(whole->after == nullptr);
    CHECK(it.divider.index().largest_block() == 16384 - 256);
    CHECK_FALSE(it.divider.has_uncoalesced());
}

TEST_CASE("block_divider: each part of a divided block keeps the uses of its "
          "own addresses") {
    divided      it;
    block* const all = it.take(it.first->after, base + 256, 16384 - 256);
    tags         held{{base + 256, base + 1024, 3, 0}};
    REQUIRE(held.merge(tags{{base + 8192, base + 16384, 5, 1}}, never_done));
    it.divider.hold(all, held);
    (void)it.divider.give_again(all, never_done);
    block* const middle = it.take(it.first->after, base + 2048, 1024);
    CHECK(middle->slot == block::nobody);
    REQUIRE_FALSE(middle->before->waits_for().empty());
    CHECK(middle->before->waits_for().begin()->slot == 0);
    REQUIRE_FALSE(middle->after->waits_for().empty());
    CHECK(middle->after->waits_for().begin()->slot == 1);
    CHECK(middle->after->waits_for().begin()->begin == base + 8192);
}

TEST_CASE("block_divider: blocks that could not be coalesced are coalesced "
          "once uses complete") {
    divided it;
    // Nine streams: one list of uses has room for eight.
    block* each[9];
    for (std::size_t i = 0; i < 9; ++i) {
        each[i] = it.take(i == 0 ? it.first->after : each[i - 1]->after, base + 256 + i * 512, 512);
    }
    for (std::size_t i = 0; i < 9; ++i) {
        it.divider.reserve(3);
        it.divider.hold(each[i], tags{{each[i]->address, each[i]->end(), 1, i + 1}});
        (void)it.divider.give_again(each[i], never_done);
    }
    CHECK(it.divider.has_uncoalesced());
    it.divider.coalesce_pending(it.chunks, always_done);
    CHECK_FALSE(it.divider.has_uncoalesced());
    CHECK(it.first->after->after == nullptr);
    CHECK(it.first->after->slot == block::nobody);
    it.divider.mark_uncoalesced();
    CHECK(it.divider.has_uncoalesced());
}

TEST_CASE("block_divider: a chunk that can grow always ends with a free block") {
    divided      it{true};
    block* const all = it.take(it.first->after, base + 256, 16384 - 256);
    REQUIRE(all->after != nullptr);
    CHECK(all->after->bytes == 0);
    CHECK(it.divider.index().is_tail(all->after));
    it.divider.hold(all, tags{{all->address, all->end(), 4, 2}});
    block* const tail = it.divider.give_again(all, never_done);
    CHECK(tail->bytes == 16384 - 256);
    tags const held = tail->waits_for();
    tail->bytes += 4096;
    it.divider.hold_grown(tail, held);
    REQUIRE_FALSE(tail->waits_for().empty());
    CHECK(tail->waits_for().begin()->end == base + 16384); // not the new memory
}

TEST_CASE("block_divider: a block that is set aside is in no bin, and complete "
          "ones come first") {
    divided      it;
    block* const free = it.first->after;
    it.divider.set_aside(free);
    CHECK(it.divider.index().largest_block() == 0);
    free->unbacked = true;
    (void)it.divider.give_again(free, never_done);
    CHECK(bool{free->unbacked});
    it.divider.complete(free);
    CHECK_FALSE(bool{free->unbacked});
    CHECK(it.divider.index().largest_block() == 16384 - 256);
}

TEST_CASE("block_divider: a removed chunk leaves its descriptor, and a failed "
          "reserve nothing") {
    block_divider divider{false, false};
    CHECK_FALSE(divider.is_prepared());
    {
        doubles::bombing armed{1};
        CHECK_THROWS_AS(divider.reserve(3), std::bad_alloc);
    }
    divider.reserve(3);
    CHECK(divider.is_prepared());
    CHECK(divider.has(3));
    block* const only = divider.add(at(base), 4096, tags{{base, base + 256, 1, 0}});
    CHECK(only->slot == block::several);
    divider.remove(only);
    CHECK(divider.has(3));
    CHECK(divider.index().largest_block() == 0);
}

TEST_CASE("block_divider: a move takes the free blocks along") {
    divided       it;
    block_divider moved = std::move(it.divider);
    CHECK(moved.index().largest_block() == 16384 - 256);
    block_divider other{true, false};
    other = std::move(moved);
    CHECK(other.index().largest_block() == 16384 - 256);
    CHECK_FALSE(other.index().is_tail(it.first->after));
}
