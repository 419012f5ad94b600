// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/block.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("block: a note says where its piece begins and ends") {
    block b;
    b.address = 0x1000;
    b.bytes   = 256;
    CHECK(b.end() == 0x1100);
    CHECK(b.pointer() == reinterpret_cast<void*>(0x1000));
    CHECK_FALSE(b.free);
    CHECK(b.waits_for.empty());
}
