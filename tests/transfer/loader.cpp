// SPDX-License-Identifier: Apache-2.0
// The numbers are those of the behaviours listed in docs/loading.md.
#include <vram/transfer/loader.hpp> // first: the header stands alone

#include <vram/handle/resource_ref.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/sim/sim.hpp>
#include <vram/sim/sim_explore.hpp>
#include <vram/sim/sim_graph.hpp>
#include <vram/source/host_resource.hpp>

#include "../laws/effort.hpp" // VRAM_TESTS_TSAN
#include "feeding.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <list>
#include <numeric>
#include <ranges>
#include <string>
#include <vector>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;
using feeding::numbered;
using feeding::use;

template class vram::loader<numbered, sim_platform>;
template class vram::loader<numbered, host_platform>;

static_assert(std::ranges::input_range<loader<numbered, host_platform>>);
static_assert(!std::copy_constructible<loader<numbered, host_platform>>);
static_assert(std::movable<loader<numbered, host_platform>>);

// 10, 14, 19
TEST_CASE("loader: every batch of every source arrives complete and in order, at every depth") {
    for (std::size_t depth = 0; depth <= 4; ++depth) {
        for (std::size_t batches = 0; batches <= depth + 2; ++batches) {
            std::size_t seen = 0;
            for (auto& b : loader{numbered{batches},
                                  host_platform::stream{},
                                  {.batch_bytes = numbered::bytes, .depth = depth}}) {
                CHECK(b.index() == seen);
                CHECK(b.size() == numbered::bytes);
                for (std::size_t x : b.span<std::size_t>()) { REQUIRE(x == seen); }
                ++seen;
            }
            CHECK(seen == batches);
        }
    }
}

// 3, 5
TEST_CASE("loader: the device receives the filled data, and the checker reports no race") {
    for (std::size_t depth : {0U, 1U, 2U, 3U}) {
        sim_node    node;
        sim_stream  stream;
        std::size_t seen = 0;
        {
            loader load{numbered{7}, stream, {.batch_bytes = numbered::bytes, .depth = depth}};
            for (auto& b : load) {
                sim_launch(stream, {.name = "look", .reads = {{b.data(), b.size()}}},
                           [numbers = b.span<std::size_t>(), at = b.index(), &seen] {
                               for (std::size_t x : sim_view(numbers)) { seen += x == at; }
                           });
            }
            stream.synchronize();
        }
        CHECK(seen == 7 * numbered::count);
        node.finish();
        CHECK(node.reports().empty());
    }
}

// 15
TEST_CASE("loader: a short last batch keeps its size") {
    std::vector<std::size_t> sizes;
    auto const               fill = [](std::span<std::byte>, std::size_t index) -> std::size_t {
        return index < 2 ? 64 : index == 2 ? 5 : 0;
    };
    for (auto& b : loader{fill, host_platform::stream{}, {.batch_bytes = 64}}) {
        sizes.push_back(b.size());
    }
    CHECK(sizes == std::vector<std::size_t>{64, 64, 5});
}

// 3
TEST_CASE("loader: a range of vectors is copied, and empty vectors are skipped") {
    std::list<std::vector<int>> const source{{1, 2}, {}, {3}, {4, 5, 6}};
    std::vector<int>                  seen;
    for (auto& b : loader{source, host_platform::stream{}, {.batch_bytes = 64}}) {
        for (int x : b.span<int>()) { seen.push_back(x); }
    }
    CHECK(seen == std::vector{1, 2, 3, 4, 5, 6});

    auto generated = std::views::iota(0, 3) | std::views::transform([](int n) {
                         // A temporary that is destroyed after its copy.
                         return std::vector<int>(2, n);
                     });
    seen.clear();
    for (auto& b : loader{generated, host_platform::stream{}, {.batch_bytes = 64}}) {
        for (int x : b.span<int>()) { seen.push_back(x); }
    }
    CHECK(seen == std::vector{0, 0, 1, 1, 2, 2});
}

// 30, 31
TEST_CASE("loader: views::take waits for no further batch and loses none") {
    std::atomic<std::size_t> filled{0};
    auto const               fill = [&](std::span<std::byte> to) { return ++filled, to.size(); };
    loader                   load{fill, host_platform::stream{}, {.batch_bytes = 64, .depth = 0}};
    std::size_t              seen = 0;
    for (auto& b : std::ranges::subrange{load.begin(), load.end()} | std::views::take(3)) {
        CHECK(b.index() == seen++);
    }
    CHECK(seen == 3);
    CHECK(filled == 3);
}

