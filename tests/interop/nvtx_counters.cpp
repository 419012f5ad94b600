// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/nvtx_counters.hpp> // first: the header stands alone

#include "../doubles/mishaps.hpp"
#include "../doubles/nvtx/tool.hpp"
#include "../laws/effort.hpp"
#include "nvtx_pools.hpp"

#include <vram/layer/fallback.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace nvtx_counters_tests {

using namespace vram;
using doubles::nvtx_tool;

static_assert(observer<nvtx_counters, sim_stream_view>);

TEST_CASE("nvtx_counters: the samples of every pool have its live, reserved and peak bytes") {
    nvtx_tool& tool = nvtx_tool::get();
    nvtx_tests::for_pools([&](std::string const& name, auto make) {
        for (unsigned seed = 1; seed != 4; ++seed) {
            tool.clear();
            sim_node      node{{.on_report = sim_on_report::collect}};
            nvtx_counters seen;
            std::size_t   peak = 0;
            {
                auto memory = make(seen);
                nvtx_tests::play(memory, seed, 600, [&](nvtx_tests::blocks const& live, auto&) {
                    auto const        last = tool.last(name);
                    std::size_t const sum  = nvtx_tests::sum_of(live);
                    if (peak < sum) { peak = sum; }
                    if (last.live == -1 && sum == 0) { return; } // no chunk yet
                    REQUIRE(last.live == static_cast<std::int64_t>(sum));
                    REQUIRE(last.peak == static_cast<std::int64_t>(peak));
                    REQUIRE(last.reserved >= last.live);
                    auto const of_tags =
                        std::max(tool.last(name + ": nvtx odd").live, std::int64_t{0}) +
                        std::max(tool.last(name + ": nvtx even").live, std::int64_t{0});
                    REQUIRE(of_tags <= last.live);
                });
                CHECK(seen.attached());
            }
            for (auto const& [id, group] : tool.groups) {
                CAPTURE(group.name);
                REQUIRE(!group.samples.empty());
                CHECK(group.samples.back().live == 0);
                CHECK(group.samples.back().reserved == 0);
            }
            CHECK(node.take_reports().empty());
            CHECK(tool.wrong == std::vector<std::string>{});
        }
    });
}

TEST_CASE("nvtx_counters: with the largest step, no change is a sample") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    sim_node const node{};
    sim_stream     s;
    nvtx_counters  seen{{.name = "", .step = ~std::size_t{0}}};
    {
        pool        memory{observed{stream_ordered{sim_resource{}}, seen}};
        void* const p = memory.allocate(s, 1000);
        CHECK(tool.named("pool").samples.empty());
        memory.deallocate(s, p, 1000);
    }
    CHECK(tool.named("pool").samples.empty());
}

TEST_CASE("nvtx_counters: copies in two upstreams count a pool over both once") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    sim_node const node{};
    sim_stream     s;
    nvtx_counters  seen;
    auto const     part = [&] { return observed{stream_ordered{sim_resource{}}, seen}; };
    {
        pool        memory{fallback{part(), part()}};
        void* const p = memory.allocate(s, 1000);
        CHECK(tool.last("pool").live == 1000);
        memory.deallocate(s, p, 1000);
        CHECK(tool.last("pool").live == 0);
    }
    CHECK(tool.last("pool").reserved == 0);
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE("nvtx_counters: reserved bytes are those of the pool, also of its tags") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    sim_node const node{};
    sim_stream     s;
    nvtx_counters  seen;
    pool memory{observed{stream_ordered{sim_resource{}}, std::ref(seen)}, {}, fixed_growth{1_MiB}};
    void* const p = memory.allocate(s, 100);
    void*       q = nullptr;
    {
        tagged const outer{"nvtx train"};
        tagged const inner{"optimizer"};
        q = memory.allocate(s, 3_MiB);
    }
    auto const reserved = [&](char const* group) {
        return static_cast<std::size_t>(tool.last(group).reserved);
    };
    CHECK(reserved("pool") == memory.usage().reserved);
    CHECK(reserved("pool: nvtx train/optimizer") == memory.usage().reserved - 1_MiB);
    CHECK(tool.last("pool: nvtx train/optimizer").live == 3_MiB);
    CHECK(tool.groups.size() == 2);
    memory.deallocate(s, q, 3_MiB);
    CHECK(tool.last("pool: nvtx train/optimizer").live == 0);
    CHECK(tool.last("pool: nvtx train/optimizer").peak == 3_MiB);
    memory.deallocate(s, p, 100);
    memory.trim();
    CHECK(tool.last("pool").reserved == 0);
    CHECK(tool.last("pool: nvtx train/optimizer").reserved == 0);
}

