// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/event_policy.hpp> // first: the header stands alone

#include <vram/pool/pool_options.hpp>

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("event_policy: the default is lazy") {
    CHECK(event_policy{} == event_policy::lazy);
    CHECK(pool_options{}.events == event_policy::lazy);
}
