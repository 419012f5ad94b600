// SPDX-License-Identifier: Apache-2.0
// Failures of everything that a loader stands on, and loaders that are left at any moment. (The
// numbers are those of the behaviours listed in docs/loading.md.)
#include <vram/transfer/loader.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_resource.hpp>

#include "../doubles/bombing.hpp"
#include "../doubles/mishaps.hpp"
#include "../laws/effort.hpp"
#include "feeding.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;
using feeding::numbered;

#if defined __SANITIZE_ADDRESS__
#define VRAM_LOADER_FAULTS_ASAN
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define VRAM_LOADER_FAULTS_ASAN
#endif
#endif

namespace loader_faults {

/// Under AddressSanitizer a loader costs ten times as much.
#ifdef VRAM_LOADER_FAULTS_ASAN
constexpr bool watched = true;
#else
constexpr bool watched = false;
#endif

/// A loop with everything in it: a further stream, a batch that is kept, an early release.
std::size_t whole_loop(loader_options options, std::size_t batches = 6) {
    sim_stream stream, other;
    options.batch_bytes = numbered::bytes;
    std::size_t seen    = 0;
    {
        batch<sim_platform> kept;
        loader              load{numbered{batches}, stream, options};
        for (auto& b : load) {
            feeding::use(stream, b);
            if (b.index() % 3 == 1) { b.record_stream(other); }
            CHECK(b.index() == seen++);
            if (b.index() % 3 == 2) { b.release(); }
            if (b.index() == 3 && options.depth > 1) { kept = std::move(b); }
        }
    }
    return seen;
}

/// Makes the n-th call of a kind fail, for every n. The failure must be an exception, a report to
/// the sink, or without effect; nothing may be lost, and no thread may wait for ever.
void walk(sim_call_kind kind, loader_options options, sim_fault fault = {}) {
    std::uint64_t const most = laws::of_many(200, 20);
    for (std::uint64_t n = 1; n <= most; ++n) {
        CAPTURE(n);
        CAPTURE(static_cast<unsigned>(kind));
        CAPTURE(options.depth);
        CAPTURE(options.producers);
        CAPTURE((options.call_back * 100 + options.checker * 10 + options.timing));
        doubles::mishaps const told;
        sim_node               node{{.on_report = sim_on_report::collect}};
        node.faults().at(kind, n, fault);
        bool        failed = false;
        std::size_t seen   = 0;
        try {
            seen = whole_loop(options);
        } catch (std::exception const&) { failed = true; }
        bool const hit = node.faults().calls(kind) >= n;
        CHECK((failed || seen == 6));
        CHECK((hit || !failed));
        node.faults().clear();
        try {
            sim_platform::synchronize(sim_device{});
        } catch (sim_error const&) {} // an error of a kernel or a copy, not thrown before
        if (fault.sticky) {           // no wait succeeds: the memory is kept, and that is reported
            CHECK((!hit || told.count(error_kind::platform_error) > 0));
            node.set_checks({.leaks = false});
        }
        node.finish();
        for (auto const& r : node.reports()) { MESSAGE(r.text()); }
        CHECK(node.reports().empty());
        if (!hit) { return; }
    }
    CHECK(most < 200); // the loop ended by itself
}

} // namespace loader_faults
using namespace loader_faults;

// 11, 12
TEST_CASE("loader: no failure of any platform call at any time loses memory") {
    using enum sim_call_kind;
    for (auto const& options : {loader_options{.depth = 2},
                                {.depth = 0},
                                {.depth = 2, .producers = 3, .pinned_depth = 3},
                                {.depth = 2, .call_back = false},
                                {.depth = 2, .checker = true},
                                {.depth = 2, .timing = true}}) {
        for (auto kind : {allocate, allocate_host, create_stream, create_event, copy, record, wait,
                          launch, synchronize, query}) {
            walk(kind, options);
        }
    }
}

// 11
TEST_CASE("loader: a device that fails during the loop ends it with the device's error") {
    using enum sim_call_kind;
    for (auto kind : {copy, launch}) {
        walk(kind, {.depth = 2}, {.status = sim_status::launch_failed, .later = true});
        walk(kind, {.depth = 2},
             {.status = sim_status::launch_failed, .later = true, .sticky = true});
    }
}

TEST_CASE("loader: a lost device ends the loop, and no thread waits for a missing callback") {
    for (std::uint64_t n = 1; n <= laws::of_many(60, 6); ++n) {
        doubles::mishaps const told;
        sim_node               node{{.on_report = sim_on_report::collect}};
        sim_stream             stream;
        node.faults().at(sim_call_kind::copy, n, {.lost = true});
        bool failed = false;
        try {
            for (auto& b : loader{numbered{50}, stream, {.batch_bytes = numbered::bytes}}) {
                feeding::use(stream, b);
            }
        } catch (sim_error const& e) {
            failed = true;
            CHECK(e.status() == sim_status::device_lost);
        }
        CHECK(failed == (n <= 50));
        node.set_checks({.leaks = false}); // a lost device cannot free memory
    }
}

