// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/pool_core.hpp> // first: the header must stand alone

#include <vram/pool/exact_growth.hpp>
#include <vram/pool/geometric_growth.hpp>
#include <vram/sim/sim.hpp>

#include "../../doubles/mishaps.hpp"
#include "../../doubles/small_pages.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>

// The functions for users are tested in pool.cpp and paged_chunks.cpp.

using namespace vram;
using namespace vram::detail;
using doubles::small_page;

template class vram::detail::pool_core<sim_resource, geometric_growth>;
template class vram::detail::pool_core<sim_virtual_resource, exact_growth>;

namespace {

constexpr std::size_t large_block = 20 * small_page; // more than small blocks have

pool_core<sim_virtual_resource, exact_growth> core_of_pages() {
    return pool_core<sim_virtual_resource, exact_growth>{
        sim_virtual_resource{{.reserve = 1 << 30, .handle_size = small_page}}};
}

} // namespace

TEST_CASE("pool_core: its memory grows by pages over virtual memory, and else by whole chunks") {
    CHECK(
        std::is_same_v<pool_core<sim_resource, exact_growth>::chunks, whole_chunks<sim_resource>>);
    CHECK(std::is_same_v<pool_core<sim_virtual_resource, exact_growth>::chunks,
                         paged_chunks<sim_virtual_resource>>);
}

TEST_CASE("pool_core: try_deallocate frees live blocks of the pool, and returns false for others") {
    sim_node                              node;
    doubles::mishaps const                told;
    sim_stream                            s;
    pool_core<sim_resource, exact_growth> mr{sim_resource{}};
    int                                   foreign = 0;
    void* const                           p       = mr.allocate(s, 1000);
    CHECK_FALSE(mr.try_deallocate(s, &foreign, 4));
    CHECK_FALSE(mr.try_deallocate_sync(&foreign, 4));
    CHECK_FALSE(mr.try_deallocate(s, nullptr, 0));
    CHECK(told.count() == 0);
    CHECK_FALSE(mr.try_deallocate(s, p, 999));
    CHECK(mr.usage().live == 1024);
    CHECK(mr.try_deallocate(s, p, 1000));
    CHECK_FALSE(mr.try_deallocate(s, p, 1000));
    void* const q = mr.allocate_sync(1000);
    CHECK(mr.try_deallocate_sync(q, 1000));
    CHECK(told.count() == 0);
    CHECK(mr.usage().live == 0);
}

TEST_CASE("pool_core: try_allocate_cached returns ready memory or null") {
    sim_node                              node;
    sim_stream const                      s;
    pool_core<sim_resource, exact_growth> mr{sim_resource{}};
    CHECK(mr.try_allocate_cached(s, 4096) == nullptr);
    CHECK(mr.usage().upstream == 0);
    void* const p = mr.allocate(s, 4096);
    CHECK(mr.try_deallocate(s, p, 4096));
    CHECK(mr.try_allocate_cached(s, 4096) == p);
    CHECK(mr.usage().live == 4096);
    CHECK(mr.try_deallocate(s, p, 4096));
}

TEST_CASE("pool_core: a backed block is found without a search although it was cut from an "
          "unbacked one") {
    sim_node    node{doubles::small_pages(4096)};
    sim_stream  s;
    auto        mr     = core_of_pages();
    void* const first  = mr.allocate_sync(large_block);
    void* const second = mr.allocate_sync(large_block);
    void* const last   = mr.allocate_sync(large_block);
    CHECK(mr.try_deallocate_sync(first, large_block));
    CHECK(mr.trim() == large_block);
    CHECK(
        mr.try_deallocate_sync(second, large_block)); // one block, and the first half has no memory
    void* const filled = mr.allocate(s, large_block);
    CHECK(filled == first);
    CHECK(mr.try_allocate_cached(s, large_block) == second);
    CHECK(mr.try_deallocate(s, filled, large_block));
    CHECK(mr.try_deallocate(s, second, large_block));
    CHECK(mr.try_deallocate_sync(last, large_block));
}

TEST_CASE("pool_core: a fully backed block is found without a search before partly backed ones") {
    constexpr std::size_t less = large_block - small_page;
    constexpr std::size_t more = large_block + small_page;
    sim_node              node{doubles::small_pages(4096)};
    sim_stream            s;
    auto                  mr     = core_of_pages();
    void* const           hole   = mr.allocate_sync(less);
    void* const           wall   = mr.allocate_sync(large_block);
    void* const           first  = mr.allocate_sync(more);
    void* const           second = mr.allocate_sync(less);
    void* const           last   = mr.allocate_sync(large_block);
    CHECK(mr.try_deallocate_sync(hole, less));
    CHECK(mr.try_deallocate_sync(first, more));
    CHECK(mr.trim() == less + more);
    CHECK(mr.try_deallocate_sync(second, less)); // one block, and the front of it has no memory
    CHECK(mr.allocate(s, more) == first);        // the rest is as large as the hole
    CHECK(mr.try_allocate_cached(s, less) == second);
    CHECK(mr.try_deallocate(s, second, less));
    CHECK(mr.try_deallocate(s, first, more));
    CHECK(mr.try_deallocate_sync(wall, large_block));
    CHECK(mr.try_deallocate_sync(last, large_block));
}
