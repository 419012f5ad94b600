// SPDX-License-Identifier: Apache-2.0
// After `forget_captures`, graph-retained memory waits for the work of its streams; and no more is
// retained than a graph may use.
#include <vram/sim/sim.hpp>

#include "../doubles/mishaps.hpp"
#include "../doubles/streams_at_work.hpp"
#include "pools_of_one_chunk.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <optional>
#include <vector>

using namespace vram;
using namespace std::chrono_literals;

namespace {

/// `make()` creates a pool with memory for one block of `bytes`. A stream uses it, and frees it
/// before its capture (or during it, with `within`); with `retires` the stream is retired before
/// captures are forgotten. Another stream that then gets the block must not race.
template <class Make>
void what_was_kept_is_waited_for(Make make, std::size_t bytes, bool within, bool retires) {
    CAPTURE(within);
    CAPTURE(retires);
    doubles::mishaps const told;
    sim_node               node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
    sim_stream             other;
    {
        std::optional<sim_stream> s{std::in_place};
        auto                      mr = make();
        void* const               p  = mr.allocate(*s, bytes);
        doubles::busy(*s, p, bytes, 1s);
        if (!within) { mr.deallocate(*s, p, bytes); }
        sim_graph::begin(*s);
        if (within) { mr.deallocate(*s, p, bytes); }
        void* q = mr.try_allocate(other, bytes); // if this fails, the block is still retained
        if (q != nullptr) { mr.deallocate(other, q, bytes); }
        (void)sim_graph::end(*s); // and is never launched
        if (retires) {
            mr.retire(*s);
            s.reset();
        }
        mr.forget_captures();
        q = mr.try_allocate(other, bytes);
        REQUIRE(q != nullptr);
        doubles::busy(other, q, bytes);
        mr.deallocate(other, q, bytes);
        other.synchronize();
        CHECK(node.now() > 1s);
        CHECK(mr.usage().live == 0);
        CHECK(mr.trim() == bytes);
    }
    CHECK(told.count() == 0);
    CHECK(node.figures().used == 0);
    for (auto const& r : node.reports()) { MESSAGE(r.text()); }
    CHECK(node.reports().empty());
}

/// Runs the check with and without capture support of the pool.
template <class Make>
void whatever_was_kept_is_waited_for(Make make, std::size_t bytes) {
    for (event_policy const events : {event_policy::lazy, event_policy::eager}) {
        for (bool const graphs : {false, true}) {
            CAPTURE(events);
            CAPTURE(graphs);
            bool const looks = graphs || events == event_policy::eager;
            for (bool const within : {false, true}) {
                if (within && !looks) { continue; } // then nothing may be freed in a capture
                for (bool const retires : {false, true}) {
                    what_was_kept_is_waited_for(
                        [&] {
                            return make(proofs::pool_wish{.block  = bytes,
                                                          .chunk  = bytes,
                                                          .events = events,
                                                          .graphs = graphs});
                        },
                        bytes, within, retires);
                }
            }
        }
    }
}

} // namespace

TEST_CASE("every pool: graph-retained memory waits for the earlier work of its stream") {
    proofs::for_pools_of_one_chunk(
        [](auto const&, auto make) { whatever_was_kept_is_waited_for(make, 1_MiB); });
}

TEST_CASE(
    "pool over virtual memory: graph-retained memory waits for the earlier work of its stream") {
    whatever_was_kept_is_waited_for(
        [](proofs::pool_wish const& w) { return proofs::pool_of_pages(w); }, 2_MiB);
}

