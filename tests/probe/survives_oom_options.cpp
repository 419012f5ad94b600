// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/survives_oom_options.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

TEST_CASE("survives_oom_options: without options every request is refused, in both ways") {
    vram::survives_oom_options const usual;
    CHECK(usual.only == 0);
    CHECK(usual.for_good);
    CHECK(usual.most_refusals > 1);
}
