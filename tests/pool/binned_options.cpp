// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/binned_options.hpp> // first: the header stands alone

#include <doctest/doctest.h>

TEST_CASE("binned_options: the defaults are small blocks up to 1 MiB and no limit") {
    vram::binned_options const o;
    CHECK(o.largest == 1 << 20);
    CHECK(o.max_size == vram::unsatisfiable);
    CHECK(o.events == vram::event_policy::lazy);
    CHECK_FALSE(o.graphs);
}
