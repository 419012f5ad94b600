// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/binned.hpp> // first: the header stands alone

#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include "../doubles/contracts_throw.hpp"
#include "../doubles/minimal_resource.hpp"
#include "../doubles/streams_at_work.hpp"
#include "../laws/captures_go_on.hpp"
#include "../laws/every_interleaving.hpp"
#include "../laws/graphs_keep.hpp"
#include "../laws/platform_faults.hpp"
#include "../laws/random_streams.hpp"
#include "../laws/resource.hpp"

#include <chrono>
#include <utility>

using namespace vram;
using namespace std::chrono_literals;
using doubles::busy;

template class vram::binned<doubles::archetype<>>;
template class vram::binned<stream_ordered<doubles::minimal_resource<>>>;
template class vram::binned<stream_ordered<sim_resource>>;
template class vram::binned<sim_async_resource>;
template class vram::binned<doubles::archetype<sim_platform>>;

TEST_CASE("binned: it keeps the laws of a resource") {
    laws::resource([](auto up) { return binned{std::move(up)}; });
    laws::resource([](auto up) { return binned{std::move(up), {.largest = 1_KiB}}; });
    laws::resource([](auto up) { return binned{std::move(up), {.events = event_policy::eager}}; });
    laws::resource<doubles::minimal_resource<>>(
        [](auto up) { return std::move(up) | with::stream_ordered | with::binned; });
    laws::resource([](auto up) { return std::move(up) | with::pool | with::binned; });
    laws::resource_of_many_threads([](auto up) { return std::move(up) | with::binned; });
    laws::resource_of_many_threads(
        [](auto up) { return std::move(up) | with::binned({.largest = 1_KiB}); });
}

TEST_CASE("binned: it keeps the laws on a device, and every order between streams") {
    for (event_policy const events : {event_policy::lazy, event_policy::eager}) {
        sim_node             node{{.on_report = sim_on_report::collect}};
        binned_options const options{.largest = 2_KiB, .events = events};
        laws::resource<sim_resource>(
            [&](auto up) { return std::move(up) | with::stream_ordered | with::binned(options); },
            {.room = 4_MiB, .largest_alignment = 2_MiB, .operations = 5000, .streams = 8});
        laws::resource<sim_async_resource>([&](auto up) { return binned{std::move(up), options}; },
                                           {.streams = 5, .seed = 3});
        laws::resource<sim_resource>(
            [&](auto up) { return std::move(up) | with::pool | with::binned(options); },
            {.seed = 4});
        laws::resource_of_many_threads<sim_async_resource>(
            [&](auto up) { return binned{std::move(up), options}; }, {.operations = 300});
        for (auto const& r : node.reports()) { MESSAGE(r.text()); }
        CHECK(node.reports().empty());
    }
}

TEST_CASE("binned: no failure loses memory") {
    laws::survives_every_failure(
        [](auto up) { return binned{std::move(up)}; },
        [](auto& mr) { laws::block const first{mr, 10}, second{mr, 9990}, large{mr, 2_MiB}; },
        [](auto& mr) { return mr.usage().live; });
}

TEST_CASE(
    "binned: nothing is reserved before the first request, and each class reserves its own part") {
    binned mr{host_resource{} | with::stream_ordered};
    CHECK(mr.usage() == memory_usage{});
    void* const p = mr.allocate_sync(1300);
    CHECK(mr.usage().live == 1536);
    CHECK(mr.usage().requested == 1300);
    CHECK(mr.usage().reserved <= 64_KiB);
    CHECK(mr.usage().largest_free == 1536);
    void* const q = mr.allocate_sync(256);
    CHECK(mr.usage().upstream == 2);
    CHECK(mr.usage().largest_free == 1536);
    mr.deallocate_sync(p, 1300);
    mr.deallocate_sync(q, 256);
    CHECK(mr.trim() == mr.usage().peak_reserved);
    CHECK(mr.usage().reserved == 0);
}

TEST_CASE("binned: a large request goes to the upstream, with its size and its stream") {
    sim_node    node{{.on_report = sim_on_report::collect}};
    binned      mr{sim_async_resource{}, {.largest = 64_KiB}};
    sim_stream  s;
    void* const p = mr.allocate(s, 64_KiB + 1);
    CHECK(mr.upstream().usage().live >= 64_KiB + 1);
    CHECK(mr.usage().live == 64_KiB + 1);
    CHECK(mr.usage().reserved == 64_KiB + 1);
    CHECK(mr.usage().upstream == 1);
    CHECK(mr.owns(p));
    busy(s, p, 64_KiB + 1);
    mr.deallocate(s, p, 64_KiB + 1);
    CHECK(mr.usage().reserved == 0);
    CHECK(mr.usage().upstream == 2);
    CHECK_FALSE(mr.owns(p));
    CHECK(mr.largest() == 64_KiB);
    CHECK(node.reports().empty());
}

