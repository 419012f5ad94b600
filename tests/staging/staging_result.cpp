// SPDX-License-Identifier: Apache-2.0
#include <vram/staging/staging_result.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstring>

using namespace vram;

TEST_CASE("staging_result: results can be compared, and have a reason") {
    staging_result const a{5, transfer_path::direct_small, 1, 1};
    CHECK(a == staging_result{5, transfer_path::direct_small, 1, 1});
    CHECK(a != staging_result{});
    CHECK(std::strcmp(a.reason(), reason(transfer_path::direct_small)) == 0);
}