TEST_CASE("loader: a device that fails after the producers went to sleep ends the loop too") {
    for (std::size_t depth : {1U, 2U, 3U}) {
        for (std::uint64_t n = 1; n <= 5; ++n) { // call-backs are launches too
            CAPTURE(depth);
            CAPTURE(n);
            doubles::mishaps const told;
            sim_node               node{{.on_report = sim_on_report::collect}};
            sim_stream             stream;
            node.faults().at(sim_call_kind::launch, n,
                             {.status = sim_status::launch_failed, .later = true, .sticky = true});
            std::size_t seen   = 0;
            bool        failed = false;
            try {
                for (auto& b : loader{
                         numbered{12}, stream, {.batch_bytes = numbered::bytes, .depth = depth}}) {
                    node.work(5s); // every slot is filled, and copied if possible
                    feeding::use(stream, b);
                    ++seen;
                }
            } catch (sim_error const& e) {
                failed = true;
                CHECK(e.status() == sim_status::launch_failed);
            }
            CHECK((failed || seen == 12));
            node.set_checks({.leaks = false}); // memory that no wait covers
        }
    }
}

TEST_CASE("loader: any failed host allocation in the constructor leaves nothing behind") {
    std::uint64_t n   = 1;
    bool          hit = true;
    for (; hit; ++n) {
        bool failed = false;
        {
            doubles::bombing armed{n};
            try {
                loader load{numbered{3},
                            host_platform::stream{},
                            {.batch_bytes = numbered::bytes, .producers = 2}};
                hit              = armed.defuse();
                std::size_t seen = 0;
                for (auto& b : load) { seen += b.index() == seen; }
                failed = seen != 3;
            } catch (std::bad_alloc const&) {
                failed = true;
                hit    = armed.defuse();
            }
        }
        CHECK(failed == hit);
        REQUIRE(n < 1000);
    }
    CHECK(n > 5);
}

// 11
TEST_CASE("loader: a failed restart can be repeated") {
    struct stubborn {
        int*        refusals;
        std::size_t operator()(std::span<std::byte> to, std::size_t index) const {
            return numbered{3}(to, index);
        }
        void restart() {
            if (--*refusals >= 0) { throw *refusals; }
        }
    };
    sim_node   node;
    sim_stream stream;
    int        refusals = 2;
    loader     load{stubborn{&refusals}, stream, {.batch_bytes = numbered::bytes}};
    auto const count = [&] {
        std::size_t seen = 0;
        for (auto& b : load) { seen += b.index() == seen; }
        return seen;
    };
    CHECK(count() == 3);
    CHECK_THROWS_AS(load.restart(), int);
    CHECK_THROWS_AS(load.restart(), int);
    load.restart();
    CHECK(count() == 3);
}

TEST_CASE("loader: a restart waits for copies whose end no earlier wait has proved") {
    for (loader_options const& options : {loader_options{},
                                          {.completion_flags = false},
                                          {.call_back = false},
                                          {.call_back = false, .completion_flags = false}}) {
        for (bool const copy_fails : {true, false}) { // or the copy is enqueued, and the loop left
            for (unsigned const refusals : {2U, 3U}) {
                CAPTURE(options.call_back);
                CAPTURE(options.completion_flags);
                CAPTURE(copy_fails);
                doubles::mishaps const told;
                sim_node               node{{.on_report = sim_on_report::collect}};
                sim_stream             stream;
                auto                   changed = options;
                changed.batch_bytes            = numbered::bytes;
                changed.depth                  = 1;
                {
                    node.faults().at(sim_call_kind::copy, 1, {.slow = 10s});
                    if (copy_fails) { node.faults().at(sim_call_kind::record, 1); }
                    if (copy_fails) { node.faults().at(sim_call_kind::synchronize, 1, {}, 2); }
                    loader load{numbered{2}, stream, changed};
                    bool   failed = false;
                    try {
                        for (auto& b : load) {
                            feeding::use(stream, b);
                            break;
                        }
                    } catch (sim_error const&) { failed = true; }
                    CHECK(failed == copy_fails);
                    node.faults().at(sim_call_kind::synchronize, 1, {}, refusals);
                    load.stop();
                    for (bool again = true; again;) {
                        try {
                            load.restart();
                            again = false;
                        } catch (sim_error const&) {} // of the wait: a restart can be repeated
                    }
                    std::size_t seen = 0;
                    for (auto& b : load) {
                        feeding::use(stream, b);
                        seen += b.index() == seen;
                    }
                    CHECK(seen == 2);
                }
                node.finish();
                for (auto const& r : node.reports()) { MESSAGE(r.text()); }
                CHECK(node.reports().empty());
            }
        }
    }
}

