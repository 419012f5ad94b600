// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/core/nvtx_account.hpp> // first: the header stands alone

#include "../../doubles/nvtx/tool.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using doubles::nvtx_tool;
using vram::detail::nvtx_account;

TEST_CASE("nvtx_account: each change is sampled, and the peak is the most live bytes") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    nvtx_account a{"account", "a test", 0};
    REQUIRE(a.known());
    a.change(0, 100);
    a.change(60, 0);
    a.change(-20, 0);
    a.change(10, 0);
    a.change(0, -50);
    std::vector<nvtx_tool::sample> const expected{
        {0, 100, 0}, {60, 100, 60}, {40, 100, 60}, {50, 100, 60}, {50, 50, 60}};
    CHECK(tool.named("account").samples == expected);
    a.flush();
    CHECK(tool.named("account").samples == expected);
}

TEST_CASE("nvtx_account: changes of less than a step are sampled together") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    nvtx_account a{"account with steps", "a test", 100};
    a.change(99, 0);
    CHECK(tool.named("account with steps").samples.empty());
    a.change(1, 0);
    CHECK(tool.named("account with steps").samples.size() == 1);
    a.change(-99, 0);
    a.change(0, 99);
    CHECK(tool.named("account with steps").samples.size() == 1);
    a.change(0, 1);
    CHECK((tool.last("account with steps") == nvtx_tool::sample{1, 100, 100}));
    a.change(150, 0);
    a.change(-30, 0);
    CHECK((tool.last("account with steps") == nvtx_tool::sample{151, 100, 151}));
    a.flush();
    CHECK((tool.last("account with steps") == nvtx_tool::sample{121, 100, 151}));
    CHECK(tool.named("account with steps").samples.size() == 4);
}

TEST_CASE(
    "nvtx_account: a later account with the same name continues from the values of the tool") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    { nvtx_account{"account again", "a test", 100}.change(1000, 1000); }
    CHECK((tool.last("account again") == nvtx_tool::sample{1000, 1000, 1000}));
    nvtx_account a{"account again", "a test", 100};
    a.change(10, 0);
    CHECK((tool.last("account again") == nvtx_tool::sample{10, 0, 10}));
    CHECK(tool.groups.size() == 1);
}

TEST_CASE("nvtx_account: a change during a sample is sampled by the thread that samples") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    nvtx_account a{"account", "a test", 0};
    int          more = 3;
    tool.after_sample = [&] { // as if it came from another thread
        if (more-- > 0) { a.change(10, 1); }
    };
    a.change(1, 0);
    std::vector<nvtx_tool::sample> const expected{{1, 0, 1}, {11, 1, 11}, {21, 2, 21}, {31, 3, 31}};
    CHECK(tool.named("account").samples == expected);
}

TEST_CASE("nvtx_account: the last sample has the last values, also after many changes during it") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    nvtx_account a{"account", "a test", 0};
    int          more = 1000;
    tool.after_sample = [&] {
        if (more-- > 0) { a.change(1, 0); }
    };
    a.change(1, 0);
    CHECK(tool.last("account").live == 1001);
    more              = 1000;
    tool.after_sample = [&] { // the live bytes are the same after it, but there is a new peak
        if (more-- > 0) { a.change(2, 0), a.change(-2, 0); }
    };
    a.change(1, 0);
    CHECK((tool.last("account") == nvtx_tool::sample{1002, 0, 1004}));
}

TEST_CASE(
    "nvtx_account: the last values are sampled, whatever the number of changes during samples") {
    nvtx_tool& tool = nvtx_tool::get();
    for (std::int64_t const step : {0, 3}) {
        for (int changes = 0; changes != 70; ++changes) {
            tool.clear();
            std::string const name = "account with step " + std::to_string(step);
            nvtx_account      a{name, "a test", step};
            std::int64_t      live = 3;
            tool.after_sample      = [&] {
                if (live != 3 * (changes + 1)) { a.change(3, 0), live += 3; }
            };
            a.change(3, 0);
            CHECK((tool.last(name) == nvtx_tool::sample{live, 0, live}));
            a.change(-live, 0); // no thread samples any more
            CHECK((tool.last(name) == nvtx_tool::sample{0, 0, live}));
        }
    }
}

TEST_CASE("nvtx_account: many changes by other threads during a sample are one more sample") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    nvtx_account a{"account", "a test", 0};
    bool         first = true;
    tool.after_sample  = [&] {
        if (!std::exchange(first, false)) { return; }
        std::thread one{[&] {
            for (int i = 0; i != 100; ++i) { a.change(2, 1); }
        }};
        one.join();
        std::thread other{[&] {
            for (int i = 0; i != 100; ++i) { a.change(-1, 0); }
        }};
        other.join();
    };
    a.change(10, 0);
    std::vector<nvtx_tool::sample> const expected{{10, 0, 10}, {110, 100, 210}};
    CHECK(tool.named("account").samples == expected);
}

TEST_CASE("nvtx_account: changes during a sample that cancel each other are no sample") {
    for (std::int64_t const step : {0, 8}) {
        nvtx_tool& tool = nvtx_tool::get();
        tool.clear();
        std::string const name = "account with step " + std::to_string(step);
        nvtx_account      a{name, "a test", step};
        a.change(20, 0);
        int more          = 20;
        tool.after_sample = [&] {
            if (more-- > 0) { a.change(-10, 0), a.change(10, 0); }
        };
        a.change(-10, 0);
        std::vector<nvtx_tool::sample> const expected{{20, 0, 20}, {10, 0, 20}};
        CHECK(tool.named(name).samples == expected);
        CHECK(more == 19);
        a.change(10, 0); // no thread samples any more
        CHECK((tool.last(name) == nvtx_tool::sample{20, 0, 20}));
    }
}

TEST_CASE("nvtx_account: a thread does not sample for the others without end") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    nvtx_account      a{"account", "a test", 0};
    std::atomic<bool> ended{false};
    std::thread       other{[&] {
        while (!ended) { a.change(1, 0), a.change(-1, 0); }
    }};
    for (int i = 0; i != 100; ++i) { a.change(1, 0); } // returns although the other continues
    ended = true;
    other.join();
    CHECK(tool.last("account").live == 100);
}

TEST_CASE("nvtx_account: the last sample of several threads has the last values") {
    nvtx_tool& tool = nvtx_tool::get();
    for (int run = 0; run != 20; ++run) {
        tool.clear();
        nvtx_account             a{"account", "a test", 0};
        std::vector<std::thread> threads;
        for (int i = 0; i != 4; ++i) {
            threads.emplace_back([&a, i] {
                for (int n = 0; n != 50; ++n) {
                    a.change(10 + i, 7);
                    a.change(-10 - i, -7);
                }
                a.change(1, 2);
            });
        }
        for (auto& each : threads) { each.join(); }
        auto const last = tool.last("account");
        CHECK(last.live == 4);
        CHECK(last.reserved == 8);
        for (auto const& each : tool.named("account").samples) {
            REQUIRE(each.peak >= each.live);
            REQUIRE(each.peak <= last.peak);
        }
    }
    CHECK(tool.wrong == std::vector<std::string>{});
}
