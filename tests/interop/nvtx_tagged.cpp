// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/nvtx_tagged.hpp> // first: the header stands alone

#include "../doubles/nvtx/tool.hpp"

#include <doctest/doctest.h>

#include <string>
#include <type_traits>
#include <vector>

using doubles::nvtx_tool;
using namespace vram;

static_assert(std::is_nothrow_constructible_v<nvtx_tagged, memory_tag> &&
              !std::is_constructible_v<nvtx_tagged, int>);
static_assert(!std::is_copy_constructible_v<nvtx_tagged> &&
              !std::is_move_assignable_v<nvtx_tagged>);

TEST_CASE("nvtx_tagged: scopes are tags, and ranges of the thread with the innermost name") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    {
        nvtx_tagged const outer{"nvtx train"};
        {
            std::string const name = "optimizer";
            nvtx_tagged const inner{name};
            CHECK(current_tag().path() == std::string{"nvtx train/optimizer"});
            nvtx_tagged const whole{current_tag()};
            CHECK(current_tag().path() == std::string{"nvtx train/optimizer"});
        }
        CHECK(current_tag().path() == std::string{"nvtx train"});
        char const* const text = "loss";
        nvtx_tagged const last{text, 4U};
        CHECK(current_tag().path() == std::string{"nvtx train/loss"});
        char              buffer[] = "step 1";
        nvtx_tagged const copied{buffer};
        buffer[5] = '2'; // the name was copied
        CHECK(current_tag().path() == std::string{"nvtx train/loss/step 1"});
    }
    CHECK_FALSE(current_tag().known());
    std::vector<std::string> const expected{"+nvtx train", "+optimizer", "+optimizer", "-", "-",
                                            "+loss",       "+step 1",    "-",          "-", "-"};
    CHECK(tool.ranges == expected);
    CHECK(tool.wrong == std::vector<std::string>{});
}
