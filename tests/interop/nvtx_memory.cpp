// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/nvtx_memory.hpp> // first: the header stands alone

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
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace nvtx_memory_tests {

using namespace vram;
using doubles::nvtx_tool;

static_assert(observer<nvtx_memory, sim_stream_view> && skipping_observer<nvtx_memory>);

/// Returns the first live block that is not exactly regions of the tool, or the first region that
/// is no live block, as text.
std::string difference(nvtx_tests::blocks const& live, bool may_be_split) {
    nvtx_tool&  tool   = nvtx_tool::get();
    std::size_t pieces = 0;
    for (auto const& [at, bytes] : live) {
        std::string const what = std::to_string(bytes) + " bytes at " + std::to_string(at);
        for (std::uintptr_t from = at; from != at + bytes;) {
            auto const after = tool.heaps.upper_bound(from);
            if (after == tool.heaps.begin()) { return "in no heap: " + what; }
            auto const& [heap, in] = *std::prev(after);
            if (from - heap >= in.bytes) { return "past its heap: " + what; }
            std::size_t const size  = std::min(at + bytes, heap + in.bytes) - from;
            auto const        found = in.regions.find(from);
            if (found == in.regions.end()) { return "no region: " + what; }
            if (found->second != size) { return "a region of another size: " + what; }
            if (size != bytes && !may_be_split) { return "split: " + what; }
            from += size;
            ++pieces;
        }
    }
    return pieces == tool.regions() ? "" : "a region that is no live block";
}

TEST_CASE("nvtx_memory: the regions of every pool are its live blocks") {
    nvtx_tool& tool = nvtx_tool::get();
    nvtx_tests::for_pools([&](std::string const&, auto make) {
        for (unsigned seed = 1; seed != 4; ++seed) {
            tool.clear();
            sim_node    node{{.on_report = sim_on_report::collect}};
            nvtx_memory seen;
            {
                auto           memory = make(seen);
                constexpr bool paged  = requires { memory.upstream().page_size(); };
                nvtx_tests::play(memory, seed, 250, [&](nvtx_tests::blocks const& live, auto&) {
                    REQUIRE(difference(live, paged) == "");
                });
                CHECK(tool.calls > 250);
            }
            CHECK(tool.heaps.empty());
            CHECK(tool.names.empty());
            CHECK_FALSE(seen.attached());
            CHECK(node.take_reports().empty());
            CHECK(tool.wrong == std::vector<std::string>{});
        }
    });
}

TEST_CASE("nvtx_memory: copies in two upstreams are notified once of a pool over both") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    sim_node const node{};
    sim_stream     s;
    nvtx_memory    seen;
    auto const     part = [&] { return observed{stream_ordered{sim_resource{}}, seen}; };
    {
        pool        memory{fallback{part(), part()}};
        void* const p     = memory.allocate(s, 1000);
        auto const  calls = tool.calls;
        CHECK(tool.heaps.size() == 1);
        CHECK(tool.regions() == 1);
        memory.deallocate(s, p, 1000);
        CHECK(tool.calls == calls + 1);
        CHECK(tool.regions() == 0);
    }
    CHECK(tool.heaps.empty());
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE("nvtx_memory: each chunk of a pool is a heap") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    sim_node const node{};
    sim_stream     s;
    nvtx_memory    seen;
    pool memory{observed{stream_ordered{sim_resource{}}, std::ref(seen)}, {}, fixed_growth{1_MiB}};
    auto heaps = [&] {
        std::size_t sum = 0;
        for (auto const& [at, h] : tool.heaps) { sum += h.bytes; }
        return sum;
    };
    void* const p = memory.allocate(s, 100);
    void* const q = memory.allocate(s, 5_MiB);
    CHECK(tool.heaps.size() == 2);
    CHECK(heaps() == memory.usage().reserved);
    memory.deallocate(s, q, 5_MiB);
    memory.trim();
    CHECK(tool.heaps.size() == 1);
    CHECK(heaps() == memory.usage().reserved);
    memory.deallocate(s, p, 100);
}

