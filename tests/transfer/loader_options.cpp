// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/loader_options.hpp> // first: the header stands alone

#include <doctest/doctest.h>

TEST_CASE("loader_options: the defaults are two slots, one producer, ordered, without limits of "
          "memory and time") {
    vram::loader_options const o;
    CHECK(o.depth == 2);
    CHECK(o.producers == 1);
    CHECK(o.ordered);
    CHECK(o.last == vram::last_batch::keep);
    CHECK(o.budget == vram::unsatisfiable);
    CHECK(o.timeout.count() == 0);
    CHECK(o.call_back);
    CHECK_FALSE((o.shuffle || o.pageable_fallback || o.numa_local || o.checker || o.timing));
}
