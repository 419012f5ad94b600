// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/staging_choice.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstring>

using vram::staging_choice;

TEST_CASE("staging_choice: every way has a word and a reason of its own") {
    for (unsigned a = 0; a <= static_cast<unsigned>(staging_choice::gds); ++a) {
        for (unsigned b = 0; b <= static_cast<unsigned>(staging_choice::gds); ++b) {
            auto const x = static_cast<staging_choice>(a), y = static_cast<staging_choice>(b);
            CHECK((std::strcmp(vram::name(x), vram::name(y)) == 0) == (a == b));
            CHECK((std::strcmp(vram::reason(x), vram::reason(y)) == 0) == (a == b));
        }
    }
    CHECK(std::strcmp(vram::name(staging_choice::ring), "ring") == 0);
}