TEST_CASE(
    "nvtx_memory: the reset of a monotonic ends its regions, unwinding those since the mark") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    sim_node const node{};
    sim_stream     s;
    nvtx_memory    seen;
    monotonic      memory{
        observed{stream_ordered{sim_resource{}}, std::ref(seen)}, {}, fixed_growth{64_KiB}};
    for (int i = 0; i != 10; ++i) { (void)memory.allocate(s, 10_KiB); }
    auto const mark = memory.mark();
    for (int i = 0; i != 10; ++i) { (void)memory.allocate(s, 20_KiB); }
    CHECK(tool.regions() == 20);
    memory.unwind(mark, s);
    CHECK(tool.regions() == 10);
    memory.reset(s);
    CHECK(tool.regions() == 0);
    CHECK(tool.heaps.size() > 1);
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE("nvtx_memory: wrong frees leave the regions as they are") {
    doubles::mishaps const told;
    nvtx_tool&             tool = nvtx_tool::get();
    nvtx_tests::for_pools([&](std::string const& name, auto make) {
        tool.clear();
        sim_node    node{{.on_report = sim_on_report::collect}};
        sim_stream  s;
        nvtx_memory seen;
        auto        memory = make(seen);
        void* const p      = memory.allocate(s, 1000);
        auto const  at     = reinterpret_cast<std::uintptr_t>(p);
        memory.deallocate(s, &seen, 1000);
        CHECK(difference({{at, 1000}}, false) == "");
        if (name != "monotonic") { // it frees any block with any size
            memory.deallocate(s, static_cast<std::byte*>(p) + 256, 700);
            memory.deallocate(s, p, 1'000'000);
            CHECK(difference({{at, 1000}}, false) == "");
        }
        if (name == "pool" || name == "arena") { // they know the alignment of each block
            memory.deallocate(s, p, 1000, 2 * default_alignment);
            CHECK(difference({{at, 1000}}, false) == "");
        }
        memory.deallocate(s, p, 1000);
        CHECK(tool.regions() == 0);
        memory.deallocate(s, p, 1000);
        CHECK(tool.regions() == 0);
        CHECK(tool.wrong == std::vector<std::string>{});
        static_cast<void>(node.take_reports());
    });
}

TEST_CASE("nvtx_memory: a graph may use the memory that its capture freed") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    sim_node const node{};
    sim_stream     s;
    nvtx_memory    seen;
    {
        pool memory{observed{stream_ordered{sim_resource{}}, std::ref(seen)}, {.graphs = true}};
        memory.deallocate(s, memory.allocate(s, 1_MiB), 1_MiB);
        s.synchronize();
        CHECK(tool.regions() == 0);
        sim_graph::begin(s);
        void* const p = memory.allocate(s, 1000);
        memory.deallocate(s, p, 1000);
        CHECK(tool.regions() == 1);
        sim_graph const graph = sim_graph::end(s);
        void* const     q     = memory.allocate(s, 100);
        CHECK(tool.regions() == 2);
        memory.deallocate(s, q, 100);
        CHECK(tool.regions() == 1);
        memory.forget_captures();
    }
    CHECK(tool.heaps.empty());
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE("nvtx_memory: a graph may use the blocks of a monotonic after a reset") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    sim_node const node{};
    sim_stream     s;
    nvtx_memory    seen;
    {
        monotonic memory{observed{stream_ordered{sim_resource{}}, std::ref(seen)},
                         {.graphs = true}};
        (void)memory.allocate(s, 1000);
        sim_graph::begin(s);
        (void)memory.allocate(s, 1000);
        void* const     p     = memory.allocate(s, 1000);
        sim_graph const graph = sim_graph::end(s);
        memory.deallocate(s, p, 1000);
        CHECK(tool.regions() == 3);
        memory.reset(s);
        CHECK(tool.regions() == 2);
        memory.forget_captures();
    }
    CHECK(tool.heaps.empty());
    CHECK(tool.wrong == std::vector<std::string>{});
}

/// Returns true if each byte of a block lies in a region.
bool covered(std::uintptr_t at, std::size_t bytes) {
    nvtx_tool& tool = nvtx_tool::get();
    for (std::uintptr_t from = at; from < at + bytes;) {
        auto const heap = tool.heaps.upper_bound(from);
        if (heap == tool.heaps.begin()) { return false; }
        auto const& in   = std::prev(heap)->second.regions;
        auto const  next = in.upper_bound(from);
        if (next == in.begin()) { return false; }
        auto const& [begin, size] = *std::prev(next);
        if (from - begin >= size) { return false; }
        from = begin + size;
    }
    return true;
}

