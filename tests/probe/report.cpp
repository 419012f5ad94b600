// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/report.hpp> // first: the header must stand alone

#include "../doubles/archetype.hpp"

#include <vram/layer/fallback.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/source/host_resource.hpp>
#include <vram/source/region_resource.hpp>

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("a stack is shown from the outside in, each layer with what it alone knows") {
    limiting    memory{limiting{doubles::archetype<>{}, 1_MiB}, 64_KiB};
    void* const p = memory.allocate_sync(3_KiB);
    void* const q = memory.allocate_sync(1_KiB);
    memory.deallocate_sync(q, 1_KiB);
    // clang-format off
    CHECK(report(memory) ==
          "layer              live      peak      held  peak held  allocations                budget\n"
          "limiting                                                             3.00 KiB of 64.0 KiB\n"
          "  limiting                                                           3.00 KiB of 1.00 MiB\n"
          "    archetype  3.00 KiB  4.00 KiB  3.00 KiB   4.00 KiB            2\n");
    // clang-format on
    memory.deallocate_sync(p, 3_KiB);
}

TEST_CASE("a resource that keeps no figures is a name alone") {
    CHECK(report(host_resource{}) == "layer\nhost_resource\n");
}

TEST_CASE("the largest free block is shown where it is known") {
    alignas(256) std::byte buffer[1024];
    region_resource<>      memory{buffer, sizeof buffer};
    void* const            p    = memory.allocate_sync(256);
    auto const             text = report(memory);
    CHECK(text.find("largest free") != std::string::npos);
    CHECK(text.find("768 B") != std::string::npos);
    CHECK(text.find("events") == std::string::npos);
    memory.deallocate_sync(p, 256);
}

TEST_CASE("a layer that counts says what passed, and what was refused") {
    statistics memory{limiting{host_resource{}, 64_KiB}};
    memory.deallocate_sync(memory.allocate_sync(2_KiB), 2_KiB);
    CHECK(memory.try_allocate_sync(65_KiB) == nullptr);
    // clang-format off
    CHECK(report(memory) == "layer                  peak  allocations  refused           budget\n"
                            "statistics         2.00 KiB            1        1\n"
                            "  limiting                                         0 B of 64.0 KiB\n"
                            "    host_resource\n");
    // clang-format on
}

TEST_CASE("of a layer over two, both branches are shown") {
    fallback    memory{limiting{doubles::archetype<>{}, 1_KiB}, doubles::archetype<>{}};
    void* const p    = memory.allocate_sync(2_KiB);
    auto const  text = report(memory);
    // clang-format off
    CHECK(text == "layer              live      peak      held  peak held  allocations           budget\n"
                  "fallback\n"
                  "  limiting                                                           0 B of 1.00 KiB\n"
                  "    archetype\n"
                  "  archetype    2.00 KiB  2.00 KiB  2.00 KiB   2.00 KiB            1\n");
    // clang-format on
    memory.deallocate_sync(p, 2_KiB);
}
