// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/block_cache.hpp> // first: the header stands alone

#include "../../doubles/at.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <utility>

using namespace vram;
using namespace vram::detail;
using doubles::at;

template class vram::detail::block_cache<false>;
template class vram::detail::block_cache<true>;

namespace {

constexpr auto complete = [](tag const&) { return true; };
constexpr auto ready    = [](auto const&...) { return availability::ready; };

/// A cache over two chunks, for small and for large blocks, and the counts of its pool.
template <bool InPlace>
struct cached {
    block_cache<InPlace> cache;
    live_counts          counts;

    explicit cached(std::size_t large_limit = 64_MiB) : cache{true, large_limit} {
        cache.heaps().of(256).add(at(0x10000000), 4_MiB, 256, {});
        cache.heaps().of(64_MiB).add(at(0x20000000), 256_MiB, 256, {});
    }
    block* take(std::size_t bytes) {
        block_heap& heap = cache.heaps().of(bytes);
        heap.reserve();
        block* const b = heap.take(heap.find(bytes, 256, ready, false), bytes);
        counts.add(bytes);
        return b;
    }
    void put(block* b) {
        counts.retract(b->bytes);
        b->slot  = 0;
        b->epoch = 1;
        cache.put(b, b->bytes, 0, counts, complete);
    }
    block* reuse(std::size_t bytes) { return cache.take(0, bytes, 256, complete); }
};

} // namespace

TEST_CASE("block_cache: a small block is cached for its stream until the cache is flushed") {
    cached<false> it;
    block* const  b = it.take(4096);
    it.put(b);
    CHECK(b->now == block::state::cached);
    CHECK(it.cache.take(1, 4096, 256, complete) == nullptr);
    CHECK(it.reuse(4096) == b);
    it.put(b);
    CHECK(it.cache.flush(complete));
    CHECK_FALSE(it.cache.flush(complete));
    CHECK(it.reuse(4096) == nullptr);
    CHECK(it.cache.heaps().of(4096).largest_free() == 4_MiB);
}

TEST_CASE("block_cache: one large block is cached, and coalesced if a request has another size") {
    cached<false> it;
    block* const  a = it.take(8_MiB);
    block* const  b = it.take(16_MiB);
    (void)it.take(2_MiB);
    (void)it.take(2_MiB);
    it.put(a);
    CHECK(it.reuse(8_MiB) == a);
    it.put(a);
    it.put(b); // takes the place of `a`
    CHECK(a->now == block::state::free);
    CHECK(b->now == block::state::cached);
    CHECK(it.reuse(8_MiB) == nullptr);
    CHECK(it.cache.heaps().live(at(0x20000000 + 8_MiB), 16_MiB) == nullptr);
    CHECK_FALSE(it.cache.flush_large(complete));
}

TEST_CASE("block_cache: a large block is not cached above the limit, or if nothing else is live") {
    cached<false> it{8_MiB};
    block* const  above = it.take(8_MiB + 256);
    block* const  at_it = it.take(8_MiB);
    (void)it.take(2_MiB);
    it.put(above);
    CHECK(above->now == block::state::free);
    it.put(at_it);
    CHECK(at_it->now == block::state::cached);
    cached<false> empty;
    block* const  last = empty.take(2_MiB);
    empty.put(last);
    CHECK_FALSE(empty.cache.flush_large(complete));
}

TEST_CASE("block_cache: for a small request small cached blocks stay cached if bulky ones exist") {
    cached<false> it;
    block* const  small = it.take(256);
    block* const  bulky = it.take(512_KiB);
    (void)it.take(256);
    it.put(small);
    it.put(bulky);
    CHECK(it.cache.flush_for(1024, complete));
    CHECK(small->now == block::state::cached);
    CHECK(bulky->now == block::state::free);
    CHECK(it.cache.flush_for(1024, complete)); // now the small ones
    CHECK(small->now == block::state::free);
    CHECK_FALSE(it.cache.flush_for(1024, complete));
}

TEST_CASE("block_cache: if chunks grow, all cached blocks are coalesced for a small request") {
    cached<true> it;
    block* const small = it.take(256);
    block* const bulky = it.take(512_KiB);
    (void)it.take(256);
    it.put(small);
    it.put(bulky);
    CHECK(it.cache.flush_for(1024, complete));
    CHECK(small->now == block::state::free);
}

TEST_CASE("block_cache: cached blocks and the limit move with the cache") {
    cached<false> it{0};
    block* const  b = it.take(4096);
    it.put(b);
    block_cache<false> moved = std::move(it.cache);
    CHECK(moved.take(0, 4096, 256, complete) == b);
    live_counts counts;
    counts.add(1);
    moved.heaps().of(8_MiB).reserve();
    auto& heap = moved.heaps().of(8_MiB);
    auto  take = [&] {
        heap.reserve();
        return heap.take(heap.find(8_MiB, 256, ready, false), 8_MiB);
    };
    block* const large = take();
    (void)take();
    (void)take();
    moved.put(large, 8_MiB, 0, counts, complete);
    CHECK(large->now == block::state::free); // large blocks are not cached
}