TEST_CASE("nvtx_memory: a graph may use memory that its capture returned to the upstream") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    sim_node const node{};
    auto const     run = [&](auto memory) {
        sim_stream s;
        sim_graph::begin(s);
        void* const p = memory.allocate(s, 1000);
        memory.deallocate(s, p, 1000);
        CHECK(covered(reinterpret_cast<std::uintptr_t>(p), 1000));
        sim_graph const graph = sim_graph::end(s);
        void* const     q     = memory.allocate(s, 1000);
        memory.deallocate(s, q, 1000);
        CHECK(covered(reinterpret_cast<std::uintptr_t>(p), 1000));
        CHECK(tool.regions() == 1);
        s.synchronize();
        memory.forget_captures();
        CHECK_FALSE(covered(reinterpret_cast<std::uintptr_t>(p), 1000));
    };
    binned_options const options{.largest = 512, .graphs = true};
    {
        nvtx_memory seen;
        run(binned{observed{stream_ordered{nvtx_tests::told_resource{}}, std::ref(seen)}, options});
    }
    CHECK(tool.heaps.empty());
    {
        nvtx_memory seen;
        {
            binned     memory{observed{stream_ordered{nvtx_tests::told_resource{}}, std::ref(seen)},
                          options};
            sim_stream s;
            sim_graph::begin(s);
            memory.deallocate(s, memory.allocate(s, 1000), 1000);
            sim_graph const graph = sim_graph::end(s);
            CHECK(tool.regions() == 1);
        }
        CHECK(tool.heaps.empty()); // CUDA has freed the memory
        binned later{observed{stream_ordered{nvtx_tests::told_resource{}}, std::ref(seen)},
                     options};
        sim_stream const s;
        later.deallocate(s, later.allocate(s, 1000), 1000);
    }
    {
        nvtx_memory seen;
        run(binned{stream_ordered{observed{nvtx_tests::told_resource{}, std::ref(seen)}}, options});
        CHECK(tool.heaps.empty());
    }
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE("nvtx_memory: blocks and the memory of graphs lie in regions, in random captures") {
    nvtx_tool& tool = nvtx_tool::get();
    auto const run  = [&](std::string const& name, unsigned seed, auto make) {
        CAPTURE(name);
        CAPTURE(seed);
        tool.clear();
        sim_node         node{{.on_report = sim_on_report::collect}};
        nvtx_memory      seen;
        std::minstd_rand draw{seed};
        auto const       below = [&](std::size_t n) { return draw() % n; };
        {
            auto                                       memory = make(seen);
            sim_stream                                 s;
            nvtx_tests::blocks                         live;
            std::vector<sim_graph>                     graphs;
            std::multimap<std::uintptr_t, std::size_t> kept; // freed in a capture
            bool                                       capturing = false;
            std::size_t                                most      = 0;
            auto const                                 end       = [&] {
                if (capturing) { graphs.push_back(sim_graph::end(s)); }
                capturing = false;
            };
            for (unsigned i = 0; i != 600; ++i) {
                std::size_t const side = below(40);
                if (side == 0 && !capturing) {
                    sim_graph::begin(s);
                    capturing = true;
                } else if (side <= 2) {
                    end();
                } else if (side == 3 && !capturing) {
                    s.synchronize();
                    graphs.clear();
                    kept.clear();
                    memory.forget_captures();
                } else if (live.size() < 16 && side < 24) {
                    std::size_t const n = 1 + below(4000);
                    void* const       p = memory.try_allocate(s, n);
                    if (p != nullptr) { live[reinterpret_cast<std::uintptr_t>(p)] = n; }
                } else if (!live.empty()) {
                    auto at = live.begin();
                    std::advance(at, below(live.size()));
                    memory.deallocate(s, reinterpret_cast<void*>(at->first), at->second);
                    if (capturing) {
                        kept.insert(*at);
                    } else { // its memory may be that of a graph, which then is not launched again
                        std::erase_if(kept, [&](auto const& k) {
                            return k.first < at->first + at->second &&
                                   at->first < k.first + k.second;
                        });
                    }
                    live.erase(at);
                }
                most                   = std::max(most, kept.size());
                auto const all_covered = [](auto const& blocks) {
                    return std::all_of(blocks.begin(), blocks.end(),
                                        [](auto const& b) { return covered(b.first, b.second); });
                };
                REQUIRE(all_covered(live));
                REQUIRE(all_covered(kept));
            }
            end();
            CHECK(most > 0);
            for (auto const& [p, n] : live) { memory.deallocate(s, reinterpret_cast<void*>(p), n); }
            s.synchronize();
            graphs.clear();
            memory.forget_captures();
        }
        CHECK(tool.heaps.empty());
        CHECK(tool.wrong == std::vector<std::string>{});
        CHECK(node.take_reports().empty());
    };
    auto const over = [](auto& seen) {
        return observed{stream_ordered{nvtx_tests::told_resource{}}, std::ref(seen)};
    };
    for (unsigned seed = 1; seed != 4; ++seed) {
        run("pool", seed, [=](auto& seen) { return pool{over(seen), {.graphs = true}}; });
        run("arena", seed,
            [=](auto& seen) { return arena{over(seen), {.count = 1, .graphs = true}}; });
        run("slab", seed, [=](auto& seen) { return slab{over(seen), 4_KiB, {.graphs = true}}; });
        run("binned", seed, [=](auto& seen) { return binned{over(seen), {.graphs = true}}; });
        run("monotonic", seed, [=](auto& seen) { return monotonic{over(seen), {.graphs = true}}; });
        run("binned, large blocks", seed,
            [=](auto& seen) { return binned{over(seen), {.largest = 512, .graphs = true}}; });
        run("binned, its upstream notifies too", seed, [](auto& seen) {
            return binned{stream_ordered{observed{nvtx_tests::told_resource{}, std::ref(seen)}},
                          {.largest = 512, .graphs = true}};
        });
        run("binned over a pool", seed, [=](auto& seen) {
            return binned{pool{over(seen), {.graphs = true}}, {.largest = 512, .graphs = true}};
        });
    }
}