TEST_CASE("nvtx_counters: a refused free changes nothing") {
    doubles::mishaps const told;
    nvtx_tool&             tool = nvtx_tool::get();
    tool.clear();
    sim_node const node{{.on_report = sim_on_report::collect}};
    sim_stream     s;
    nvtx_counters  seen;
    pool           memory{observed{stream_ordered{sim_resource{}}, std::ref(seen)}};
    void* const    p = memory.allocate(s, 1000);
    memory.deallocate(s, p, 2000);
    memory.deallocate(s, &seen, 1000);
    CHECK(tool.last("pool").live == 1000);
    memory.deallocate(s, p, 1000, 2 * default_alignment);
    CHECK(tool.last("pool").live == 1000);
    memory.deallocate(s, p, 1000);
    memory.deallocate(s, p, 1000);
    CHECK(tool.last("pool").live == 0);
    CHECK(told.count() == 4);
}

TEST_CASE("nvtx_counters: an observer that was moved from is still one") {
    nvtx_tests::observer_after_a_move<nvtx_counters>();
}

TEST_CASE("nvtx_counters: without a tool nothing is called after the first chunk") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    tool.attached = false;
    sim_node const    node{};
    sim_stream        s;
    nvtx_counters     seen{{.name = "without a tool "}};
    pool              memory{observed{stream_ordered{sim_resource{}}, std::ref(seen)}};
    void* const       p     = memory.allocate(s, 1000);
    std::size_t const calls = tool.calls;
    memory.deallocate(s, p, 1000);
    memory.deallocate(s, memory.allocate(s, 100_MiB), 100_MiB);
    memory.trim();
    CHECK(tool.calls == calls);
    CHECK_FALSE(seen.attached());
}

TEST_CASE("nvtx_counters: the counters of several threads end at zero") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    sim_node const node{};
    nvtx_counters  seen{{.name = "threads "}};
    {
        arena memory{observed{stream_ordered{sim_resource{}}, std::ref(seen)}, {.count = 4}};
        std::vector<std::thread> threads;
        for (unsigned i = 0; i != 4; ++i) {
            threads.emplace_back([&memory, i] {
                sim_stream   s;
                tagged const scope{i % 2 == 0 ? "nvtx even" : "nvtx odd"};
                void*        held = nullptr;
                for (unsigned n = 0; n != laws::of_many(2000); ++n) {
                    void* const next = memory.allocate(s, 1000 + i);
                    if (held != nullptr) { memory.deallocate(s, held, 1000 + i); }
                    held = next;
                }
                memory.deallocate(s, held, 1000 + i);
            });
        }
        for (auto& each : threads) { each.join(); }
        CHECK(tool.last("threads arena").peak <= 8024);
        memory.upstream().mark("all freed");
        CHECK(tool.last("threads arena").live == 0);
        CHECK(tool.last("threads arena: nvtx odd").live == 0);
        CHECK(tool.last("threads arena").reserved > 0);
    }
    CHECK(tool.last("threads arena").reserved == 0);
    CHECK(tool.last("threads arena: nvtx even").live == 0);
    CHECK(tool.wrong == std::vector<std::string>{});
}

} // namespace nvtx_counters_tests
