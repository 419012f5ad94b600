// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/block_heaps.hpp> // first: the header stands alone

#include "../../doubles/at.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;
using doubles::at;

template class vram::detail::block_heaps<false>;
template class vram::detail::block_heaps<true>;

namespace {

constexpr auto all_settled = [](tag const&) { return true; };
struct {
    availability operator()(tags const& held) const {
        return held.empty() ? availability::ready : availability::needs_wait;
    }
    availability operator()(std::size_t, std::uint64_t) const { return availability::needs_wait; }
} constexpr waiting_costs{};

template <bool InPlace>
block* take_where_it_belongs(block_heaps<InPlace>& heaps, std::size_t bytes) {
    block_heap& heap = heaps.of(bytes);
    heap.reserve();
    auto const place = heap.find(bytes, 256, waiting_costs, false);
    return place.where == nullptr ? nullptr : heap.take(place, bytes);
}

template <bool InPlace>
std::size_t bytes_free(block_heaps<InPlace> const& heaps) {
    std::size_t sum = 0;
    heaps.for_each([&](block const& b) { sum += b.now == block::state::free ? b.bytes : 0; });
    return sum;
}

} // namespace

TEST_CASE("block_heaps: blocks up to 1 MiB are separate from larger ones, and each is found") {
    block_heaps<false> heaps;
    CHECK(heaps.empty());
    CHECK(&heaps.of(1_MiB) == &heaps.of(1));
    CHECK(&heaps.of(1_MiB) != &heaps.of(1_MiB + 1));
    CHECK(&heaps.other_than(heaps.of(1)) == &heaps.of(2_MiB));
    CHECK(&heaps.other_than(heaps.of(2_MiB)) == &heaps.of(1));
    heaps.of(512).add(at(0x10000000), 2_MiB, 256, {});
    CHECK(take_where_it_belongs(heaps, 2_MiB) == nullptr); // though there is as much
    heaps.of(2_MiB).add(at(0x20000000), 4_MiB, 256, {});
    block* const small = take_where_it_belongs(heaps, 512);
    block* const large = take_where_it_belongs(heaps, 3_MiB);
    CHECK(small->address == 0x10000000);
    CHECK(large->address == 0x20000000);
    CHECK(&heaps.of(*small) == &heaps.of(512));
    CHECK(&heaps.of(*large) == &heaps.of(3_MiB));
    CHECK(heaps.live(small->pointer(), 512) == small);
    CHECK(heaps.live(large->pointer(), 3_MiB) == large);
    CHECK(heaps.live(at(0x30000000), 512) == nullptr);
    CHECK_FALSE(heaps.empty());
    CHECK(heaps.owns(at(0x10000000 + 2_MiB - 1)));
    CHECK(heaps.owns(at(0x20000000)));
    CHECK_FALSE(heaps.owns(at(0x10000000 + 2_MiB)));
    CHECK(heaps.reserved() == 6_MiB);
    CHECK(bytes_free(heaps) == 6_MiB - 512 - 3_MiB);
    CHECK(heaps.largest_free() == 2_MiB - 512);
}

TEST_CASE("block_heaps: a block among those of another size is returned to its heap") {
    block_heaps<false> heaps;
    block_heap&        large = heaps.other_than(heaps.of(512));
    large.add(at(0x10000000), 4_MiB, 256, {});
    large.reserve();
    block* const b = large.take(large.find(512, 256, waiting_costs, true), 512);
    CHECK(&heaps.of(*b) == &large);
    CHECK(heaps.live(b->pointer(), 512) == b); // looked for among small ones first
    heaps.of(*b).give(b, all_settled);
    CHECK(heaps.largest_free() == 4_MiB);
}

TEST_CASE("block_heaps: without separation there is one heap for all sizes") {
    block_heaps<false> heaps{false};
    CHECK(&heaps.of(1) == &heaps.of(1_GiB));
    CHECK(&heaps.other_than(heaps.of(1)) != &heaps.of(1));
}

TEST_CASE("block_heaps: the most available idle chunk is found, then the largest") {
    block_heaps<false> heaps;
    CHECK(heaps.idle_chunk(waiting_costs).heap == nullptr);
    heaps.of(512).add(at(0x10000000), 2_MiB, 256, tags{{0x10000000, 0x10000100, 1, 0}});
    auto found = heaps.idle_chunk(waiting_costs);
    CHECK(found.heap == &heaps.of(512));
    CHECK(found.cost == availability::needs_wait);
    heaps.of(2_MiB).add(at(0x20000000), 1_MiB, 256, {});
    found = heaps.idle_chunk(waiting_costs); // smaller, but ready
    CHECK(found.heap == &heaps.of(2_MiB));
    CHECK(found.what().base == at(0x20000000));
    heaps.of(512).add(at(0x30000000), 4_MiB, 256, {});
    found = heaps.idle_chunk(waiting_costs);
    CHECK(found.what().bytes == 4_MiB);
    heaps.of(2_MiB).add(at(0x40000000), 8_MiB, 256, {});
    found = heaps.idle_chunk(waiting_costs);
    CHECK(found.what().bytes == 8_MiB);
    CHECK(found.heap->remove(found.index).base == at(0x40000000));
    CHECK(heaps.idle_chunk(waiting_costs).what().bytes == 4_MiB);
}

