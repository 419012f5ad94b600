// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/block.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("block: its descriptor has the start and the end of the block") {
    block b;
    b.address = 0x1000;
    b.bytes   = 256;
    CHECK(b.end() == 0x1100);
    CHECK(b.pointer() == reinterpret_cast<void*>(0x1000));
    CHECK(b.now == block::state::live);
    CHECK(b.waits_for().empty());
}

TEST_CASE("block: a pending use covers the whole block, or is in a separate node") {
    block b;
    b.address = 0x1000;
    b.bytes   = 256;
    b.slot    = 3;
    b.epoch   = 5;
    CHECK(*b.waits_for().begin() == tag{0x1000, 0x1100, 5, 3});
    use_node part{.what = tags{{0x1000, 0x1080, 7, 1}}};
    b.slot = block::several;
    b.note = &part;
    CHECK(*b.waits_for().begin() == tag{0x1000, 0x1080, 7, 1});
}
