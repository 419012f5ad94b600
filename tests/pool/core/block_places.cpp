// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/block_places.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

// Places in blocks with several uses are tested in free_blocks.cpp and block_heap.cpp.

using namespace vram::detail;

namespace {

/// The stream with index 1 has finished; memory that stream 2 uses costs a wait; that of stream 3
/// cannot be used.
struct price_by_stream {
    availability operator()(std::size_t slot, std::uint64_t) const {
        return slot == 1   ? availability::ready
               : slot == 2 ? availability::needs_wait
                           : availability::unavailable;
    }
    availability operator()(tags const& held) const {
        auto worst = availability::ready;
        for (tag const& t : held) {
            availability const one = (*this)(t.slot, t.epoch);
            worst                  = one > worst ? one : worst;
        }
        return worst;
    }
};

block free_block(std::size_t slot) {
    block b;
    b.address = 0x1000;
    b.bytes   = 4096;
    b.now     = block::state::free;
    b.slot    = static_cast<decltype(b.slot)>(slot);
    b.epoch   = 1;
    return b;
}

} // namespace

TEST_CASE("block_places: the cost of a place is that of the block's pending use") {
    block_places const places;
    price_by_stream    price;
    block              done = free_block(1), used = free_block(2), captured = free_block(3);
    CHECK(places.placed(&done, 256, 256, price).cost == availability::ready);
    CHECK(places.placed(&used, 256, 256, price).cost == availability::needs_wait);
    CHECK(places.placed(&captured, 256, 256, price).cost == availability::unavailable);
    CHECK(places.costs_nothing(done, 256, price));
    CHECK_FALSE(places.costs_nothing(used, 256, price));
    CHECK(block_places::usable_from(used, price) == used.address);
    CHECK(block_places::usable_from(captured, price) == captured.end());
}

TEST_CASE("block_places: a place is aligned, and lies within the block") {
    block_places const places;
    price_by_stream    price;
    block              b = free_block(1);
    b.address            = 0x1100;
    CHECK(places.placed(&b, 256, 4096, price).start == 0x2000);
    CHECK(places.in_tail(&b, 256, 4096, price).start == 0x2000);
    CHECK(places.placed(&b, 4096, 4096, price).where == nullptr);
    CHECK(places.in_tail(&b, 8192, 256, price).where == nullptr);
}

TEST_CASE("block_places: without a table of pages, a block that lacks memory has no place") {
    block_places const places;
    price_by_stream    price;
    block              b = free_block(1);
    b.unbacked           = true;
    CHECK(places.placed(&b, 256, 256, price).where == nullptr);
    CHECK_FALSE(places.costs_nothing(b, 256, price));
}