TEST_CASE("block_heaps: chunks for small and for large blocks grow, each in its own heap") {
    block_heaps<true> heaps;
    heaps.of(512).add(at(0x10000000), 64_KiB, 256, {});
    heaps.of(2_MiB).add(at(0x20000000), 2_MiB, 256, {});
    block* const small = take_where_it_belongs(heaps, 512);
    block* const large = take_where_it_belongs(heaps, 2_MiB);
    auto         m     = heaps.of(2_MiB).begin_growth(2_MiB, 256, waiting_costs);
    CHECK(m.base == at(0x20000000));
    heaps.end_growth(m, m.by);
    CHECK(heaps.of(2_MiB).chunks().reserved() == 4_MiB);
    CHECK(heaps.of(512).chunks().reserved() == 64_KiB);
    m = heaps.of(512).begin_growth(64_KiB, 256, waiting_costs);
    CHECK(m.by == 512);
    heaps.end_growth(m, 64_KiB);
    CHECK(heaps.of(512).chunks().reserved() == 128_KiB);
    heaps.of(*small).give(small, all_settled);
    heaps.of(*large).give(large, all_settled);
    CHECK(bytes_free(heaps) == heaps.reserved());
}

TEST_CASE("block_heaps: operations on all blocks reach both heaps") {
    block_heaps<false> heaps;
    heaps.of(512).add(at(0x10000000), 2_MiB, 256, tags{{0x10000000, 0x10200000, 1, 3}});
    heaps.of(2_MiB).add(at(0x20000000), 2_MiB, 256, tags{{0x20000000, 0x20200000, 1, 3}});
    heaps.keep_for_capture(3, 0);
    std::size_t blocks = 0, kept = 0, chunks = 0;
    heaps.for_each([&](block const& b) {
        ++blocks;
        kept += b.epoch == tag::captured;
    });
    heaps.for_each_chunk([&](block_heaps<false>::chunk const&) { ++chunks; });
    CHECK(blocks == 2);
    CHECK(kept == 2);
    CHECK(chunks == 2);
    heaps.end_captures();
    heaps.for_each([&](block const& b) { CHECK(b.slot == block::nobody); });
}

TEST_CASE(
    "block_heaps: uncoalesced neighbours in either heap coalesce when their uses are complete") {
    block_heaps<false> heaps;
    auto const         unsettled = [](tag const&) { return false; };
    std::uintptr_t     base      = 0x10000000;
    for (std::size_t const bytes : {1_MiB, 2_MiB}) {
        heaps.of(bytes).add(at(base), 64 * bytes, 256, {});
        base += 64 * bytes;
        std::vector<block*> out;
        for (int i = 0; i < 64; ++i) { out.push_back(take_where_it_belongs(heaps, bytes)); }
        for (std::size_t i = 0; i < out.size(); ++i) {
            block_heap& its = heaps.of(*out[i]);
            its.hold(out[i], tags{{out[i]->address, out[i]->end(), 1, i}});
            its.give(out[i], unsettled);
        }
        CHECK(heaps.of(bytes).largest_free() < 64 * bytes);
    }
    heaps.coalesce_pending(all_settled);
    for (std::size_t const bytes : {1_MiB, 2_MiB}) {
        CHECK(heaps.of(bytes).largest_free() == 64 * bytes);
    }
}

TEST_CASE("block_heaps: a move takes the chunks along, and each block's heap") {
    block_heaps<true> a;
    a.of(512).add(at(0x10000000), 2_MiB, 256, {});
    block* const      b = take_where_it_belongs(a, 512);
    block_heaps<true> c{std::move(a)};
    CHECK(a.empty());
    CHECK(a.reserved() == 0);
    CHECK(c.live(b->pointer(), 512) == b);
    block_heaps<true> d;
    d = std::move(c);
    CHECK(c.empty());
    d.of(*b).give(b, all_settled);
    CHECK(d.largest_free() == 2_MiB);
}

TEST_CASE("block_heaps: a ready idle chunk precedes a larger one that is pending") {
    block_heaps<false> heaps;
    heaps.of(512).add(at(0x10000000), 1_MiB, 256, {});
    heaps.of(2_MiB).add(at(0x20000000), 4_MiB, 256, tags{{0x20000000, 0x20000100, 1, 0}});
    auto const found = heaps.idle_chunk(waiting_costs);
    CHECK(found.cost == availability::ready);
    CHECK(found.what().base == at(0x10000000));
}