// 11
TEST_CASE("loader: an exception of the source is thrown at its batch, and ends the range") {
    for (std::size_t depth : {0U, 1U, 2U, 3U}) {
        auto const fill = [](std::span<std::byte> to, std::size_t index) {
            if (index == 2) { throw index; }
            return to.size();
        };
        loader      load{fill, host_platform::stream{}, {.batch_bytes = 64, .depth = depth}};
        auto        at   = load.begin();
        std::size_t seen = 0;
        std::size_t what = 0;
        try {
            for (; at != load.end(); ++at) { ++seen; }
        } catch (loader_error const& e) { what = feeding::cause_of<std::size_t>(e); }
        CHECK(seen == 2);
        CHECK(what == 2);
        CHECK(at == load.end());
    }
}

// 11
TEST_CASE("loader: a copy that fails is thrown at its batch") {
    for (std::size_t nth = 1; nth <= 3; ++nth) {
        sim_node   node{{.on_report = sim_on_report::collect}};
        sim_stream stream;
        node.faults().at(sim_call_kind::copy, nth, {.status = sim_status::copy_failed});
        loader      load{numbered{3}, stream, {.batch_bytes = numbered::bytes, .depth = 2}};
        std::size_t seen = 0;
        std::string text;
        try {
            for (auto& b : load) { seen += b.size() / b.size(); }
        } catch (sim_error const& e) { text = e.what(); }
        CHECK(seen == nth - 1);
        std::string const n = std::to_string(nth - 1);
        CHECK(text.find("copy of batch " + n + " (source index " + n + ")") != text.npos);
    }
}

// 17
TEST_CASE("loader: a batch larger than its slot is an error with both numbers") {
    auto const fill = [](std::span<std::byte> to, std::size_t index) {
        return index == 1 ? to.size() + 1 : to.size();
    };
    loader load{fill, host_platform::stream{}, {.batch_bytes = 64}};
    try {
        for (auto& b : load) { CHECK(b.index() == 0); }
        FAIL("the second batch is too large");
    } catch (loader_error const& e) {
        CHECK(e.why() == loader_error::reason::too_large);
        CHECK(e.index() == 1);
        CHECK(e.bytes() == 65);
        CHECK(e.limit() == 64);
    }
}

// 12, 13
TEST_CASE("loader: an end by break, by an exception, or before the start leaves nothing behind") {
    for (int depth = 0; depth < 4; ++depth) {
        sim_node             node;
        sim_stream           stream;
        auto const           d = static_cast<std::size_t>(depth);
        loader_options const o{.batch_bytes = numbered::bytes, .depth = d};
        { loader const never_read{numbered{5}, stream, o}; }
        for (auto& b : loader{numbered{5}, stream, o}) {
            use(stream, b);
            break;
        }
        try {
            for (auto& b : loader{numbered{5}, stream, o}) {
                use(stream, b);
                if (b.index() == 1) { throw 1; }
            }
        } catch (int) {}
        {
            loader half{numbered{5}, stream, o};
            auto   at = half.begin();
            use(stream, *at);
        }
        stream.synchronize();
        node.finish();
        CHECK(node.reports().empty());
    }
}

TEST_CASE("loader: a thousand loaders with random early ends leave nothing behind") {
    sim_node   node;
    sim_stream stream;
    sim_random random{20261120};
    for (int round = 0; round < 1000; ++round) {
        auto const stop_at = random.below(6);
        for (auto& b : loader{numbered{random.below(5)},
                              stream,
                              {.batch_bytes = numbered::bytes, .depth = random.below(4)}}) {
            use(stream, b);
            if (b.index() == stop_at) { break; }
        }
    }
    stream.synchronize();
    node.finish();
    CHECK(node.reports().empty());
}

// 20
TEST_CASE("loader: stop ends the range, and batches in use stay valid") {
    sim_node   node;
    sim_stream stream;
    loader     load{numbered{1000000}, stream, {.batch_bytes = numbered::bytes, .depth = 3}};
    auto       at   = load.begin();
    auto       kept = std::move(*at);
    ++at;
    load.stop();
    CHECK(at == load.end());
    use(stream, kept);
    CHECK(kept.index() == 0);
    kept.release();
    CHECK(kept.data() == nullptr);
    stream.synchronize();
    CHECK(node.reports().empty());
}

// 8
TEST_CASE("loader: a batch may outlive its loader") {
    sim_node   node;
    sim_stream stream;
    {
        batch<sim_platform> kept;
        for (auto& b : loader{numbered{3}, stream, {.batch_bytes = numbered::bytes, .depth = 2}}) {
            if (b.index() == 1) { kept = std::move(b); }
        }
        CHECK(kept.index() == 1);
        use(stream, kept);
    }
    stream.synchronize();
    node.finish();
    CHECK(node.reports().empty());
}

