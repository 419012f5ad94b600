// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/core/nvtx_regions.hpp> // first: the header stands alone

#include "../../doubles/bombing.hpp"
#include "../../doubles/nvtx/tool.hpp"

#include <doctest/doctest.h>

#include <cstddef>

namespace nvtx_regions_tests {

using vram::detail::nvtx_regions;
using doubles::nvtx_tool;

constexpr std::uintptr_t at = 0x10000;

std::size_t heaps() { return nvtx_tool::get().heaps.size(); }
std::size_t regions() {
    std::size_t sum = 0;
    for (auto const& [begin, h] : nvtx_tool::get().heaps) { sum += h.regions.size(); }
    return sum;
}

TEST_CASE("nvtx_regions: the tool has the heaps and regions of the table") {
    nvtx_regions table;
    CHECK(table.empty());
    table.cover(at, at + 4096);
    table.cover(at + 2048, at + 8192); // the part that is in no heap becomes another
    CHECK(heaps() == 2);
    CHECK(table.contains(at));
    CHECK(table.contains(at + 8191));
    CHECK(!table.contains(at + 8192));

    table.allocate(at + 256, at + 512, "pool", false);
    table.allocate(at + 4000, at + 4200, "pool", false); // one region in each heap
    CHECK(regions() == 3);
    table.free(at + 256, "other", false, false); // the block is that of another resource
    CHECK(regions() == 3);
    table.free(at + 256, "pool", false, false);
    CHECK(regions() == 2);
    table.restore(at + 256, "pool");
    CHECK(regions() == 3);
    table.free_all(at, at + 8192);
    CHECK(regions() == 0);
    table.drop_heaps(at, at + 8192);
    CHECK(table.empty());
    CHECK(heaps() == 0);
}

TEST_CASE("nvtx_regions: memory of a captured graph stays a region until it is forgotten") {
    nvtx_regions table;
    table.cover(at, at + 4096);
    table.allocate(at, at + 256, "pool", true);
    table.free(at, "pool", true, false);
    CHECK(regions() == 1);
    CHECK(table.keeps(at, at + 1));
    CHECK(!table.keeps(at + 256, at + 4096));
    table.forget_kept(at, at + 4096);
    CHECK(regions() == 0);

    table.keep_heaps(at, at + 4096);
    table.drop_all(false);
    CHECK(heaps() == 1);
    table.drop_all(true);
    CHECK(heaps() == 0);
}

TEST_CASE("nvtx_regions: a chunk at the place of an ended one replaces it") {
    nvtx_regions table;
    for (bool const captured : {false, true}) {
        table.cover(at, at + 4096);
        table.keep_heaps(at, at + 4096);
        if (!captured) { nvtx_tool::get().freed(reinterpret_cast<void*>(at), 4096); }
        table.replace_ended(at, at + 4096, captured);
        CHECK(table.empty());
        CHECK(heaps() == 0);
    }
}

TEST_CASE("nvtx_regions: a heap without records is one region") {
    nvtx_regions table;
    table.cover(at, at + 4096);
    table.allocate(at, at + 256, "pool", false);
    table.forfeit(at + 512, at + 768);
    CHECK(regions() == 1);
    table.allocate(at + 512, at + 768, "pool", false); // not recorded
    CHECK(regions() == 1);
    table.drop_all(false);
    CHECK(heaps() == 0);
}

TEST_CASE("nvtx_regions: without host memory, a captured graph may use all of its heap") {
    nvtx_regions table;
    table.cover(at, at + 4096);
    table.allocate(at, at + 256, "pool", true);
    table.free(at, "pool", true, false);
    table.keep_heaps(at, at + 4096);
    {
        doubles::bombing armed{1}; // no record for the rest of the region
        table.forget_kept(at, at + 128);
        CHECK(armed.defuse());
    }
    CHECK(regions() == 1);
    CHECK(nvtx_tool::get().heaps.begin()->second.regions.begin()->second == 4096);
    table.drop_all(true);
    CHECK(heaps() == 0);
    CHECK(nvtx_tool::get().wrong.empty());
}

TEST_CASE("nvtx_regions: a heap without records may have memory of a captured graph") {
    nvtx_regions table;
    table.cover(at, at + 4096);
    table.allocate(at, at + 256, "pool", true);
    table.free(at, "pool", true, false);
    table.forfeit(at + 512, at + 768);
    CHECK(table.keeps(at, at + 4096));
    CHECK(!table.keeps(at + 4096, at + 8192));
    table.drop_heaps(at, at + 4096);
    CHECK(!table.keeps(at, at + 4096));
}

} // namespace nvtx_regions_tests