TEST_CASE("every pool: forget_captures waits for the last launch, also on a stream that the pool "
          "does not know or has retired") {
    proofs::for_pools_of_one_chunk([](std::string const&, auto make) {
        for (unsigned const way : {0U, 1U, 2U, 3U}) {
            bool const elsewhere = (way & 1U) != 0, retires = (way & 2U) != 0;
            CAPTURE(elsewhere);
            CAPTURE(retires);
            doubles::mishaps const told;
            sim_node               node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
            sim_stream             other, launches;
            std::optional<sim_stream> s{std::in_place};
            auto                      mr = make({.graphs = true});
            mr.deallocate_sync(mr.allocate_sync(1_MiB), 1_MiB); // there is a chunk before captures
            sim_graph::begin(*s);
            void* p = mr.allocate(*s, 1_MiB);
            doubles::busy(*s, p, 1_MiB, 5ms);
            mr.deallocate(*s, p, 1_MiB);
            sim_graph const graph = sim_graph::end(*s);
            graph.launch(elsewhere ? launches : *s);
            if (retires) {
                mr.retire(*s);
                s.reset();
            }
            mr.forget_captures();
            p = mr.try_allocate(other, 1_MiB);
            REQUIRE(p != nullptr);
            doubles::busy(other, p, 1_MiB);
            mr.deallocate(other, p, 1_MiB);
            other.synchronize();
            CHECK(node.now() == 6ms); // the launch, then the new user of its memory
            CHECK(mr.trim() == 1_MiB);
            CHECK(told.count() == 0);
            for (auto const& r : node.reports()) { MESSAGE(r.text()); }
            CHECK(node.reports().empty());
        }
    });
}

TEST_CASE("every pool: forget_captures waits for a graph whose memory another stream freed") {
    proofs::for_pools_of_one_chunk([](std::string const& name, auto make) {
        // The block is freed before or after `forget_captures`, on a stream or on none.
        for (int const how : {0, 1, 2, 3}) {
            CAPTURE(how);
            doubles::mishaps const told;
            sim_node               node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
            sim_stream             s, frees, other;
            auto                   mr = make({.graphs = true});
            mr.deallocate_sync(mr.allocate_sync(1_MiB), 1_MiB); // there is a chunk before captures
            sim_graph::begin(s);
            void* const p = mr.allocate(s, 1_MiB);
            doubles::busy(s, p, 1_MiB, 5ms);
            mr.deallocate(s, p, 1_MiB);
            sim_graph const first = sim_graph::end(s);
            sim_graph::begin(s);
            void* q = mr.allocate(s, 1_MiB);
            CHECK(q == p);
            (void)sim_graph::end(s); // and is never launched
            auto const free = [&] {
                how % 2 == 0 ? mr.deallocate(frees, q, 1_MiB) : mr.deallocate_sync(q, 1_MiB);
            };
            if (how < 2) { free(); }
            first.launch(s);
            mr.forget_captures();
            if (how >= 2) { free(); }
            q = mr.try_allocate(other, 1_MiB);
            REQUIRE(q != nullptr);
            doubles::busy(other, q, 1_MiB);
            mr.deallocate(other, q, 1_MiB);
            other.synchronize();
            CHECK(node.now() == 6ms);
            CHECK(mr.trim() == 1_MiB);
            CHECK(told.count() == 0);
            for (auto const& r : node.reports()) { MESSAGE(name, ": ", r.text()); }
            CHECK(node.reports().empty());
        }
    });
}

TEST_CASE("stream_ordered: forget_captures waits for the last launch, also of another stream") {
    for (bool const elsewhere : {false, true}) {
        CAPTURE(elsewhere);
        doubles::mishaps const told;
        sim_node               node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
        sim_stream             s, launches;
        stream_ordered         mr{sim_virtual_resource{{.handle_size = 2_MiB}}};
        sim_graph::begin(s);
        void* const p = mr.allocate(s, 2_MiB);
        doubles::busy(s, p, 2_MiB, 5ms);
        mr.deallocate(s, p, 2_MiB);
        sim_graph const graph = sim_graph::end(s);
        graph.launch(elsewhere ? launches : s);
        mr.forget_captures();
        CHECK(mr.usage().pending == 0);
        (void)mr.trim();
        sim_device::current().synchronize();
        CHECK(told.count() == 0);
        for (auto const& r : node.reports()) { MESSAGE(r.text()); }
        CHECK(node.reports().empty());
    }
}

