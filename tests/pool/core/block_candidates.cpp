// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/block_candidates.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include "../../doubles/at.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;
using doubles::at;

using sim_candidates = block_candidates<sim_platform, false>;
template struct vram::detail::block_candidates<sim_platform, false>;
template struct vram::detail::block_candidates<sim_platform, true>;

namespace {

/// A chunk of 4 MiB for large blocks, with its arbiter.
struct parts {
    block_cache<false>           cache{true, 64_MiB};
    stream_arbiter<sim_platform> streams{event_policy::lazy, false};
    live_counts                  counts;
    block_heap&                  heap = cache.heaps().of(4_MiB);

    parts() { heap.add(at(0x10000000), 4_MiB, 256, {}); }

    auto host_price() { return streams.timelines().for_asker(nullptr, false); }
    /// Marks all free memory as used by `s`.
    void hold_all(sim_stream_view s) {
        auto& its = streams.timelines().of(s);
        heap.reserve();
        block* const b = heap.take(heap.find(4_MiB, 256, host_price(), false), 4_MiB);
        heap.hold(b, tags{{b->address, b->end(), its.epoch_of_free(), its.slot()}});
        (void)heap.give(b, streams.is_complete());
    }
};

} // namespace

TEST_CASE("block_candidates: a place is allocated with what was requested, and counted") {
    sim_node                      node;
    parts                         it;
    sim_candidates::request const r{.asked = 2_MiB - 100, .alignment = 512};
    sim_candidates                all{it.cache, it.streams, &it.counts, it.heap, r};
    auto const                    place = all.find(it.host_price());
    REQUIRE(place.cost == availability::ready);
    block* const b = all.take(place, false);
    CHECK(b->now == block::state::live);
    CHECK(b->slack == 100);
    CHECK(int{b->alignment} == 9);
    CHECK(it.counts.live() == 2_MiB);
    CHECK(it.counts.allocations() == 1);
}

TEST_CASE("block_candidates: without counts a block is reserved and not live") {
    sim_node                      node;
    parts                         it;
    sim_candidates::request const r{.asked = 2_MiB};
    sim_candidates                all{it.cache, it.streams, nullptr, it.heap, r};
    CHECK(all.take(all.find(it.host_price()), false)->now == block::state::reserved);
    block* const b = all.reserve(all.find(it.host_price()));
    CHECK(all.accept(b)->now == block::state::reserved);
    CHECK(it.counts.peak() == 0);
    CHECK(sim_candidates::made_live(b, it.counts)->now == block::state::live);
    CHECK(it.counts.live() == 2_MiB);
}

TEST_CASE("block_candidates: cached blocks are coalesced before a request fails or waits") {
    sim_node                      node;
    parts                         it;
    sim_stream                    s;
    sim_candidates::request const half{.asked = 2_MiB}, whole{.asked = 4_MiB};
    sim_candidates                halves{it.cache, it.streams, &it.counts, it.heap, half};
    block* const                  b     = halves.take(halves.find(it.host_price()), false);
    block* const                  other = halves.take(halves.find(it.host_price()), false);
    it.counts.add(1); // another block of the pool
    b->slot = block::nobody;
    (void)it.cache.coalesce(other, it.streams.is_complete());
    b->now = block::state::live;
    sim_candidates all{it.cache, it.streams, &it.counts, it.heap, whole};
    CHECK(all.find(it.host_price()).cost == availability::unavailable);
    block_tags::hold(b, {0, 0, 0, it.streams.timelines().of(s).slot()});
    it.cache.put(b, 2_MiB, b->slot, it.counts, it.streams.is_complete());
    CHECK(all.find(it.host_price()).cost == availability::ready);
}

TEST_CASE("block_candidates: a reserved block keeps the uses of its part until it is accepted") {
    sim_node   node;
    parts      it;
    sim_stream s;
    it.hold_all(s);
    sim_candidates::request const r{.asked = 2_MiB};
    sim_candidates                all{it.cache, it.streams, &it.counts, it.heap, r};
    auto const                    place = all.find(it.host_price());
    REQUIRE(place.cost == availability::needs_wait);
    block* b = all.reserve(place);
    CHECK(b->now == block::state::reserved);
    REQUIRE_FALSE(all.uses_of(b).empty());
    CHECK(all.uses_of(b).begin()->end - all.uses_of(b).begin()->begin == 2_MiB);
    CHECK(it.counts.live() == 0);
    b = all.put_back(b);
    CHECK(b->bytes == 4_MiB);
    CHECK_FALSE(b->waits_for().empty());
    b = all.accept(all.reserve(all.find(it.host_price())));
    CHECK(b->now == block::state::live);
    CHECK(b->waits_for().empty());
    CHECK(it.counts.live() == 2_MiB);
}

TEST_CASE("block_candidates: a block that is put back lacks memory again if it did before") {
    sim_node                      node;
    parts                         it;
    sim_candidates::request const r{.asked = 2_MiB};
    sim_candidates                all{it.cache, it.streams, &it.counts, it.heap, r};
    auto const                    place = all.find(it.host_price());
    place.where->unbacked               = true;
    block* const b                      = all.reserve(place);
    CHECK_FALSE(bool{b->unbacked});
    CHECK(bool{all.put_back(b)->unbacked});
}

TEST_CASE("block_candidates: on a captured stream the parts that graphs retain are recorded") {
    sim_node   node;
    parts      it;
    sim_stream s;
    it.hold_all(s);
    sim_candidates::request const r{.asked = 4_MiB};
    sim_candidates                all{it.cache, it.streams, &it.counts, it.heap, r};
    auto const                    place = all.find(it.host_price());
    auto&                         its   = it.streams.timelines().of(s);
    sim_candidates::retain(place.where, its);
    CHECK(place.where->waits_for().begin()->epoch == tag::captured);
    block* const b = all.take(place, true);
    CHECK(b->now == block::state::live);
    CHECK(b->slot == block::several);
    CHECK(b->note->what.begin()->epoch == tag::captured);
}
