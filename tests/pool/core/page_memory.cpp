// SPDX-License-Identifier: Apache-2.0

// The use in pools is tested in paged_chunks.cpp, and returning pages in page_mover.cpp.

#include <vram/pool/core/page_memory.hpp> // first: the header must stand alone

#include "../../doubles/interrupted_source.hpp"
#include "../../doubles/small_pages.hpp"

#include <vram/pool/exact_growth.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <utility>

using namespace vram;
using namespace vram::detail;
using doubles::small_page;

template class vram::detail::page_memory<sim_platform>;

TEST_CASE(
    "page_memory: a chunk being returned counts its memory against the limit, not its addresses") {
    sim_node    node{{.on_report = sim_on_report::collect}};
    pool        mr{doubles::interrupted_source{{.handle_size = 2_MiB}}, {.max_size = 24_MiB}};
    void* const p = mr.allocate_sync(16_MiB);
    mr.deallocate_sync(p, 16_MiB);
    CHECK(mr.trim(8_MiB) == 8_MiB);
    void* other                              = nullptr;
    doubles::interrupted_platform::meanwhile = [&] {
        CHECK(mr.usage().reserved == 0);
        CHECK(mr.try_allocate_sync(18_MiB) == nullptr);
        other = mr.try_allocate_sync(16_MiB);
    };
    CHECK(mr.trim() == 8_MiB);
    CHECK(other != nullptr);
    CHECK(mr.usage().reserved == 16_MiB);
    mr.deallocate_sync(other, 16_MiB);
}

TEST_CASE("page_memory: a block that is unbacked at its end is used at its front, without a driver "
          "call") {
    sim_node node{doubles::small_pages(4096)};
    {
        sim_stream s;
        auto const make = [] {
            return pool{sim_virtual_resource{{.reserve = 1 << 26, .handle_size = small_page}}};
        };
        pool        mr    = make();
        void* const first = mr.allocate(s, 64 * small_page);
        void* const last  = mr.allocate(s, 20 * small_page);
        mr.deallocate(s, first, 64 * small_page);
        s.synchronize();
        CHECK(mr.trim(32 * small_page) == 32 * small_page); // the back of it
        auto const  calls = doubles::page_calls(node);
        pool        moved = std::move(mr); // it takes all state along
        void* const front = moved.allocate(s, 32 * small_page - 256);
        CHECK(doubles::page_calls(node) == calls);
        CHECK(moved.upstream().mapped(front, 32 * small_page) == 32 * small_page);
        void* const more = moved.allocate(s, 17 * small_page);
        CHECK(doubles::page_calls(node) > calls);
        moved.deallocate(s, more, 17 * small_page);
        moved.deallocate(s, front, 32 * small_page - 256);
        moved.deallocate(s, last, 20 * small_page);
    }
    CHECK(node.figures().used == 0);
    CHECK(node.reports().empty());
}
