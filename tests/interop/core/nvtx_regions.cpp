// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/core/nvtx_regions.hpp> // first: the header stands alone

#include "../../doubles/bombing.hpp"
#include "../../doubles/nvtx/tool.hpp"

#include <vram/base/tag.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>

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

TEST_CASE("nvtx_regions: a region keeps the name of its tag") {
    nvtx_regions table;
    auto const   name_at = [](std::uintptr_t p) {
        auto const& names = nvtx_tool::get().names;
        auto const  found = names.find(p);
        return found != names.end() ? found->second : std::string{};
    };
    table.cover(at, at + 4096);
    {
        vram::tagged const scope{"weights"};
        table.allocate(at, at + 256, "pool", false);
        table.allocate(at + 1024, at + 2048, "pool", true);
    }
    CHECK(name_at(at) == "weights");
    table.free(at, "pool", false, false);
    nvtx_tool::get().names.clear();
    table.restore(at, "pool"); // the free was refused
    CHECK(name_at(at) == "weights");

    table.free(at + 1024, "pool", true, false); // kept for a graph
    nvtx_tool::get().names.clear();
    table.allocate(at + 1280, at + 1536, "pool", false); // divides the kept region
    CHECK(name_at(at + 1024) == "weights");
    CHECK(name_at(at + 1280) == "");
    CHECK(name_at(at + 1536) == "weights");
    table.drop_heaps(at, at + 4096);
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
