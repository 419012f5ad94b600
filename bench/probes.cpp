// SPDX-License-Identifier: Apache-2.0
// The cost of each probe: nanoseconds that it adds to an allocation and its free, over the same
// pool without it, with one thread and with eight.

#include "support/address_resource.hpp"
#include "support/options.hpp"
#include "support/results.hpp"
#include "support/timing.hpp"

#ifdef VRAM_BENCH_NVTX
#include "support/nvtx_tool.hpp"

#include <vram/interop/nvtx_counters.hpp>
#include <vram/interop/nvtx_memory.hpp>
#endif

#include <output_file.hpp>

#include <vram/base/tag.hpp>
#include <vram/history/history.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/observed.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/pool.hpp>
#include <vram/probe/memory_delta.hpp>
#include <vram/probe/tracking.hpp>

#include <fmt/format.h>
#include <time.h> // clock_gettime

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace bench;

namespace {

using source       = vram::stream_ordered<address_resource<>>;
using pooled       = vram::pool<source>;  // for one thread
using sharded      = vram::arena<source>; // for several
using stream       = source::stream;
using milliseconds = std::chrono::milliseconds;

/// Allocates and frees blocks of eight sizes; `around(memory)` makes an object that exists during a
/// pair.
template <class Memory, class Around>
void pairs(Memory& memory, stream s, std::size_t count, Around const& around) {
    for (std::size_t i = 0; i != count; ++i) {
        [[maybe_unused]] auto const scope = around(memory);
        std::size_t const           n     = (i % 8 + 1) * 1024;
        void* const                 p     = memory.allocate(s, n);
        keep(p);
        memory.deallocate(s, p, n);
    }
}

/// Returns the processor time of the calling thread in nanoseconds: other programs on the machine
/// disturb it less than they disturb the time of day.
double processor_ns() {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

/// Returns nanoseconds of processor time for a pair, while `threads` threads use one resource.
template <class Make, class Around>
double ns_of_pair(Make const& make, Around const& around, unsigned threads, nanoseconds turn) {
    auto                       memory = make();
    std::atomic<std::size_t>   done{0};
    std::atomic<unsigned>      ready{0};
    std::atomic<std::uint64_t> spent{0};
    auto const                 run = [&](unsigned number) {
        stream const s{number + 1};
        pairs(memory, s, 20'000, around); // warm-up
        ++ready;
        while (ready.load() < threads) { std::this_thread::yield(); }
        std::size_t  mine  = 0;
        auto const   start = clock::now();
        double const since = processor_ns();
        do {
            pairs(memory, s, 1000, around);
            mine += 1000;
        } while (ns_since(start) < static_cast<double>(turn.count()));
        spent += static_cast<std::uint64_t>(processor_ns() - since);
        done += mine;
    };
    std::vector<std::thread> others;
    for (unsigned i = 1; i < threads; ++i) { others.emplace_back(run, i); }
    run(0);
    for (auto& each : others) { each.join(); }
    return static_cast<double>(spent.load()) / static_cast<double>(done.load());
}

/// A probe: two loops that differ in it alone, and the most nanoseconds that it may add.
struct probe {
    using loop = std::function<double(unsigned threads, nanoseconds turn)>;

    std::string name;
    double      most;    ///< with one thread over a `pool`
    loop        without; ///< over a `pool` with one thread, over an `arena` with several
    loop        with;
    loop        shared_without; ///< over an `arena` with any number of threads
    loop        shared_with;
};

constexpr auto nothing = [](auto const&) { return 0; };

/// The bar of a probe that has none: its time is measured and not judged.
constexpr double no_bar = std::numeric_limits<double>::infinity();

/// A probe that is a layer: `over(upstream)` puts it over a pool.
template <class Over>
probe layer(std::string name, double most, Over over) {
    auto const plain = [](auto memory) {
        return [memory](unsigned threads, nanoseconds turn) {
            return ns_of_pair([] { return typename decltype(memory)::type{}; }, nothing, threads,
                              turn);
        };
    };
    auto const probed = [over](auto memory) {
        return [over, memory](unsigned threads, nanoseconds turn) {
            return ns_of_pair([&] { return over(typename decltype(memory)::type{}); }, nothing,
                              threads, turn);
        };
    };
    std::type_identity<pooled> const  one;
    std::type_identity<sharded> const many;
    return {std::move(name), most, plain(one), probed(one), plain(many), probed(many)};
}

/// A probe that is an observer: `make()` returns it, and the pool is over it.
template <class Make>
probe observer(std::string name, double most, Make make) {
    using seen       = vram::observed<source, decltype(make())>;
    auto const plain = [](auto memory) {
        return [memory](unsigned threads, nanoseconds turn) {
            return ns_of_pair([] { return typename decltype(memory)::type{}; }, nothing, threads,
                              turn);
        };
    };
    auto const probed = [make](auto memory) {
        return [make, memory](unsigned threads, nanoseconds turn) {
            return ns_of_pair(
                [&] { return typename decltype(memory)::type{seen{source{}, make()}}; }, nothing,
                threads, turn);
        };
    };
    return {std::move(name),
            most,
            plain(std::type_identity<pooled>{}),
            probed(std::type_identity<vram::pool<seen>>{}),
            plain(std::type_identity<sharded>{}),
            probed(std::type_identity<vram::arena<seen>>{})};
}

/// A probe that is a scope around each pair.
template <class Around>
probe scope(std::string name, double most, Around around) {
    auto const loop = [](auto memory, auto const& each) {
        return [memory, each](unsigned threads, nanoseconds turn) {
            return ns_of_pair([] { return typename decltype(memory)::type{}; }, each, threads,
                              turn);
        };
    };
    std::type_identity<pooled> const  one;
    std::type_identity<sharded> const many;
    return {std::move(name),   most, loop(one, nothing), loop(one, around), loop(many, nothing),
            loop(many, around)};
}

std::vector<probe> all() {
    std::vector<probe> list;
    list.push_back(
        scope("tags without a tool", 2, [](auto const&) { return vram::tagged{"optimizer"}; }));
    list.push_back(layer("tracking", 60, [](auto up) { return vram::tracking{std::move(up)}; }));
    list.push_back(layer("tracking, 8 frames", 1000,
                         [](auto up) { return vram::tracking{std::move(up), {.frames = 8}}; }));
    list.push_back(layer("statistics", 5, [](auto up) { return vram::statistics{std::move(up)}; }));
    list.push_back(layer("histograms", no_bar,
                         [](auto up) { return std::move(up) | vram::with::histograms; }));
    list.push_back(layer("limiting", 5, [](auto up) {
        return vram::limiting{std::move(up), std::size_t{1} << 30};
    }));
    list.push_back(scope("memory_delta", no_bar,
                         [](auto const& memory) { return vram::memory_delta{memory}; }));
    list.push_back(observer("history", 25, [] {
        // A ring that is full after the warm-up: the first use of each part of it costs more.
        return vram::history{vram::history_options{.events = 1 << 14}};
    }));
    list.push_back(observer("history, 8 frames", 1000, [] {
        return vram::history{vram::history_options{.events = 1 << 14, .frames = 8}};
    }));
#ifdef VRAM_BENCH_NVTX
    list.push_back(observer("NVTX counters, no tool", 2, [] {
        attach_nvtx_tool(false);
        return vram::nvtx_counters{};
    }));
    list.push_back(observer("NVTX memory, no tool", 2, [] { return vram::nvtx_memory{}; }));
    list.push_back(observer("NVTX counters, attached", 150, [] {
        attach_nvtx_tool(true);
        return vram::nvtx_counters{};
    }));
#endif
    return list;
}

/// Runs A B A B A and returns the mean difference between B and its two neighbours.
double added(probe::loop const& without, probe::loop const& with, unsigned threads,
             nanoseconds turn) {
    std::array<double, 5> t{};
    for (std::size_t i = 0; i != t.size(); ++i) {
        t[i] = (i % 2 == 0 ? without : with)(threads, turn);
    }
    return (2 * (t[1] + t[3]) - (t[0] + 2 * t[2] + t[4])) / 4;
}

int run(options const& o) {
    cli::output_file         json{o.json};
    std::vector<probe> const list = chosen(all(), o.subjects, "subject");
    if (o.list) {
        for (probe const& each : list) { fmt::print("{}\n", each.name); }
        return cli::success;
    }
    auto const     turn  = o.quick ? nanoseconds{milliseconds{2}} : nanoseconds{milliseconds{40}};
    unsigned const turns = o.turns();
    results        r{"probes"};
    bool           held = true;
    fmt::print("{:<24}{:>14}{:>10}{:>14}{:>14}{:>10}\n", "nanoseconds for a pair", "1 thread",
               "at most", "arena, 1", "arena, 8", "ratio");
    for (probe const& each : list) {
        for (unsigned i = 0; i != turns; ++i) {
            r.add("1 thread", each.name,
                  {{"added", added(each.without, each.with, 1, turn), "ns"}});
            r.add("arena, 1 thread", each.name,
                  {{"added", added(each.shared_without, each.shared_with, 1, turn), "ns"}});
            r.add("arena, 8 threads", each.name,
                  {{"added", added(each.shared_without, each.shared_with, 8, turn), "ns"}});
        }
        double const one    = *r.value("1 thread", each.name, "added");
        double const alone  = *r.value("arena, 1 thread", each.name, "added");
        double const eight  = *r.value("arena, 8 threads", each.name, "added");
        bool const   judged = each.most < no_bar;
        // Below the resolution of the loop there is no ratio.
        double const ratio = eight / std::max(alone, judged ? each.most / 2 : 1);
        bool const   good  = !judged || (one <= each.most && ratio <= 3);
        held               = held && good;
        fmt::print("{:<24}{:>14.1f}{:>10}{:>14.1f}{:>14.1f}{:>10.2f}{}\n", each.name, one,
                   judged ? fmt::format("{:.0f}", each.most) : "-", alone, eight, ratio,
                   good ? "" : "  MISSED");
    }
    json.write(r.rows().dump(1) + "\n");
    return o.check && !held ? cli::failed : cli::success;
}

} // namespace

int main(int argc, char** argv) {
    options  o;
    CLI::App app{"The time that each probe adds to an allocation and its free.", "probes"};
    add_options(app, o);
    return cli::run(app, argc, argv, [&] { return run(o); });
}
