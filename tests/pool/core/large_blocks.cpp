// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/large_blocks.hpp> // first: the header stands alone

#include "../../doubles/at.hpp"
#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <new>
#include <utility>

using namespace vram;
using namespace vram::detail;
using doubles::at;

TEST_CASE("large_blocks: an inserted block is found until it is erased, in any order") {
    large_blocks all;
    for (std::size_t i = 1; i <= 100; ++i) {
        all.reserve();
        all.insert(at(i * 0x1000), i, 256);
    }
    CHECK(all.size() == 100);
    CHECK(all.find(at(0x5000))->bytes == 5);
    CHECK(all.find(at(0x5001)) == nullptr);
    CHECK(all.owns(at(0x5004)));
    CHECK_FALSE(all.owns(at(0x5005)));
    for (std::size_t i = 1; i <= 100; i += 2) { all.erase(at(i * 0x1000)); }
    CHECK(all.size() == 50);
    CHECK(all.find(at(0x5000)) == nullptr);
    CHECK_FALSE(all.owns(at(0x5000)));
    CHECK(all.find(at(0x6000))->bytes == 6);
    all.drain([](large_blocks::entry const&) {});
    CHECK(all.size() == 0);
}

TEST_CASE("large_blocks: descriptors are reused, and without host memory nothing has changed") {
    large_blocks all;
    bool         failed = false;
    {
        doubles::bombing armed{2};
        try {
            all.reserve();
        } catch (std::bad_alloc const&) { failed = true; }
    }
    CHECK(failed);
    CHECK(all.size() == 0);
    all.reserve();
    all.insert(at(0x1000), 1, 256);
    all.erase(at(0x1000));
    auto const before = doubles::host_allocations();
    for (int i = 0; i < 100; ++i) {
        all.reserve();
        all.insert(at(0x1000), 1, 256);
        all.erase(at(0x1000));
    }
    CHECK(doubles::host_allocations() == before);
}

TEST_CASE("large_blocks: a moved-from list is empty") {
    large_blocks a;
    a.reserve();
    a.insert(at(0x1000), 1, 256);
    large_blocks b{std::move(a)};
    CHECK(a.size() == 0);
    CHECK(b.find(at(0x1000)) != nullptr);
    a = std::move(b);
    CHECK(a.owns(at(0x1000)));
}
