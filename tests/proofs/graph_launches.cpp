// SPDX-License-Identifier: Apache-2.0
// A graph whose temporary memory comes from a pool is launched 1000 times, while other streams
// allocate, use and free memory of the same pool.
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/fixed_growth.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>
#include <vram/sim/sim.hpp>

#include "../doubles/mishaps.hpp"
#include "../doubles/resetting.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::literals;

namespace graph_launches { // other files of the folder have some of these names

using words = std::span<std::uint64_t>;

constexpr std::size_t block_bytes = 1_KiB;
constexpr int         launches    = 1000;

sim_range all_of(words w) { return {w.data(), w.size_bytes()}; }

/// Captures a graph that computes `out = 3 * in + 1` with two temporary blocks of `mr`, which it
/// frees in the capture. `twice` allocates both blocks before it frees the first.
template <class Memory>
sim_graph capture_sum(Memory& mr, sim_stream& s, words in, words out, bool twice) {
    sim_graph::begin(s, sim_capture_mode::thread_local_only);
    auto const taken = [&] {
        void* const p = mr.allocate(s, block_bytes);
        return words{static_cast<std::uint64_t*>(p), block_bytes / sizeof(std::uint64_t)};
    };
    auto const  given = [&](words w) { mr.deallocate(s, w.data(), block_bytes); };
    words const a     = taken();
    sim_launch(s, {.name = "triple", .reads = {all_of(in)}, .writes = {all_of(a)}},
               [=] { std::ranges::fill(sim_view(a), 3 * sim_view(in)[0]); });
    words const b = twice ? taken() : a;
    sim_launch(s, {.name = "add", .reads = {all_of(a)}, .writes = {all_of(b)}}, [=] {
        words const from = sim_view(a), to = sim_view(b);
        for (std::size_t i = 0; i != to.size(); ++i) { to[i] = from[i] + 1; }
    });
    sim_launch(s, {.name = "sum", .reads = {all_of(b)}, .writes = {all_of(out)}}, [=] {
        words const from = sim_view(b);
        bool const  same = std::ranges::all_of(from, [&](auto x) { return x == from[0]; });
        sim_view(out)[0] = same ? from[0] : 0;
    });
    given(a);
    if (twice) { given(b); }
    return sim_graph::end(s);
}

/// A block of another stream with its contents.
struct neighbour {
    words         memory;
    std::uint64_t value;
    std::size_t   stream;
};

/// Streams that allocate blocks, write them, compare their contents later, and free them.
template <class Memory>
class neighbours {
public:
    explicit neighbours(Memory& mr) : mr_{mr} {}

    void change() {
        std::size_t const at = draw_() % streams_.size();
        if (live_.size() < 6 && draw_() % 2 == 0) {
            void* const p = mr_.try_allocate(streams_[at], block_bytes);
            if (p == nullptr) { return; }
            ++taken_;
            neighbour const n{{static_cast<std::uint64_t*>(p), block_bytes / 8}, draw_(), at};
            sim_launch(streams_[at], {.name = "write", .writes = {all_of(n.memory)}},
                       [=] { std::ranges::fill(sim_view(n.memory), n.value); });
            live_.push_back(n);
        } else if (!live_.empty()) {
            std::swap(live_[draw_() % live_.size()], live_.back());
            give(live_.back());
            live_.pop_back();
        }
    }
    void end() {
        for (neighbour const& n : live_) { give(n); }
        live_.clear();
        wait();
    }
    void wait() {
        for (sim_stream& s : streams_) { s.synchronize(); }
    }
    [[nodiscard]] int taken() const noexcept { return taken_; }
    [[nodiscard]] int wrong() const noexcept { return wrong_; }

private:
    void give(neighbour const& n) {
        sim_launch(streams_[n.stream], {.name = "compare", .reads = {all_of(n.memory)}}, [=, this] {
            words const now = sim_view(n.memory);
            wrong_ += std::ranges::all_of(now, [&](auto x) { return x == n.value; }) ? 0 : 1;
        });
        mr_.deallocate(streams_[n.stream], n.memory.data(), block_bytes);
    }

    Memory&                   mr_;
    std::array<sim_stream, 3> streams_;
    std::vector<neighbour>    live_;
    std::mt19937              draw_{11};
    int                       taken_ = 0;
    int                       wrong_ = 0;
};

/// `make()` creates a pool with capture support. The neighbours allocate at least `least` blocks.
template <class Make>
void launches_are_correct(char const* name, Make make, int least = 500) {
    CAPTURE(name);
    for (bool const twice : {true, false}) {
        if (!twice && std::string_view{name} != "pool") { continue; } // one is enough
        CAPTURE(twice);
        doubles::mishaps const told;
        sim_node               node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
        {
            auto         mr = make();
            sim_stream   s;
            sim_resource plain;
            auto const   word = [&] {
                return words{static_cast<std::uint64_t*>(plain.allocate_sync(8)), 1};
            };
            words const in = word(), out = word();
            neighbours  others{mr};
            for (int i = 0; i < 20; ++i) { others.change(); } // some are live
            others.wait();                                    // a capture cannot wait for them
            int wrong = 0;
            {
                sim_graph const graph = capture_sum(mr, s, in, out, twice);
                for (std::uint64_t i = 1; i <= launches; ++i) {
                    sim_launch(s, {.name = "set", .writes = {all_of(in)}},
                               [=] { sim_view(in)[0] = i; });
                    graph.launch(s);
                    sim_launch(s, {.name = "check", .reads = {all_of(out)}},
                               [=, &wrong] { wrong += sim_view(out)[0] != 3 * i + 1; });
                    others.change();
                    others.change();
                    if (i % 64 == 0) { s.synchronize(); }
                }
                s.synchronize();
            }
            others.end();
            CHECK(wrong == 0);
            CHECK(others.wrong() == 0);
            CHECK(others.taken() > least);
            CHECK(mr.usage().live == 0);
            (void)mr.trim();
            CHECK(mr.usage().reserved > 0); // the memory of the graph
            mr.forget_captures();
            (void)mr.trim();
            CHECK(mr.usage().reserved == 0);
            plain.deallocate_sync(in.data(), 8);
            plain.deallocate_sync(out.data(), 8);
        }
        CHECK(node.figures().used == 0);
        CHECK(told.count() == 0);
        for (auto const& r : node.reports()) { MESSAGE(r.text()); }
        CHECK(node.reports().empty());
    }
}

} // namespace graph_launches

TEST_CASE("every pool: 1000 launches of a graph are correct beside neighbours that change, and "
          "forget_captures releases its memory") {
    using graph_launches::block_bytes, graph_launches::launches_are_correct;
    using memory = stream_ordered<sim_resource>;
    fixed_growth const growth{8_KiB};
    launches_are_correct("pool", [&] { return pool{memory{}, {.graphs = true}, growth}; });
    launches_are_correct("eager pool", [&] {
        return pool{memory{}, {.events = event_policy::eager, .graphs = true}, growth};
    });
    launches_are_correct("pool over pages", [] {
        return pool{sim_virtual_resource{{.handle_size = 2_MiB}}, {.graphs = true}};
    });
    launches_are_correct("arena",
                         [&] { return arena{memory{}, {.count = 1, .graphs = true}, growth}; });
    launches_are_correct("slab", [] { return slab{memory{}, block_bytes, {.graphs = true}}; });
    launches_are_correct("binned",
                         [] { return binned{memory{}, {.largest = block_bytes, .graphs = true}}; });
    // It reuses memory only when no block is live.
    launches_are_correct("monotonic", [&] {
        return doubles::resetting{monotonic{memory{}, {.graphs = true}, growth}};
    });
}