TEST_CASE("loader: a batch whose wait fails does not count as received") {
    sim_node   node;
    sim_stream stream;
    auto const fill = [](std::span<std::byte> to, std::size_t index) {
        return index == 0 ? to.size() : 0;
    };
    loader load{fill, stream, {.batch_bytes = 64, .call_back = false, .completion_flags = false}};
    node.faults().at(sim_call_kind::wait, 1);
    CHECK_THROWS_AS((void)(load.begin() == load.end()), sim_error);
    CHECK(load.statistics().batches == 0);
    CHECK(load.statistics().bytes == 0);
}

TEST_CASE("loader: a batch that follows a failed copy into the same block is intact") {
    struct uneven : numbered { // the first batch is filled after the copy of the second failed
        sim_gate*   gate;
        bool*       copy_failed;
        std::size_t operator()(std::span<std::byte> to, std::size_t index) const {
            if (index == 0) {
                auto held = gate->hold();
                gate->wait(held, [&] { return *copy_failed; });
            }
            return numbered::operator()(to, index);
        }
    };
    doubles::mishaps         told;
    sim_node                 node{{.on_report = sim_on_report::collect}};
    sim_stream               stream;
    sim_gate                 gate;
    bool                     copy_failed = false;
    std::vector<std::size_t> got(numbered::count, 9);
    bool                     failed = false;
    told.also                       = [&] { // after both waits for the copy's end failed
        auto const held = gate.hold();
        copy_failed     = told.count(error_kind::platform_error) == 2;
        gate.notify();
    };
    gate.notify();
    {
        node.faults().at(sim_call_kind::copy, 1, {.slow = 10s});
        node.faults().at(sim_call_kind::record, 1);
        node.faults().at(sim_call_kind::synchronize, 1, {}, 2); // so its end is not known
        loader load{
            uneven{{2}, &gate, &copy_failed},
            stream,
            {.batch_bytes = numbered::bytes, .producers = 2, .device_depth = 1, .ordered = false}};
        try {
            for (auto& b : load) {
                CHECK(b.index() == 0);
                sim_platform::copy(stream, reinterpret_cast<std::byte*>(got.data()), b.data(),
                                   b.size());
            }
        } catch (sim_error const&) { failed = true; }
        stream.synchronize();
    }
    CHECK(failed);
    CHECK(told.count(error_kind::platform_error) == 2);
    CHECK(got == std::vector<std::size_t>(numbered::count, 0));
    node.finish();
    for (auto const& r : node.reports()) { MESSAGE(r.text()); }
    CHECK(node.reports().empty());
}

// 12, 13
TEST_CASE("loader: a hundred thousand loaders, ended at any time, leave nothing behind") {
    sim_random         random{20261122};
    std::size_t        wrong  = 0;
    constexpr unsigned rounds = laws::of_many(watched ? 20'000 : 100'000, 2'000);
    for (unsigned round = 0; round < rounds; ++round) {
        auto const           batches = random.below(6);
        auto const           leave   = random.below(7);
        loader_options const options{.batch_bytes = numbered::bytes,
                                     .depth       = random.below(4),
                                     .producers   = 1 + random.below(3) % 2,
                                     .ordered     = random.below(4) != 0,
                                     .checker     = random.below(8) == 0};
        auto const           fill = [&](std::span<std::byte> to, std::size_t index) {
            if (index == leave && leave < 2) { throw index; }
            std::size_t const n = index < batches ? to.size() : 0;
            for (std::size_t i = 0; i < n; i += sizeof index) {
                std::memcpy(to.data() + i, &index, sizeof index);
            }
            return n;
        };
        batch<host_platform> kept;
        try {
            loader load{fill, host_platform::stream{}, options};
            if (leave == 6) { continue; } // never read
            for (auto& b : load) {
                for (std::size_t x : b.span<std::size_t>()) { wrong += x != b.index(); }
                if (b.index() == leave) {
                    if (round % 3 == 0) { kept = std::move(b); }
                    if (round % 3 == 1) { throw std::size_t{9}; }
                    break;
                }
            }
        } catch (std::size_t) { wrong += round % 3 != 1; } catch (loader_error const& e) {
            wrong += e.index() != leave || feeding::cause_of<std::size_t>(e) != leave;
        }
    }
    CHECK(wrong == 0);
}

// 12
TEST_CASE("loader: a slow source receives the stop request when the loop ends") {
    for (std::size_t producers : {1U, 3U}) {
        std::atomic<int> heard = 0;
        auto const fill = [&](std::span<std::byte> to, std::size_t index, std::stop_token stop) {
            if (index == 0) { return to.size(); }
            while (!stop.stop_requested()) { std::this_thread::yield(); }
            ++heard;
            return to.size();
        };
        {
            loader load{fill,
                        host_platform::stream{},
                        {.batch_bytes = 64, .producers = producers, .pinned_depth = 4}};
            for (auto& b : load) {
                CHECK(b.index() == 0);
                break;
            }
        }
        CHECK(heard <= static_cast<int>(producers));
    }
}
