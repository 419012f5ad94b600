// SPDX-License-Identifier: Apache-2.0
// The overlap of a loader's stages, to the nanosecond, and its cost. (The numbers are those of the
// behaviours listed in docs/loading.md.)
#include <vram/transfer/loader.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/sim/sim_explore.hpp>

#include "../laws/effort.hpp"
#include "feeding.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

#if !defined VRAM_TESTS_TSAN // there, threads run freely and simulated time means little

using namespace vram;
using namespace std::chrono_literals;
using feeding::numbered;

namespace loader_overlap {

struct measured {
    sim_time          took{}; ///< from the first fill to the end of the last kernel
    loader_statistics figures;
    sim_figures       device;
};

/// A loop over `batches` batches with the given durations of stages; the link takes a nanosecond
/// per byte.
measured run(std::size_t batches, sim_time fill_time, std::size_t bytes, sim_time kernel,
             loader_options options) {
    sim_node node{
        {.capacity = 4_GiB, .backed = false, .host_bandwidth = 1_GB, .copy_latency = sim_time{0}}};
    sim_stream stream;
    auto const fill = [&](std::span<std::byte> to, std::size_t index) -> std::size_t {
        if (index == batches) { return 0; }
        node.work(fill_time);
        return to.size();
    };
    measured m;
    options.batch_bytes = bytes;
    loader load{fill, stream, options};
    node.reset_figures();
    sim_time const from = node.now();
    for (auto& b : load) {
        sim_launch(stream, {.reads = {{b.data(), b.size()}}, .duration = kernel});
    }
    m.device = node.figures();
    stream.synchronize();
    m.took    = node.now() - from;
    m.figures = load.statistics();
    CHECK(node.reports().empty());
    return m;
}

double efficiency(std::size_t batches, sim_time fill, sim_time copy, sim_time kernel,
                  std::size_t producers, sim_time took) {
    double const slowest =
        std::max({static_cast<double>(fill.count()) / static_cast<double>(producers),
                  static_cast<double>(copy.count()), static_cast<double>(kernel.count())});
    return slowest * static_cast<double>(batches) / static_cast<double>(took.count());
}

} // namespace loader_overlap
using namespace loader_overlap;

// 6, 19
TEST_CASE("loader: the slowest stage hides the others, for batches of every size") {
    constexpr std::size_t batches = 100;
    for (std::size_t bytes : {1_MiB, 16_MiB, 64_MiB, 256_MiB}) {
        sim_time const copy{static_cast<std::int64_t>(bytes)};
        for (auto [fill, kernel] : {std::pair{copy * 2, copy / 2}, std::pair{copy / 2, copy / 2},
                                    std::pair{copy / 2, copy * 2}, std::pair{copy, copy}}) {
            for (std::size_t depth : {2U, 3U}) {
                auto const m = run(batches, fill, bytes, kernel, {.depth = depth});
                CAPTURE(bytes);
                CAPTURE(depth);
                CAPTURE(fill.count());
                CAPTURE(kernel.count());
                CHECK(efficiency(batches, fill, copy, kernel, 1, m.took) >= 0.97);
                // Nothing was allocated, and the device was neither waited for nor queried.
                CHECK(m.device.allocations == 0);
                CHECK(m.device.host_waits == 0);
                CHECK(m.device.queries == 0);
                CHECK(m.figures.host_waits == 0);
                CHECK(m.figures.pinned_ns == 0);
            }
        }
        auto const many = run(batches, copy * 3, bytes, copy / 2, {.producers = 4});
        CHECK(efficiency(batches, copy * 3, copy, copy / 2, 4, many.took) >= 0.95);
    }
}