TEST_CASE(
    "every pool: memory that an event covered before a capture is not retained with later memory") {
    proofs::for_pools_of_one_chunk([](std::string const& name, auto make) {
        if (name == "monotonic") { return; } // cannot reuse a block in the middle: see below
        for (bool const trims : {true, false}) {
            // A slab refuses requests larger than a block.
            if (!trims && name == "slab") { continue; }
            CAPTURE(trims);
            doubles::mishaps const told;
            sim_node               node{{.on_report = sim_on_report::collect}};
            sim_stream             s, t, u;
            auto                   mr = make({.block = 4_KiB, .chunk = 64_KiB});
            std::vector<void*>     blocks;
            for (int i = 0; i < 14; ++i) { blocks.push_back(mr.allocate(s, 4_KiB)); }
            // Keeps the last block from coalescing with the others.
            void* const wall = mr.allocate(t, 4_KiB);
            void* const last = mr.allocate(s, 4_KiB);
            for (void* const p : blocks) { doubles::busy(s, p, 4_KiB); }
            for (void* const p : blocks) { mr.deallocate(s, p, 4_KiB); }
            void* const taken = mr.allocate(t, 4_KiB); // causes an event that covers them
            CHECK(mr.usage().waits == 1);
            mr.deallocate(t, taken, 4_KiB);
            mr.deallocate(t, wall, 4_KiB);
            sim_graph::begin(s, sim_capture_mode::relaxed);
            mr.deallocate(s, last, 4_KiB); // it may belong to the graph, but it is not accessed
            if (trims) {
                CHECK(mr.trim() == 0);
            } else {
                CHECK(mr.try_allocate(t, 64_KiB) == nullptr);
            }
            (void)sim_graph::end(s);
            sim_platform::synchronize(sim_device{});
            blocks.clear();
            while (void* const p = mr.try_allocate(u, 4_KiB)) { blocks.push_back(p); }
            CHECK(blocks.size() == 15);
            for (void* const p : blocks) { mr.deallocate(u, p, 4_KiB); }
            mr.forget_captures();
            CHECK(mr.trim() == 64_KiB);
            CHECK(told.count() == 0);
            CHECK(node.reports().empty());
        }
    });
}

TEST_CASE(
    "monotonic: memory that an event covered before a capture is not retained with later memory") {
    doubles::mishaps const told;
    sim_node               node{{.on_report = sim_on_report::collect}};
    sim_stream             s, t, u;
    monotonic              mr{sim_resource{}, {.max_size = 2_MiB}, fixed_growth{1_MiB}};
    void* const            a    = mr.allocate(s, 1_MiB);
    auto const             here = mr.mark();
    doubles::busy(s, mr.allocate(s, 1_MiB), 1_MiB); // in a chunk of its own
    mr.unwind(here, s);
    // Causes an event that covers the other half.
    (void)mr.allocate(t, 512_KiB);
    CHECK(mr.usage().events == 1);
    doubles::busy(s, a, 1_MiB);
    mr.reset_sync();
    sim_graph::begin(s, sim_capture_mode::relaxed);
    void* p = mr.try_allocate(t, 1_MiB); // not the memory that the graph may use
    CHECK(p != a);
    REQUIRE(p != nullptr);
    mr.reset(t);
    CHECK(mr.trim() == 1_MiB);
    (void)sim_graph::end(s);
    CHECK(mr.trim() == 0);
    mr.forget_captures();
    p = mr.allocate(u, 1_MiB);
    doubles::busy(u, p, 1_MiB);
    mr.deallocate(u, p, 1_MiB);
    u.synchronize();
    CHECK(told.count() == 0);
    CHECK(node.reports().empty());
}
