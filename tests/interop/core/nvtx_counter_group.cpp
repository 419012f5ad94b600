// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/core/nvtx_counter_group.hpp> // first: the header stands alone

#include "../../doubles/nvtx/tool.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using doubles::nvtx_tool;
using vram::detail::nvtx_counter_group;

TEST_CASE(
    "nvtx_counter_group: a group has live, reserved and peak bytes, which the tool gets together") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    auto const group = nvtx_counter_group::add("of nvtx_counter_group", "a test");
    REQUIRE(group.known());
    group.sample({.live = 1, .reserved = 2, .peak = 3});
    group.sample({.live = 4, .reserved = 5, .peak = 6});
    auto const& seen = tool.named("of nvtx_counter_group").samples;
    REQUIRE(seen.size() == 2);
    CHECK((seen[0] == nvtx_tool::sample{1, 2, 3}));
    CHECK((seen[1] == nvtx_tool::sample{4, 5, 6}));
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE("nvtx_counter_group: without a tool a group is not known") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    tool.attached = false;
    CHECK_FALSE(nvtx_counter_group::add("unknown", "a test").known());
    CHECK_FALSE(nvtx_counter_group{}.known());
    CHECK(tool.groups.empty());
}

TEST_CASE("nvtx_counter_group: a group that is not used any more is used again for its name") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    auto const first  = nvtx_counter_group::add("used again", "a test");
    auto const second = nvtx_counter_group::add("used again", "a test"); // both are used
    CHECK(tool.groups.size() == 2);
    first.sample({.live = 1});
    first.release();
    CHECK_FALSE(nvtx_counter_group::add("used again", "another test").last().live == 1);
    CHECK(tool.groups.size() == 3);
    for (int i = 0; i != 10; ++i) {
        auto const third = nvtx_counter_group::add("used again", "a test");
        CHECK(third.last().live == (i == 0 ? 1 : 2));
        third.sample({.live = 2});
        third.release();
    }
    CHECK(tool.groups.size() == 3);
    second.release();
    nvtx_counter_group{}.release();
    CHECK(tool.wrong == std::vector<std::string>{});
}