TEST_CASE("binned: an alignment selects a class with that alignment, or the upstream") {
    binned mr{host_resource{} | with::stream_ordered, {.largest = 16_KiB}};
    for (std::size_t alignment = 1; alignment <= 64_KiB; alignment *= 2) {
        for (std::size_t const bytes : {1_B, 257_B, 1281_B, 5_KiB, 14_KiB, 17_KiB}) {
            void* blocks[3];
            for (auto& p : blocks) {
                p = mr.allocate_sync(bytes, alignment);
                CHECK(is_aligned(p, alignment));
            }
            for (auto* const p : blocks) { mr.deallocate_sync(p, bytes, alignment); }
        }
    }
    CHECK(mr.usage().live == 0);
    doubles::contracts_throw const here;
    CHECK_THROWS_AS((void)mr.allocate_sync(1, 3), doubles::broken_contract);
}

TEST_CASE("binned: a stream's own memory is reused at once, large or small") {
    sim_node   node{{.checks = {.races = false, .bounds = false}}}; // they need host memory
    sim_stream s;
    binned     mr{sim_async_resource{}};
    for (std::size_t const bytes : {300_B, 5000_B, 1_MiB}) {
        void* const first = mr.allocate(s, bytes);
        busy(s, first, bytes);
        mr.deallocate(s, first, bytes);
        auto const allocations = doubles::host_allocations();
        for (int i = 0; i < 100; ++i) { mr.deallocate(s, mr.allocate(s, bytes), bytes); }
        CHECK(doubles::host_allocations() == allocations);
    }
    CHECK(mr.usage().events == 0);
    CHECK(mr.usage().waits == 0);
}

