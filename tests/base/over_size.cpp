// SPDX-License-Identifier: Apache-2.0
#include <vram/base/over_size.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstring>
#include <new>

using namespace vram;

TEST_CASE("over_size: it is an out_of_memory with the block size of the resource") {
    try {
        throw over_size{5000, 512, 4096};
    } catch (std::bad_alloc const& e) {
        auto const& said = dynamic_cast<over_size const&>(e);
        CHECK(said.block_bytes() == 4096);
        CHECK(said.numbers().asked == 5000);
        CHECK(said.numbers().rounded == 5000);
        CHECK(said.numbers().alignment == 512);
        CHECK(!said.numbers().has_limit());
        CHECK(std::strstr(e.what(), "vram: ") == e.what());
    }
}
