// SPDX-License-Identifier: Apache-2.0
#include <vram/staging/transfer_path.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstring>

using vram::transfer_path;

TEST_CASE("transfer_path: every path has a name and a reason") {
    for (unsigned a = 0; a <= static_cast<unsigned>(transfer_path::gds); ++a) {
        for (unsigned b = 0; b <= static_cast<unsigned>(transfer_path::gds); ++b) {
            auto const x = static_cast<transfer_path>(a), y = static_cast<transfer_path>(b);
            CHECK((std::strcmp(vram::name(x), vram::name(y)) == 0) == (a == b));
            CHECK((std::strcmp(vram::reason(x), vram::reason(y)) == 0) == (a == b));
        }
    }
    CHECK(std::strcmp(vram::name(transfer_path::ring), "ring") == 0);
}