// 9
TEST_CASE(
    "loader: a request for a batch while the loop holds every slot is an error, not a deadlock") {
    loader load{numbered{9}, host_platform::stream{}, {.batch_bytes = numbered::bytes, .depth = 2}};
    std::vector<decltype(load)::batch> held;
    try {
        for (auto& b : load) { held.push_back(std::move(b)); }
        FAIL("there are two slots");
    } catch (loader_error const& e) {
        CHECK(e.why() == loader_error::reason::all_held);
        CHECK(e.index() == 2);
    }
    CHECK(held.size() == 2);
    CHECK(held[1].span<std::size_t>()[0] == 1);
}

// 16
TEST_CASE("loader: a range can be iterated once") {
    loader load{numbered{1}, host_platform::stream{}, {.batch_bytes = numbered::bytes}};
    for (auto& b : load) { CHECK(b.index() == 0); }
    try {
        (void)load.begin();
        FAIL("it was read");
    } catch (loader_error const& e) { CHECK(e.why() == loader_error::reason::already_begun); }
}

// 21
TEST_CASE("loader: a budget that is too small is an error before anything is allocated") {
    sim_node   node;
    sim_stream stream;
    auto const make = [&](std::size_t budget) {
        loader const load{numbered{1}, stream, {.batch_bytes = 1000, .depth = 3, .budget = budget}};
    };
    try {
        make(5999);
        FAIL("three slots are 6000 bytes");
    } catch (over_limit const& e) {
        CHECK(e.numbers().asked == 6000);
        CHECK(e.numbers().limit == 5999);
    }
    CHECK(node.figures().allocations == 0);
    make(6000);
    CHECK_THROWS_AS((loader{numbered{1}, stream, {.batch_bytes = unsatisfiable}}), out_of_memory);
}

// 21
TEST_CASE("loader: any failure in its constructor leaves nothing behind") {
    using kind = sim_call_kind;
    for (kind what :
         {kind::allocate, kind::allocate_host, kind::create_event, kind::create_stream}) {
        std::uint64_t nth = 1;
        for (bool failed = true; failed; ++nth) {
            sim_node   node;
            sim_stream stream;
            node.faults().clear();
            node.faults().at(what, nth);
            failed = false;
            try {
                loader load{numbered{1}, stream, {.batch_bytes = 1000, .depth = 2}};
                for (auto& b : load) { use(stream, b); }
            } catch (std::exception const&) { failed = true; }
            stream.synchronize();
            node.finish();
            CHECK(node.reports().empty()); // also no leak
        }
        CHECK(nth > 2); // at least one call was made to fail
    }
}

// 23
TEST_CASE("loader: memory comes from the given resources") {
    sim_node                              node;
    sim_stream                            stream;
    limiting                              device{stream_ordered{sim_resource{}}, 1_MiB};
    shared<limiting<sim_pinned_resource>> pinned{limiting{sim_pinned_resource{}, 1_MiB}};
    {
        loader load{numbered{4},
                    stream,
                    resource_ref{device},
                    pinned,
                    {.batch_bytes = numbered::bytes, .depth = 3}};
        CHECK(device.used() == 3 * numbered::bytes);
        CHECK(pinned.get().used() == 3 * (numbered::bytes + 64)); // with completion flags
        for (auto& b : load) { use(stream, b); }
    }
    CHECK(device.used() == 0);
    CHECK(pinned.get().used() == 0);
    CHECK_THROWS_AS((loader{numbered{4},
                            stream,
                            resource_ref{device},
                            pinned,
                            {.batch_bytes = 512_KiB, .depth = 3}}),
                    over_limit);
    CHECK(device.used() == 0);
    CHECK(pinned.get().used() == 0);
}

// 26
TEST_CASE("loader: a request for a batch while the stream is captured is an error with advice") {
    sim_node   node;
    sim_stream stream;
    loader     load{numbered{2}, stream, {.batch_bytes = numbered::bytes, .depth = 2}};
    sim_graph::begin(stream, sim_capture_mode::relaxed);
    auto at = load.begin();
    try {
        (void)*at;
        FAIL("the stream is being captured");
    } catch (loader_error const& e) { CHECK(e.why() == loader_error::reason::capturing); }
    auto const graph = sim_graph::end(stream);
}

// 6, 21
TEST_CASE("loader: after the start nothing is allocated and the host waits for nothing") {
    sim_node   node;
    sim_stream stream;
    loader     load{numbered{50}, stream, {.batch_bytes = numbered::bytes, .depth = 51}};
    auto const before = node.figures();
    for (auto& b : load) { use(stream, b); }
    CHECK(node.figures().allocations == before.allocations);
    CHECK(node.figures().host_waits == before.host_waits); // slots enough: not even the producer
    CHECK(load.statistics().allocations == 103);           // also the completion flags
    CHECK(load.statistics().host_waits == 0);
}

