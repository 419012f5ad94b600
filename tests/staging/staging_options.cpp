// SPDX-License-Identifier: Apache-2.0
#include <vram/staging/staging_options.hpp> // first: the header stands alone

#include <doctest/doctest.h>

TEST_CASE("staging_options: the defaults are two chunks of 4 MiB for each of up to eight threads") {
    vram::staging_options o;
    CHECK(o.chunks == 2);
    CHECK(o.chunk_bytes == 4U << 20U);
    CHECK(o.direct_bytes == 1U << 20U);
    CHECK(o.alone_bytes == 512U << 10U);
    CHECK_FALSE(o.streaming.has_value());
    CHECK(o.resolved_threads() >= 1);
    CHECK(o.resolved_threads() <= 8);
    o.threads = 11;
    CHECK(o.resolved_threads() == 11);
}
