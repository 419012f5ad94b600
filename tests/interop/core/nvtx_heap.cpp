// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/core/nvtx_heap.hpp> // first: the header stands alone

#include "../../doubles/nvtx/tool.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

using doubles::nvtx_tool;
using vram::detail::nvtx_heap;

TEST_CASE("nvtx_heap: regions of a heap are added, named and removed by address") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    auto const at   = [](std::uintptr_t n) { return reinterpret_cast<void const*>(n); };
    auto const heap = nvtx_heap::add(at(0x1000), 0x1000);
    REQUIRE(heap.known());
    heap.add_region(at(0x1000), 100);
    heap.add_region(at(0x1100), 200);
    nvtx_heap::name_region(at(0x1100), "weights");
    REQUIRE(tool.heaps.size() == 1);
    CHECK(tool.heaps.at(0x1000).bytes == 0x1000);
    CHECK((tool.heaps.at(0x1000).regions ==
           doubles::quiet_map<std::uintptr_t, std::size_t>{{0x1000, 100}, {0x1100, 200}}));
    CHECK(tool.names.at(0x1100) == "weights");
    nvtx_heap::remove_region(at(0x1000));
    nvtx_heap::remove_region(at(0x1100));
    heap.remove();
    CHECK(tool.heaps.empty());
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE("nvtx_heap: a heap that the tool refuses is not known") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    tool.refuses = [](std::uintptr_t, std::size_t) { return true; };
    CHECK_FALSE(nvtx_heap::add(&tool, 100).known());
    CHECK_FALSE(nvtx_heap{}.known());
    CHECK(tool.heaps.empty());
}