#ifndef VRAM_TESTS_TSAN // with it threads run freely, and simulated time has no meaning
namespace {
/// The time that `batches` batches take from the first fill to the end of the last kernel.
sim_time loop(std::size_t batches, sim_time fill_time, std::size_t bytes, sim_time kernel,
              std::size_t depth, loader_statistics* figures = nullptr) {
    sim_node   node{{.host_bandwidth = 1_GB, .copy_latency = sim_time{0}}}; // a byte a nanosecond
    sim_stream stream;
    auto const fill = [&](std::span<std::byte> to, std::size_t index) -> std::size_t {
        if (index == batches) { return 0; }
        node.work(fill_time);
        return to.size();
    };
    sim_time const from = node.now();
    loader         load{fill, stream, {.batch_bytes = bytes, .depth = depth, .timing = true}};
    for (auto& b : load) {
        sim_launch(stream, {.reads = {{b.data(), b.size()}}, .duration = kernel});
    }
    stream.synchronize();
    sim_time const took = node.now() - from;
    if (figures != nullptr) { *figures = load.statistics(); }
    CHECK(node.reports().empty());
    return took;
}
} // namespace

// 6
TEST_CASE("loader: filling, copying and use overlap exactly, for each slowest stage") {
    loader_statistics s;
    // compute-bound: one fill and one copy to begin with, then kernel after kernel
    CHECK(loop(20, 10us, 20'000, 50us, 2, &s) == 10us + 20us + 20 * 50us);
    CHECK(s.copy_ns == 20 * 20'000);
    CHECK(s.fill_ns == 20 * 10'000);
    // producer-bound: fill after fill, then the last copy and the last kernel
    CHECK(loop(20, 50us, 20'000, 10us, 2, &s) == 20 * 50us + 20us + 10us);
    CHECK(s.verdict() == loader_statistics::bound::producer);
    // transfer-bound: the first fill, copy after copy, the last kernel
    CHECK(loop(20, 10us, 50'000, 20us, 3, &s) == 10us + 20 * 50us + 20us);
    CHECK(s.verdict() == loader_statistics::bound::transfer);
}

// 19
TEST_CASE("loader: with one slot, or inline, stages follow each other") {
    // a slot is filled again when its copy is over, and copied to when its kernel is
    CHECK(loop(10, 10us, 20'000, 50us, 1) == 10us + 10 * (20us + 50us));
    CHECK(loop(10, 10us, 20'000, 50us, 0) == 10us + 10 * (20us + 50us));
}

TEST_CASE("loader: every order of producer and loop is correct, at depths one and two") {
    for (std::size_t depth : {1U, 2U}) {
        sim_exploring how{.max_runs = 4000};
        how.node.preemptions = 1;
        auto const found     = sim_explore(how, [&](sim_node&) {
            sim_stream  stream;
            std::size_t seen = 0;
            for (auto& b :
                 loader{numbered{3}, stream, {.batch_bytes = numbered::bytes, .depth = depth}}) {
                use(stream, b);
                if (b.index() != seen++) { throw loader_error{loader_error::reason::all_held}; }
            }
            if (seen != 3) { throw loader_error{loader_error::reason::all_held}; }
            stream.synchronize();
        });
        CHECK(found.failures == 0);
        CHECK(found.complete);
        CHECK(found.runs > 5);
    }
}
#endif

TEST_CASE("loader: after a move it continues at its position") {
    sim_node    node;
    sim_stream  stream;
    loader      first{numbered{3}, stream, {.batch_bytes = numbered::bytes, .depth = 2}};
    loader      second = std::move(first);
    std::size_t seen   = 0;
    for (auto& b : second) {
        use(stream, b);
        ++seen;
    }
    CHECK(seen == 3);
    second = loader{numbered{1}, stream, {.batch_bytes = numbered::bytes, .depth = 1}};
    for (auto& b : second) { CHECK(b.index() == 0); }
    stream.synchronize();
    CHECK(node.reports().empty());
}

TEST_CASE("loader: its statistics can be read while it runs, and count everything once") {
    sim_node   node;
    sim_stream stream;
    loader load{numbered{40}, stream, {.batch_bytes = numbered::bytes, .depth = 2, .timing = true}};
    for (auto& b : load) {
        use(stream, b);
        (void)load.statistics();
    }
    stream.synchronize();
    auto const one  = sim_transfer_time(numbered::bytes, node.options().host_bandwidth);
    auto const each = static_cast<std::uint64_t>((one + node.options().copy_latency).count());
    if (sim_ordered_threads) { CHECK(load.statistics().copy_ns == 40 * each); }
}
