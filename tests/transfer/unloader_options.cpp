// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/unloader_options.hpp> // first: the header stands alone

#include <doctest/doctest.h>

TEST_CASE("unloader_options: the defaults are two slots of 4 MiB, and no memory limit") {
    vram::unloader_options const o;
    CHECK(o.depth == 2);
    CHECK(o.batch_bytes == 4U << 20U);
    CHECK(o.budget == vram::unsatisfiable);
    CHECK_FALSE((o.pageable_fallback || o.numa_local));
}
