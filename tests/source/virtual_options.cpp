// SPDX-License-Identifier: Apache-2.0
#include <vram/source/virtual_options.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("virtual_options: a size alone is enough") {
    virtual_options const o{.handle_size = 4_MiB};
    CHECK(o.reserve == 0);
    CHECK(o.keep == 0);
    CHECK(virtual_options{}.handle_size == 2_MiB);
}
