// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/slab_chunk.hpp> // first: the header stands alone

#include "../../doubles/at.hpp"
#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <new>

using namespace vram;
using namespace vram::detail;
using doubles::at;

TEST_CASE("slab_chunk: all blocks begin as live, and the lowest clean block is taken first") {
    slab_chunk c{at(0x1000), 130 * 256, 256}; // more than two words of the map
    CHECK(c.live == 130);
    CHECK(c.entries.size() == 130);
    CHECK(c.entries[129].address == at(0x1000 + 129 * 256));
    for (std::size_t const i : {129U, 70U, 3U}) { c.make_clean(c.entries[i]); }
    CHECK(c.clean == 3);
    CHECK(c.live == 127);
    CHECK(c.take_lowest() == &c.entries[3]);
    CHECK(c.take_lowest() == &c.entries[70]);
    c.make_clean(c.entries[5]); // below the position of the search
    CHECK(c.take_lowest() == &c.entries[5]);
    CHECK(c.take_lowest() == &c.entries[129]);
    CHECK(c.clean == 0);
    CHECK(c.live == 130);
}

TEST_CASE("slab_chunk: a pending or retained block is neither live nor clean") {
    slab_chunk c{at(0x1000), 4 * 256, 256};
    c.make_pending(c.entries[0], 7, 9);
    c.make_pending(c.entries[1], 8, 0, slab_chunk::place::retained);
    c.make_clean(c.entries[2]);
    CHECK(c.pending() == 2);
    CHECK(c.live == 1);
    CHECK(c.entries[0].slot == 7);
    CHECK(c.entries[0].epoch == 9);
    CHECK(c.entries[0].at == slab_chunk::place::pending);
    CHECK(c.entries[1].at == slab_chunk::place::retained);
    CHECK(c.hand_out(c.entries[0]) == &c.entries[0]);
    CHECK(c.entries[0].at == slab_chunk::place::live);
    CHECK(c.pending() == 1);
    CHECK(c.live == 2);
}

TEST_CASE(
    "slab_chunk: without host memory for its descriptors it is not created, and nothing is lost") {
    for (std::uint64_t n = 1;; ++n) {
        bool             threw = false;
        doubles::bombing armed{n};
        try {
            slab_chunk const c{at(0x1000), 100 * 256, 256};
        } catch (std::bad_alloc const&) { threw = true; }
        bool const hit = armed.defuse();
        CHECK(threw == hit);
        if (!hit) { return; }
    }
}
