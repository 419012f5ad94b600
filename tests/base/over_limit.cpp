// SPDX-License-Identifier: Apache-2.0
#include <vram/base/over_limit.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <string>
#include <type_traits>

using namespace vram;

TEST_CASE("over_limit: it is an out_of_memory with the remaining bytes of the limit") {
    static_assert(std::is_base_of_v<out_of_memory, over_limit>);
    over_limit const e{50, 60, 100};
    CHECK(e.room() == 40);
    CHECK(e.numbers().asked == 50);
    CHECK(e.numbers().rounded == 50);
    CHECK(e.numbers().live == 60);
    CHECK(e.numbers().limit == 100);
    CHECK(std::string{e.what()} == "vram: over the limit (vram::explain(e) has the numbers)");
}

TEST_CASE("over_limit: no bytes are left if more bytes count than the limit") {
    CHECK(over_limit{50, 120, 100}.room() == 0);
    CHECK(over_limit{50, 100, 100}.room() == 0);
}