TEST_CASE("nvtx_memory: an observer that was moved from is still one") {
    nvtx_tests::observer_after_a_move<nvtx_memory>();
}

TEST_CASE("nvtx_memory: without a tool, and for chunks that it refuses, no block is registered") {
    nvtx_tool&     tool = nvtx_tool::get();
    sim_node const node{};
    sim_stream     s;
    for (bool const refuses : {false, true}) {
        tool.clear();
        tool.attached = refuses;
        tool.refuses  = [](std::uintptr_t, std::size_t) { return true; };
        nvtx_memory seen;
        pool        memory{observed{stream_ordered{sim_resource{}}, std::ref(seen)}};
        void* const p     = memory.allocate(s, 1000);
        auto const  calls = tool.calls;
        CHECK_FALSE(seen.attached());
        memory.deallocate(s, p, 1000);
        memory.deallocate(s, memory.allocate(s, 2000), 2000);
        CHECK(tool.calls == calls);
    }
}

TEST_CASE("nvtx_memory: threads that share a pool leave no region") {
    nvtx_tool& tool = nvtx_tool::get();
    auto const run  = [&](auto make) {
        tool.clear();
        sim_node const node{};
        nvtx_memory    seen;
        {
            auto                     memory = make(seen);
            std::vector<std::thread> threads;
            for (unsigned i = 0; i != 4; ++i) {
                threads.emplace_back([&memory, i] {
                    sim_stream         s;
                    tagged const       scope{i % 2 == 0 ? "nvtx even" : "nvtx odd"};
                    std::vector<void*> held(8, nullptr);
                    for (unsigned n = 0; n != laws::of_many(1000, 100); ++n) {
                        void*& p = held[n % held.size()];
                        if (p != nullptr) { memory.deallocate(s, p, 1000 + i); }
                        p = memory.allocate(s, 1000 + i);
                    }
                    for (void* const p : held) { memory.deallocate(s, p, 1000 + i); }
                });
            }
            for (auto& each : threads) { each.join(); }
            CHECK(tool.regions() == 0);
        }
        CHECK(tool.heaps.empty());
        CHECK(tool.wrong == std::vector<std::string>{});
    };
    run([](auto& seen) {
        return arena{observed{stream_ordered{sim_resource{}}, std::ref(seen)}, {.count = 4}};
    });
    run([](auto& seen) { return pool{observed{stream_ordered{sim_resource{}}, std::ref(seen)}}; });
}

} // namespace nvtx_memory_tests
