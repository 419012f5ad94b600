// SPDX-License-Identifier: Apache-2.0
#include <vram/order/core/availability.hpp> // first: the header stands alone

#include <vram/pool/core/block.hpp>
#include <vram/pool/core/free_blocks.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

using namespace vram;
using namespace vram::detail;

TEST_CASE("availability: a block is as available as its least available part") {
    static_assert(availability::ready < availability::needs_wait);
    static_assert(availability::needs_wait < availability::unavailable);
    struct {
        availability operator()(std::size_t slot, std::uint64_t) const {
            return static_cast<availability>(slot);
        }
        availability operator()(tags const& held) const {
            auto worst = availability::ready;
            for (tag const& t : held) { worst = std::max(worst, (*this)(t.slot, t.epoch)); }
            return worst;
        }
    } constexpr slot_is_price{};
    use_node note{.what = tags{{0x1000, 0x1100, 1, 1}}};
    block    b;
    b.address = 0x1000;
    b.bytes   = 0x200;
    CHECK(block_places::priced(b, slot_is_price) == availability::ready);
    b.slot = block::several;
    b.note = &note;
    CHECK(block_places::priced(b, slot_is_price) == availability::needs_wait);
    REQUIRE(note.what.merge(tags{{0x1100, 0x1200, 1, 2}}, [](tag const&) { return false; }));
    CHECK(block_places::priced(b, slot_is_price) == availability::unavailable);
}