TEST_CASE("binned: idle chunks of one class are freed before another class refuses") {
    sim_node   node{{.capacity = 8_MiB, .on_report = sim_on_report::collect}};
    sim_stream a, b;
    binned     mr{sim_resource{} | with::stream_ordered, {.max_size = 8_MiB}};
    void*      blocks[8];
    for (auto& p : blocks) { p = mr.allocate(a, 1_MiB); }
    for (auto* const p : blocks) { busy(a, p, 1_MiB); }
    for (auto* const p : blocks) { mr.deallocate(a, p, 1_MiB); }
    void* const q = mr.allocate(b, 100);
    busy(b, q, 100);
    void* const r = mr.allocate(b, 5_MiB);
    busy(b, r, 5_MiB);
    mr.deallocate(b, q, 100);
    mr.deallocate(b, r, 5_MiB);
    CHECK(mr.usage().peak_reserved <= 8_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("binned: a refusal has every number, large or small") {
    sim_node    node{{.capacity = 8_MiB}};
    binned      mr{sim_async_resource{}, {.max_size = 4_MiB}};
    sim_stream  s;
    void* const p = mr.allocate(s, 3_MiB);
    for (std::size_t const bytes : {2_MiB, 2_MiB + 1}) {
        try {
            (void)mr.allocate(s, bytes);
            REQUIRE(false);
        } catch (out_of_memory const& e) {
            CHECK(e.numbers().asked == bytes);
            CHECK(e.numbers().live == 3_MiB);
            CHECK(e.numbers().reserved == 3_MiB);
            CHECK(e.numbers().limit == 4_MiB);
            CHECK(e.numbers().stream == s.id());
        }
        CHECK(mr.try_allocate(s, bytes) == nullptr);
    }
    mr.deallocate(s, p, 3_MiB);
}

TEST_CASE("binned: foreign pointers, double frees and wrong sizes are reported") {
    doubles::mishaps const told;
    binned                 mr{host_resource{} | with::stream_ordered};
    int                    foreign = 0;
    for (std::size_t const bytes : {1000_B, 2_MiB}) {
        auto const  before = told.count(error_kind::foreign_pointer);
        void* const p      = mr.allocate({}, bytes);
        mr.deallocate({}, &foreign, bytes);
        CHECK(told.count(error_kind::foreign_pointer) == before + 1);
        mr.deallocate({}, static_cast<std::byte*>(p) + 256, bytes - 256);
        CHECK(told.count(error_kind::interior_pointer) == before + 1);
        auto const sizes = told.count(error_kind::wrong_size);
        mr.deallocate({}, p, bytes - 1);  // its class
        mr.deallocate({}, p, 100);        // another class
        mr.deallocate({}, p, 3_MiB);      // none
        mr.deallocate({}, p, 0);          // nothing
        mr.deallocate({}, p, bytes, 512); // another alignment
        mr.deallocate({}, p, bytes, 3);   // no alignment
        CHECK(told.count(error_kind::wrong_size) == sizes + 4);
        CHECK(told.count(error_kind::wrong_alignment) == sizes / 2 + 2);
        CHECK(mr.usage().requested == bytes);
        mr.deallocate({}, p, bytes);
        mr.deallocate({}, p, bytes);
        CHECK(told.count(bytes == 1000_B ? error_kind::double_free : error_kind::foreign_pointer) ==
              (bytes == 1000_B ? 1U : 3U)); // a large block belongs to the upstream after its free
        CHECK(mr.usage().live == 0);
    }
}

TEST_CASE("binned: live blocks at its end are reported and freed") {
    sim_node               node;
    doubles::mishaps const told;
    {
        binned     mr{sim_resource{} | with::stream_ordered};
        sim_stream s;
        busy(s, mr.allocate(s, 1_KiB), 1_KiB);
        busy(s, mr.allocate(s, 2_MiB), 2_MiB);
    }
    CHECK(told.count(error_kind::leak) == 2);
    CHECK(node.figures().used == 0);
}

TEST_CASE("binned: at its end a live large block waits for the device of its stream") {
    sim_node               node{{.devices = 2, .on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    sim_stream const       there{sim_device{1}};
    {
        binned mr{sim_async_resource{sim_device{1}}};
        busy(there, mr.allocate(there, 2_MiB), 2_MiB);
    }
    CHECK(told.count(error_kind::leak) == 1);
    REQUIRE(node.reports().size() == 1);
    CHECK(node.reports().front().kind == sim_mistake::leak);
}

TEST_CASE("binned: a move takes its blocks along") {
    sim_node    node;
    sim_stream  s;
    binned      a{sim_async_resource{}};
    void* const p = a.allocate(s, 1_KiB);
    void* const l = a.allocate(s, 2_MiB);
    binned      b{std::move(a)};
    CHECK(b.usage().live == 1_KiB + 2_MiB);
    a             = binned{sim_async_resource{}};
    void* const q = a.allocate(s, 2_KiB);
    b.deallocate(s, p, 1_KiB);
    b.deallocate(s, l, 2_MiB);
    a.deallocate(s, q, 2_KiB);
    b = std::move(a);
    CHECK(b.usage().peak_live == 2_KiB);
}

TEST_CASE(
    "binned: after any failed platform call nothing is lost, and no stream gets memory too early") {
    auto const work = [](auto& mr, sim_stream_view a, sim_stream_view b) {
        laws::take_turns(mr, a, b, {1_MiB, 1_MiB, 3_MiB, 700_KiB});
    };
    laws::survives_platform_faults(
        [](event_policy events) {
            return binned{sim_async_resource{}, {.largest = 1_MiB, .events = events}};
        },
        work);
    laws::survives_platform_faults(
        [](event_policy events) {
            return sim_resource{} | with::stream_ordered |
                   with::binned({.largest = 1_MiB, .events = events});
        },
        work);
}

TEST_CASE("binned: no operation breaks a capture") {
    for (std::size_t const largest : {2_KiB, 1_MiB}) { // bins, and sizes above them
        laws::captures_go_on([&](event_policy events, bool graphs) {
            return binned{
                sim_resource{} | with::stream_ordered,
                {.largest = largest, .max_size = 8_MiB, .events = events, .graphs = graphs}};
        });
    }
}

TEST_CASE("binned: graph-retained memory stays so if a later capture's block is freed outside") {
    laws::graphs_keep([] {
        binned mr{sim_resource{} | with::stream_ordered,
                  {.largest = 1_MiB, .max_size = 1_MiB, .graphs = true}};
        mr.deallocate_sync(mr.allocate_sync(1_MiB), 1_MiB); // there is a chunk before captures
        return mr;
    });
}

TEST_CASE("binned: a large block that a capture freed is returned when captures are forgotten") {
    sim_node   node;
    binned     mr{sim_resource{} | with::stream_ordered, {.graphs = true}};
    sim_stream s;
    sim_graph::begin(s, sim_capture_mode::relaxed);
    mr.deallocate(s, mr.allocate(s, 8_MiB), 8_MiB);
    sim_graph const graph = sim_graph::end(s);
    CHECK(node.figures().used == 8_MiB);
    mr.forget_captures();
    CHECK(node.figures().used == 0);
}

TEST_CASE("binned: a large block that cannot be recorded is returned, also in a capture") {
    unsigned hits = 0;
    for (bool const captured : {false, true}) {
        for (std::uint64_t n = 1; n < 10; ++n) {
            CAPTURE(captured);
            CAPTURE(n);
            doubles::mishaps const told;
            sim_node               node{{.on_report = sim_on_report::collect}};
            sim_stream             s;
            {
                binned              mr{sim_async_resource{}, {.largest = 64_KiB}};
                void* const         small = mr.allocate(s, 100); // keeps its chunk reserved
                std::uint64_t const calls = mr.usage().upstream;
                if (captured) { sim_graph::begin(s); }
                busy(s, nullptr, 0, 5ms);
                doubles::bombing armed{n};
                void* const      p   = mr.try_allocate(s, 2_MiB);
                bool const       hit = armed.defuse();
                if (p != nullptr) { mr.deallocate(s, p, 2_MiB); }
                hits += hit;
                if (captured) { CHECK_NOTHROW((void)sim_graph::end(s)); }
                CHECK(node.now() < 5ms); // without a wait
                mr.deallocate(s, small, 100);
                CHECK(mr.usage().live == 0);
                // Each chunk that was allocated was returned.
                CHECK(mr.usage().upstream % 2 == calls % 2);
                if (p != nullptr) { CHECK(mr.usage().upstream > calls); }
                sim_platform::synchronize(sim_device{});
                CHECK(mr.upstream().usage().live == mr.usage().reserved);
            }
            CHECK(told.count() == 0);
            CHECK(node.reports().empty());
        }
    }
    CHECK(hits != 0);
}

TEST_CASE("binned: it passes ten thousand random operations on sixteen streams") {
    laws::random_streams(
        {301, 302}, {.room = 24_MiB, .largest = 512_KiB, .operations = 5000, .may_refuse = true},
        [] {
            return sim_resource{} | with::stream_ordered |
                   with::binned({.largest = 128_KiB, .max_size = 32_MiB});
        });
}

TEST_CASE("binned: it is correct for two streams with six operations each, in every order") {
    laws::every_interleaving(
        [] { return sim_resource{} | with::stream_ordered | with::binned({.largest = 8_MiB}); },
        8_MiB);
}

TEST_CASE("binned: an alignment above that of any chunk goes to the upstream") {
    sim_node                             node;
    binned<stream_ordered<sim_resource>> mr{{.largest = 8_MiB}};
    void* const                          p = mr.allocate_sync(4_MiB, 4_MiB);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 4_MiB == 0);
    mr.deallocate_sync(p, 4_MiB, 4_MiB);
    CHECK(mr.usage().reserved == 0); // no chunk of it is kept
}

TEST_CASE("binned: idle chunks are freed before a large request is refused") {
    sim_node                             node;
    binned<stream_ordered<sim_resource>> mr{{.largest = 1_MiB, .max_size = 4_MiB}};
    void* const                          p = mr.allocate_sync(1_MiB);
    mr.deallocate_sync(p, 1_MiB);
    CHECK(mr.usage().reserved == 1_MiB);
    void* const q = mr.try_allocate_sync(4_MiB);
    CHECK(q != nullptr);
    mr.deallocate_sync(q, 4_MiB);
}

TEST_CASE("binned: over a pool it uses completed memory before it grows") {
    sim_node          node;
    sim_stream        streams[8];
    binned            mr{pool{sim_resource{}, {.initial_size = 64_MiB}}};
    std::size_t const bytes = 64_KiB;
    std::size_t       held  = 0;
    for (auto const& s : streams) { // one after the other; the host waits for each
        void* const p = mr.allocate(s, bytes);
        if (held == 0) { held = mr.usage().reserved; }
        busy(s, p, bytes, 5ms);
        mr.deallocate(s, p, bytes);
        s.synchronize();
    }
    CHECK(mr.usage().reserved == held);
    CHECK(mr.usage().waits == 0);
    for (auto const& s : streams) { mr.retire(s); }
}
