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

TEST_CASE("nvtx_account: a few changes by several threads are each sampled") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    nvtx_account a{"account", "a test", 0};
    for (int i = 0; i != 100; ++i) {
        std::thread{[&] { a.change(10, 0); }}.join();
        a.change(-9, 0);
        REQUIRE(tool.last("account").live == i + 1);
        REQUIRE(tool.last("account").peak == i + 10);
    }
    CHECK(tool.named("account").samples.size() == 200);
}

namespace nvtx_account_tests {

constexpr std::int64_t mib = 1 << 20;

/// Makes `a` add the changes of each thread up, with 0 live and 1 reserved byte at the end.
void alternate(nvtx_account& a) {
    a.change(0, 1);
    for (unsigned i = 0; i != nvtx_account::exact_switches / 2; ++i) {
        std::thread{[&] { a.change(10, 0); }}.join();
        a.change(-10, 0);
    }
    a.flush();
}

} // namespace nvtx_account_tests

using namespace nvtx_account_tests;

TEST_CASE("nvtx_account: changes are added up after 256 that follow one of another thread") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    nvtx_account a{"account", "a test", 0};
    a.change(1, 0); // follows no change
    auto const& samples = tool.named("account").samples;
    for (unsigned i = 0; i != nvtx_account::exact_switches; ++i) {
        auto const change = [&] { a.change(1, 0); };
        if (i % 2 == 0) {
            std::thread{change}.join();
        } else {
            change();
        }
        REQUIRE(samples.size() == i + 2);
    }
    a.change(1, 0);
    CHECK(samples.size() == nvtx_account::exact_switches + 1);
    a.flush();
    CHECK(tool.last("account").live == nvtx_account::exact_switches + 2);
}

TEST_CASE("nvtx_account: more threads than there are shards change the values at the same time") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    nvtx_account a{"account", "a test", 0};
    alternate(a);
    constexpr int            count = 70;
    std::atomic<int>         begun{0};
    std::vector<std::thread> threads;
    for (int i = 0; i != count; ++i) {
        threads.emplace_back([&] {
            ++begun;
            while (begun.load() != count) { std::this_thread::yield(); } // all have numbers
            for (int n = 0; n != 300; ++n) {
                a.change(1000, 0);
                if (n % 100 == 0) { a.change(0, 1); }
                a.change(-999, 0);
            }
        });
    }
    for (auto& each : threads) { each.join(); }
    a.flush();
    auto const last = tool.last("account");
    CHECK(last.live == count * 300);
    CHECK(last.reserved == 1 + count * 3);
    CHECK(last.peak >= last.live);
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE("nvtx_account: with many threads, small changes are added up, and large ones sampled") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    nvtx_account a{"account", "a test", 0};
    alternate(a);
    auto const& samples = tool.named("account").samples;
    auto const  before  = samples.size();
    for (int i = 0; i != 16; ++i) { a.change(mib / 16 - 1, 0); }
    CHECK(samples.size() == before);
    a.change(16, 0);
    CHECK((tool.last("account") == nvtx_tool::sample{mib, 1, mib}));
    a.change(-mib, 0);
    CHECK((tool.last("account") == nvtx_tool::sample{0, 1, mib}));
    a.change(mib * 1280, 0); // a peak of which 1/128 is 10 MiB
    a.change(-mib * 1280, 0);
    CHECK(samples.size() == before + 4);
    a.change(mib * 9, 0);
    CHECK(samples.size() == before + 4);
    a.change(mib, 0);
    CHECK((tool.last("account") == nvtx_tool::sample{10 * mib, 1, 1280 * mib}));
}

TEST_CASE("nvtx_account: with many threads, a change of reserved bytes samples all changes") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    nvtx_account a{"account", "a test", 0};
    alternate(a);
    std::thread{[&] { a.change(70, 0); }}.join();
    a.change(-10, 0);
    CHECK(tool.last("account").live == 0);
    a.change(0, 99);
    CHECK((tool.last("account") == nvtx_tool::sample{60, 100, 60}));
    std::thread{[&] { a.change(1, 0); }}.join();
    a.flush();
    CHECK((tool.last("account") == nvtx_tool::sample{61, 100, 61}));
    auto const count = tool.named("account").samples.size();
    a.flush();
    CHECK(tool.named("account").samples.size() == count);
}

TEST_CASE("nvtx_account: with many threads, values are sampled at intervals") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    nvtx_account a{"account", "a test", 0};
    alternate(a);
    auto const before = tool.named("account").samples.size();
    for (unsigned i = 0; i != 10 * nvtx_account::most_pending; ++i) { a.change(1, 0); }
    CHECK(tool.named("account").samples.size() == before + 10);
    CHECK(tool.last("account").live == 10 * nvtx_account::most_pending);
}

TEST_CASE("nvtx_account: with many threads, live bytes are never negative or above the peak") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    nvtx_account             a{"account", "a test", 0};
    std::atomic<int>         blocks{0}; // of 400 KiB, allocated and not freed
    std::vector<std::thread> threads;
    constexpr int            most = 8;
    for (int i = 0; i != 4; ++i) {
        threads.emplace_back([&, i] {
            for (int n = 0; n != 20'000; ++n) {
                int live = blocks.load();
                if ((n + i) % 3 != 0) {
                    if ((live & 255) < most && blocks.compare_exchange_strong(live, live + 1)) {
                        a.change(400 << 10, 0);
                        blocks += 1 << 8; // may be freed
                    }
                } else if (live >> 8 > 0 && blocks.compare_exchange_strong(live, live - (1 << 8))) {
                    a.change(-(400 << 10), 0);
                    blocks -= 1;
                }
            }
        });
    }
    for (auto& each : threads) { each.join(); }
    a.flush();
    CHECK(tool.last("account").live == (blocks.load() >> 8) * std::int64_t{400 << 10});
    for (auto const& each : tool.named("account").samples) {
        REQUIRE(each.live >= 0);
        REQUIRE(each.live <= each.peak);
        REQUIRE(each.peak <= most * std::int64_t{400 << 10});
    }
    CHECK(tool.wrong == std::vector<std::string>{});
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
