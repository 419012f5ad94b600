// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/growth_options.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

TEST_CASE("growth_options: without options the live bytes are watched") {
    vram::growth_options const usual;
    CHECK(usual.of == vram::growth_of::live);
    CHECK(usual.steps > 8);
}