// 19
TEST_CASE("loader: the stages overlap exactly as far as the depth permits") {
    auto const took = [](loader_options o) { return run(10, 10us, 20'000, 50us, o).took; };
    CHECK(took({.depth = 0}) == 10us + 10 * (20us + 50us)); // the fill hides behind the kernel
    CHECK(took({.depth = 1}) == 10us + 10 * (20us + 50us));
    CHECK(took({.depth = 2}) == 10us + 20us + 10 * 50us);
    CHECK(took({.pinned_depth = 1, .device_depth = 2}) == 10us + 20us + 10 * 50us);
    CHECK(took({.pinned_depth = 4, .device_depth = 1}) == 10us + 10 * (20us + 50us));
}

// 5
TEST_CASE("loader: a pinned slot is filled again as soon as its copy is complete") {
    // one pinned block, and kernels that hold the device blocks long: the fill does not wait for them
    auto const m = run(3, 10us, 20'000, 500us, {.pinned_depth = 1, .device_depth = 3});
    CHECK(m.took == 10us + 20us + 3 * 500us);
    CHECK(m.figures.slot_ns == 3 * 20'000); // each fill waited for the copy before it, no longer
}

// 5
TEST_CASE("loader: on a platform without callbacks, producers wait for events") {
    auto const m = run(20, 10us, 20'000, 50us, {.depth = 2, .call_back = false});
    CHECK(m.took == 10us + 20us + 20 * 50us); // as fast
    CHECK(m.figures.host_waits == 19);        // the end is found in a slot, too
    CHECK(m.figures.pinned_ns > 0);
    CHECK(m.device.host_waits == 19);
}

// 33
TEST_CASE("loader: its statistics name the slowest stage and the degree of overlap") {
    using bound       = loader_statistics::bound;
    auto const timed  = loader_options{.depth = 3, .timing = true};
    auto const fill   = run(100, 50us, 20'000, 10us, timed).figures;
    auto const copy   = run(100, 10us, 50'000, 20us, timed).figures;
    auto const kernel = run(100, 10us, 20'000, 50us, timed).figures;
    CHECK(fill.verdict() == bound::producer);
    CHECK(copy.verdict() == bound::transfer);
    CHECK(kernel.verdict() == bound::compute);
    CHECK(fill.fill_ns == 100 * 50'000);
    CHECK(fill.copy_ns == 100 * 20'000);
    CHECK(fill.use_ns == 100 * 10'000);
    CHECK(copy.use_ns == 100 * 20'000);
    CHECK(kernel.use_ns == 100 * 50'000);
    for (auto const& f : {fill, copy, kernel}) {
        CHECK(f.overlap() > 0.97);
        CHECK(f.batches == 100);
    }
    // The bandwidth of the link.
    CHECK(copy.gigabytes_per_second() == doctest::Approx(1).epsilon(0.02));
    CHECK(fill.stall_ns > 95 * 50'000);
}

TEST_CASE("loader: a loop that waits for each kernel is not starved") {
    sim_node    node{{.host_bandwidth = 1_GB, .copy_latency = sim_time{0}}};
    sim_stream  stream;
    std::size_t seen = 0;
    auto const  fill = [&](std::span<std::byte> to, std::size_t index) -> std::size_t {
        if (index == 20) { return 0; }
        node.work(40us);
        return to.size();
    };
    {
        loader         load{fill,
                    stream,
                            {.batch_bytes = 20'000, .producers = 2, .pinned_depth = 4, .device_depth = 2}};
        sim_time const from = node.now();
        for (auto& b : load) { // holds the batch while it waits: copies are enqueued at its end
            sim_launch(stream, {.reads = {{b.data(), b.size()}}, .duration = 50us});
            stream.synchronize();
            ++seen;
        }
        CHECK(node.now() - from == 40us + 20us + 20 * 50us);
    }
    CHECK(seen == 20);
    CHECK(node.reports().empty());
}

namespace loader_overlap {
/// Every order of producers and loop, and every failure that `make` gives them.
template <class Source>
void explore(Source source, loader_options options, std::size_t batches, unsigned orders,
             unsigned preemptions = 1) {
    options.batch_bytes          = numbered::bytes;
    std::uint64_t const max_runs = laws::of_orders(orders);
    sim_exploring       how{.max_runs = max_runs};
    how.node.preemptions = preemptions;
    auto const found     = sim_explore(how, [&](sim_node&) {
        sim_stream  stream;
        std::size_t seen = 0;
        try {
            for (auto& b : loader{source, stream, options}) {
                feeding::use(stream, b);
                if (options.ordered && b.index() != seen) { throw loader_error{{}}; }
                ++seen;
            }
        } catch (loader_error const& e) {
            if (e.cause() == nullptr || feeding::cause_of<std::size_t>(e) != batches) {
                throw loader_error{{}};
            }
        }
        if (seen != batches) { throw loader_error{{}}; }
        stream.synchronize();
    });
    CAPTURE(found.runs);
    CHECK(found.failures == 0);
    CHECK(found.runs > 5);
    CHECK((found.complete || found.runs == max_runs));
}
} // namespace loader_overlap

TEST_CASE("loader: every order of producer, callback and loop is correct, at depths one to three") {
    for (std::size_t depth : {1U, 2U, 3U}) { explore(numbered{3}, {.depth = depth}, 3, 3000); }
    explore(numbered{3}, {.pinned_depth = 1, .device_depth = 2}, 3, 2000);
    explore(numbered{3}, {.pinned_depth = 2, .device_depth = 1}, 3, 2000);
    explore(numbered{3}, {.depth = 2, .call_back = false}, 3, 2000);
    explore(numbered{3}, {.depth = 2, .completion_flags = false}, 3, 2000);
}

TEST_CASE("loader: every order of two producers is correct, ordered and unordered") {
    explore(numbered{3}, {.depth = 1, .producers = 2}, 3, 3000);
    explore(numbered{2}, {.depth = 2, .producers = 2, .ordered = false}, 2, 3000);
}

TEST_CASE("loader: every order around a source that throws or ends is correct") {
    auto const throwing = [](std::span<std::byte> to, std::size_t index) {
        if (index == 2) { throw index; }
        return numbered{9}(to, index);
    };
    auto const ending = [](std::span<std::byte> to, std::size_t index) {
        return index == 2 ? std::size_t{0} : numbered{9}(to, index);
    };
    for (std::size_t producers : {1U, 2U}) {
        explore(throwing, {.depth = 2, .producers = producers}, 2, 2000);
        explore(ending, {.depth = 2, .producers = producers}, 2, 2000);
    }
}

TEST_CASE("loader: every order with a loop that ends early or keeps its batches is correct") {
    sim_exploring how{.max_runs = laws::of_orders(3000)};
    how.node.preemptions = 1;
    auto const found     = sim_explore(how, [&](sim_node&) {
        sim_stream          stream;
        batch<sim_platform> kept;
        for (auto& b : loader{numbered{5},
                              stream,
                                  {.batch_bytes = numbered::bytes, .depth = 2, .producers = 2}}) {
            feeding::use(stream, b);
            if (b.index() == 1) {
                kept = std::move(b);
                break;
            }
        }
        feeding::use(stream, kept);
        kept.release();
        stream.synchronize();
    });
    CHECK(found.failures == 0);
    CHECK(found.runs > 5);
}

TEST_CASE("loader: random orders of four producers with unequal durations are correct") {
    sim_exploring how{.order = sim_order::by_seed, .seeds = laws::of_orders(300)};
    auto const    uneven = [](std::span<std::byte> to, std::size_t index) {
        sim_node::current().work(sim_time{100 * ((index * 5) % 7)});
        return numbered{12}(to, index);
    };
    for (bool ordered : {true, false}) {
        auto const found = sim_explore(how, [&](sim_node&) {
            sim_stream  stream;
            std::size_t seen = 0, sum = 0;
            for (auto& b : loader{uneven,
                                  stream,
                                  {.batch_bytes = numbered::bytes,
                                   .depth       = 2,
                                   .producers   = 4,
                                   .ordered     = ordered}}) {
                feeding::use(stream, b);
                sum += b.index();
                ++seen;
            }
            if (seen != 12 || sum != 66) { throw loader_error{{}}; }
            stream.synchronize();
        });
        CHECK(found.failures == 0);
        CHECK(found.runs == laws::of_orders(300));
    }
}
#endif
