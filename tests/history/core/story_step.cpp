// SPDX-License-Identifier: Apache-2.0
#include <vram/history/core/story_step.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using vram::detail::story_step;

TEST_CASE("story_step: a step is left out by default, and its block is older than the record") {
    story_step const step;
    CHECK(step.what == story_step::action::none);
    CHECK(step.origin == story_step::unknown);
}
