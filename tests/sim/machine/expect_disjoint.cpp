// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/expect_disjoint.hpp> // first: the header stands alone

#include <vram/sim/machine/sim_virtual_memory.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

// The reports are tested in sim_copy.cpp.

using namespace vram;
using namespace vram::detail;

TEST_CASE("first_overlap: a range that is written and accessed again is found, with its bounds") {
    std::byte  memory[100];
    auto const range = [&](std::size_t from, std::size_t bytes) {
        return sim_range{memory + from, bytes};
    };
    using uses = std::vector<sim_task::use>;
    CHECK(first_overlap(uses{}).bytes == 0);
    CHECK(first_overlap(uses{{range(0, 50), sim_access::read}, {range(50, 50), sim_access::write}})
              .bytes == 0);
    CHECK(first_overlap(uses{{range(0, 60), sim_access::read}, {range(50, 50), sim_access::read}})
              .bytes == 0); // reads may overlap
    sim_range const both =
        first_overlap(uses{{range(50, 50), sim_access::write}, {range(0, 60), sim_access::read}});
    CHECK(both.begin() == range(50, 1).begin());
    CHECK(both.bytes == 10);
    CHECK(first_overlap(uses{{range(10, 0), sim_access::write}, {range(0, 60), sim_access::read}})
              .bytes == 0); // an empty range
}

TEST_CASE("mapped_uses: one memory at two addresses gets one address, other ranges stay") {
    sim_node                 node{{.page = 64_KiB}};
    sim_virtual_memory const memory;
    auto* const              p      = static_cast<std::byte*>(memory.reserve(192_KiB, 64_KiB));
    auto const               one    = memory.create(64_KiB);
    auto const               second = memory.create(64_KiB);
    memory.map(p, one, 64_KiB);
    memory.map(p + 64_KiB, one, 64_KiB);
    memory.map(p + 128_KiB, second, 64_KiB);
    std::byte  outside[8];
    auto const all =
        mapped_uses(node.machine().memory, {{{p + 10, 20}, sim_access::read},
                                            {{p + 128_KiB - 30, 40}, sim_access::write},
                                            {{outside, 8}, sim_access::read}});
    REQUIRE(all.size() == 4);
    CHECK(all[0].range.data == p + 10);
    CHECK(all[1].range.data == p + 64_KiB - 30); // in the first mapping of the memory
    CHECK(all[1].range.bytes == 30);
    CHECK(all[2].range.data == p + 128_KiB);
    CHECK(all[2].range.bytes == 10);
    CHECK(all[2].access == sim_access::write);
    CHECK(all[3].range.data == outside);
    memory.unmap(p, 192_KiB);
    CHECK(mapped_uses(node.machine().memory, {{{p, 20}, sim_access::read}}).empty());
    memory.destroy(one, 64_KiB);
    memory.destroy(second, 64_KiB);
    memory.release(p, 192_KiB);
}
