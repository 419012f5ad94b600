// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/slot_states.hpp> // first: the header stands alone

#include <doctest/doctest.h>

TEST_CASE("slot_states: two are equal if all counts are") {
    vram::slot_states const none;
    CHECK(none == vram::slot_states{});
    CHECK_FALSE(none == vram::slot_states{.held = 1});
    CHECK_FALSE(none == vram::slot_states{.waiting = 1});
}
