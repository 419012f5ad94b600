// SPDX-License-Identifier: Apache-2.0
// With `event_policy::eager` streams may be destroyed without `retire`: the rest of a chunk that
// was allocated in their order is then available like memory that they freed.
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

constexpr proofs::pool_wish of_sixteen{
    .block = 4_KiB, .chunk = 64_KiB, .events = event_policy::eager};

} // namespace

TEST_CASE("every pool, eager: the rest of a chunk outlives the stream that it was allocated for") {
    proofs::for_pools_of_one_chunk([](auto const&, auto make) {
        doubles::mishaps const told;
        sim_node               node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
        sim_stream             other, captured;
        {
            auto                      mr = make(of_sixteen);
            std::optional<sim_stream> s{std::in_place};
            void* const               p = mr.allocate(*s, 4_KiB);
            doubles::busy(*s, p, 4_KiB, 1s);
            {
                sim_event place;
                place.record(*s);
                place.wait(other);
            }
            mr.deallocate(other, p, 4_KiB);
            s.reset();
            auto const before = node.now();
            sim_graph::begin(captured, sim_capture_mode::relaxed);
            std::vector<void*> blocks;
            for (int i = 0; i < 16; ++i) { blocks.push_back(mr.try_allocate(other, 4_KiB)); }
            CHECK(node.now() - before < 1ms); // no wait for the device
            CHECK_NOTHROW((void)sim_graph::end(captured));
            for (void* const q : blocks) {
                CHECK(q != nullptr);
                doubles::busy(other, q, 4_KiB);
                mr.deallocate(other, q, 4_KiB);
            }
            CHECK(mr.usage().live == 0);
        }
        CHECK(told.count() == 0);
        CHECK(node.figures().used == 0);
        for (auto const& r : node.reports()) { MESSAGE(r.text()); }
        CHECK(node.reports().empty());
    });
}

TEST_CASE("every pool, eager: a chunk whose stream died before any free on it is returned") {
    proofs::for_pools_of_one_chunk([](auto const&, auto make) {
        doubles::mishaps const told;
        sim_node               node{{.on_report = sim_on_report::collect}};
        auto                   mr = make(of_sixteen);
        {
            sim_stream  s;
            void* const p = mr.allocate(s, 4_KiB);
            s.synchronize();
            mr.deallocate_sync(p, 4_KiB);
        }
        CHECK(mr.trim() == 64_KiB);
        CHECK(told.count() == 0);
        CHECK(node.reports().empty());
    });
}

TEST_CASE("every pool, eager: a thread's default stream shares its chunk with another thread's") {
    proofs::for_pools_of_one_chunk([](auto const&, auto make) {
        doubles::mishaps const told;
        sim_node               node{{.compute_slots  = 2,
                                     .default_stream = sim_default_stream::per_thread,
                                     .on_report      = sim_on_report::collect}};
        sim_stream             captured;
        auto                   mr = make(of_sixteen);
        sim_thread             first{sim_device{}, [&] {
                             void* const p = mr.allocate({}, 4_KiB);
                             doubles::busy({}, p, 4_KiB, 1s);
                             sim_graph::begin(captured, sim_capture_mode::relaxed);
                             sim_thread second{sim_device{}, [&] {
                                                   auto const  before = node.now();
                                                   void* const q = mr.try_allocate({}, 4_KiB);
                                                   CHECK(q != nullptr);
                                                   CHECK(node.now() - before < 1ms);
                                                   mr.deallocate({}, q, 4_KiB);
                                               }};
                             second.join();
                             CHECK_NOTHROW((void)sim_graph::end(captured));
                             mr.deallocate({}, p, 4_KiB);
                         }};
        first.join();
        CHECK(mr.usage().live == 0);
        CHECK(told.count() == 0);
        CHECK(node.reports().empty());
    });
}

TEST_CASE(
    "monotonic, eager: a stream may be destroyed once its blocks are unwound, on any stream") {
    doubles::mishaps const told;
    sim_node               node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
    sim_stream             other, third;
    monotonic mr{sim_resource{}, {.initial_size = 4_MiB, .events = event_policy::eager}};
    std::optional<sim_stream> s{std::in_place};
    void* const               a = mr.allocate(*s, 1_MiB);
    void* const               b = mr.allocate(*s, 1_MiB);
    (void)mr.allocate(other, 1_MiB);
    doubles::busy(*s, a, 1_MiB, 5ms);
    doubles::busy(*s, b, 1_MiB, 5ms);
    mr.deallocate(*s, a, 1_MiB);
    CHECK(mr.usage().events == 0);
    mr.reset(other);
    CHECK(mr.usage().events == 2); // one behind each stream
    s.reset();
    sim_launch(third, {.name = "long", .duration = 1s});
    void* const d = mr.allocate(other, 4_MiB);
    CHECK(node.now() < 1ms);
    doubles::busy(other, d, 4_MiB);
    mr.reset(other);
    other.synchronize();
    CHECK(node.now() < 1s); // an event was waited for, and no device
    CHECK(told.count() == 0);
    CHECK(node.reports().empty());
}
