// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_room.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <random>
#include <utility>
#include <vector>

using namespace vram;
using namespace std::chrono_literals;

namespace {

/// A node whose pools reserve units of 16 KiB, of which its device has four.
sim_options in_units() {
    return {.capacity  = 64_KiB,
            .pool_unit = 16_KiB,
            .on_report = sim_on_report::collect,
            .trace     = true};
}
sim_async_options keep_all() { return {.release_threshold = unsatisfiable}; }

} // namespace

TEST_CASE(
    "sim_room: with the profile of a GPU, free memory that is mapped at other addresses costs "
    "time") {
    sim_options o = sim_options::h200();
    o.backed      = false;
    CHECK(o.pool_unit == 32_MiB);
    CHECK(sim_options::h100().pool_unit == 32_MiB);
    CHECK(sim_options{}.pool_unit == 0);
    sim_node           node{o};
    sim_async_resource memory{keep_all()};
    sim_stream         s;
    auto const         time_of = [&](void*& p, std::size_t bytes) {
        sim_time const before = node.now();
        p                     = memory.allocate(s, bytes);
        return node.now() - before;
    };
    sim_costs const& c = node.options().costs;
    void *           a = nullptr, *b = nullptr, *live = nullptr, *big = nullptr, *small = nullptr;
    CHECK(time_of(a, 32_MiB) == c.allocate_async.of(32_MiB) + c.grow_async.of(32_MiB));
    CHECK(time_of(b, 20_MiB) == c.allocate_async.of(20_MiB) + c.grow_async.of(32_MiB));
    CHECK(time_of(live, 1_MiB) == c.allocate_async.of(1_MiB));
    CHECK(memory.usage().reserved == 64_MiB);
    memory.deallocate(s, b, 20_MiB);
    memory.deallocate(s, a, 32_MiB);
    s.synchronize();
    CHECK(memory.usage().reserved == 64_MiB);
    CHECK(time_of(small, 10_MiB) == c.allocate_async.of(10_MiB)); // in the free memory
    memory.deallocate(s, small, 10_MiB);
    s.synchronize();
    // 53 to 153 MiB: three units, of which one gets the memory of the unit from 0 to 32 MiB.
    CHECK(time_of(big, 100_MiB) ==
          c.allocate_async.of(100_MiB) + c.grow_async.of(96_MiB) + c.merge_async);
    CHECK(memory.usage().reserved == 128_MiB);
    CHECK(node.figures().used == 128_MiB);
    memory.deallocate(s, big, 100_MiB);
    memory.deallocate(s, live, 1_MiB);
    s.synchronize();
    CHECK(memory.trim(32_MiB) == 96_MiB);
    CHECK(memory.trim() == 32_MiB);
    CHECK(node.figures().used == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_room: a pool without a threshold returns whole units that are free") {
    sim_node           node{in_units()};
    sim_async_resource memory;
    sim_stream         s;
    void* const        a = memory.allocate(s, 20_KiB);
    void* const        b = memory.allocate(s, 20_KiB);
    CHECK(memory.usage().reserved == 48_KiB);
    CHECK(memory.usage().peak_reserved == 48_KiB);
    sim_launch(s, {.duration = 1us});
    memory.deallocate(s, a, 20_KiB);
    CHECK(memory.usage().pending == 20_KiB);
    s.synchronize();
    CHECK(memory.usage().pending == 0);
    CHECK(memory.usage().reserved == 32_KiB); // `b` is in two units
    memory.deallocate(s, b, 20_KiB);
    s.synchronize();
    CHECK(memory.usage().reserved == 0);
    CHECK(node.figures().used == 0);
}

TEST_CASE("sim_room: a pool with units of more than 1 TiB is refused") {
    for (std::size_t const unit : {unsatisfiable, (std::size_t{1} << 40) + 1}) {
        sim_node node{{.pool_unit = unit}};
        CHECK_THROWS_AS(sim_async_resource{}, sim_error);
    }
    sim_node           node{{.capacity = std::size_t{1} << 40, .pool_unit = std::size_t{1} << 40}};
    sim_async_resource memory;
    sim_stream         s;
    void* const        p = memory.allocate(s, 512);
    CHECK(memory.usage().reserved == std::size_t{1} << 40);
    memory.deallocate(s, p, 512);
}

TEST_CASE("sim_room: limits and initial sizes are rounded up to whole units") {
    sim_node           node{in_units()};
    sim_async_resource memory{{.initial_size = 17_KiB, .maximum_size = 33_KiB}};
    sim_stream         s;
    CHECK(memory.usage().reserved == 32_KiB);
    CHECK(memory.trim_no_wait(20_KiB) == 0); // one unit is less than 20 KiB
    void* const p = memory.allocate(s, 40_KiB);
    CHECK(memory.usage().reserved == 48_KiB);
    CHECK(memory.try_allocate(s, 9_KiB) == nullptr);
    memory.deallocate(s, p, 40_KiB);
    s.synchronize();
    CHECK(memory.usage().reserved == 32_KiB);
    CHECK_THROWS_AS((sim_async_resource{{.initial_size = 33_KiB}}), out_of_memory);
}

TEST_CASE("sim_room: a stream gets pending memory of others only if the device has no more, and "
          "then it waits") {
    sim_node           node{in_units()};
    sim_async_resource memory{keep_all()};
    sim_stream         s, t, u;
    void* const        a = memory.allocate(s, 32_KiB);
    void* const        b = memory.allocate(t, 16_KiB);
    sim_launch(s, {.duration = 10us});
    sim_launch(t, {.duration = 20us});
    memory.deallocate(s, a, 32_KiB);
    memory.deallocate(t, b, 16_KiB);
    CHECK(memory.usage().pending == 48_KiB);
    void* const c = memory.allocate(u, 16_KiB);
    CHECK(memory.usage().reserved == 64_KiB);
    void* const d = memory.allocate(s, 8_KiB); // its own memory
    void* const e = memory.allocate(u, 40_KiB);
    CHECK(e != nullptr);
    CHECK(node.now() == 0us);
    sim_call_host(u, [](void*) {}, nullptr);
    u.synchronize();
    CHECK(node.trace().back().start == 30us); // the kernels run one after the other
    CHECK(memory.try_allocate(u, 8_KiB) == nullptr);
    CHECK(memory.usage().live == 64_KiB);
    CHECK(memory.usage().pending == 0);
    memory.deallocate(u, c, 16_KiB);
    memory.deallocate(s, d, 8_KiB);
    memory.deallocate(u, e, 40_KiB);
    sim_device{}.synchronize();
    CHECK(memory.trim() == 64_KiB);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_room: other streams get the memory of a free at once if its stream is idle") {
    sim_options o   = in_units();
    o.start_latency = 2us; // the frees are complete later
    sim_node           node{o};
    sim_async_resource memory{keep_all()};
    sim_stream         s, t;
    auto const         give = [&] {
        void* const p = memory.allocate(s, 16_KiB);
        memory.deallocate(s, p, 16_KiB);
    };
    give();
    give(); // only a free is unfinished
    CHECK(memory.usage().pending == 0);
    void* const p = memory.allocate(t, 16_KiB);
    CHECK(memory.usage().reserved == 16_KiB);
    memory.deallocate(t, p, 16_KiB);
    sim_launch(s, {.duration = 10us});
    give();
    give();
    CHECK(memory.usage().pending == 16_KiB);
    void* const q = memory.allocate(t, 16_KiB);
    CHECK(memory.usage().reserved == 32_KiB);
    memory.deallocate(t, q, 16_KiB);
    sim_device{}.synchronize();
    CHECK(node.reports().empty());
}

TEST_CASE(
    "sim_room: an allocation that fails after it found memory leaves pending memory pending") {
    for (std::size_t const bytes : {32_KiB, 64_KiB}) {
        sim_node           node{in_units()};
        sim_async_resource memory{keep_all()};
        sim_stream         s, t;
        void* const        a = memory.allocate(s, 64_KiB);
        sim_launch(s, {.duration = 1s});
        memory.deallocate(s, a, 64_KiB);
        CHECK(memory.try_allocate(s, bytes, std::size_t{1} << 60) == nullptr); // no such address
        CHECK(memory.usage().live == 0);
        CHECK(memory.usage().pending == 64_KiB);
        void* const b = memory.allocate(t, 64_KiB);
        sim_launch(t, {.duration = 1us});
        t.synchronize();
        CHECK(node.now() >= 1s);
        memory.deallocate(t, b, 64_KiB);
    }
}

TEST_CASE("sim_room: with a threshold of 0, a merge costs time if no unit was returned before") {
    for (std::size_t const threshold : {std::size_t{0}, unsatisfiable}) {
        sim_options o       = in_units();
        o.costs.merge_async = 1us;
        sim_node           node{o};
        sim_async_resource memory{{.release_threshold = threshold}};
        sim_stream         s, t;
        sim_event          e;
        void* const        a = memory.allocate(s, 2_KiB);
        void* const        b = memory.allocate(s, 4_KiB);
        void* const        c = memory.allocate(s, 4_KiB);
        void* const        d = memory.allocate(s, 6_KiB);
        e.record(s);
        e.wait(t);
        memory.deallocate(s, b, 4_KiB);
        memory.deallocate(t, c, 4_KiB);
        s.synchronize();
        t.synchronize();
        sim_time const before = node.now();
        void* const    big    = memory.allocate(s, 8_KiB); // `b` and `c` are neighbours
        CHECK(node.now() - before == 2us);
        CHECK(memory.usage().reserved == 16_KiB);
        for (void* const p : {a, d, big}) {
            memory.deallocate(s, p, p == a ? 2_KiB : p == d ? 6_KiB : 8_KiB);
        }
    }
}

TEST_CASE("sim_room: memory that graphs hold counts besides the units") {
    sim_node           node{in_units()};
    sim_async_resource memory;
    sim_stream         s;
    void* const        p = memory.allocate(s, 1_KiB);
    sim_graph::begin(s);
    void* const q = memory.allocate(s, 2_KiB);
    void* const r = memory.allocate(s, 2_KiB);
    memory.deallocate(s, r, 2_KiB);
    {
        sim_graph graph = sim_graph::end(s);
        CHECK(memory.usage().reserved == 18_KiB);
        graph.launch(s);
        memory.deallocate(s, q, 2_KiB); // outside of the graph
        s.synchronize();
        CHECK(memory.usage().reserved == 16_KiB);
        graph.launch(s);
        CHECK(memory.usage().reserved == 18_KiB);
        memory.deallocate(s, q, 2_KiB);
        s.synchronize();
    }
    memory.deallocate(s, p, 1_KiB);
    s.synchronize();
    CHECK(memory.usage().live == 0);
    CHECK(memory.usage().reserved == 0);
    CHECK(node.figures().used == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_room: random programs of several streams keep the numbers of the pool consistent") {
    for (unsigned seed = 1; seed <= 4; ++seed) {
        std::mt19937 random{seed};
        sim_options  o = in_units();
        o.capacity     = 1_MiB;
        sim_node                                   node{o};
        std::vector<sim_stream>                    streams(3);
        std::vector<std::pair<void*, std::size_t>> live;
        std::size_t                                bytes = 0, wrong = 0, refused = 0;
        {
            sim_async_resource memory{{.release_threshold = random() % 2 == 0 ? 0 : 256_KiB}};
            for (int i = 0; i < 2000; ++i) {
                sim_stream& s = streams[random() % 3];
                if (live.empty() || random() % 100 < 55) {
                    std::size_t const n = 512 * (1 + random() % (random() % 4 == 0 ? 200 : 20));
                    sim_launch(s, {.duration = sim_time{random() % 2000}});
                    if (void* const p = memory.try_allocate(s, n)) {
                        live.emplace_back(p, n);
                        bytes += n;
                    } else {
                        ++refused;
                    }
                } else {
                    auto const [p, n] = live[random() % live.size()];
                    std::erase(live, std::pair{p, n});
                    sim_device{}.synchronize(); // the block's stream is behind, whichever it is
                    sim_launch(s, {.duration = sim_time{random() % 5000}});
                    memory.deallocate(s, p, n);
                    bytes -= n;
                }
                memory_usage const now = memory.usage();
                wrong += now.live == bytes && now.reserved % 16_KiB == 0 ? 0U : 1U;
                wrong += now.live + now.pending <= now.reserved ? 0U : 1U;
                wrong += node.figures().used == now.reserved ? 0U : 1U;
            }
            sim_device{}.synchronize();
            for (auto const& [p, n] : live) { memory.deallocate(streams[0], p, n); }
        }
        CAPTURE(seed);
        CHECK(wrong == 0);
        CHECK(refused > 0);
        sim_device{}.synchronize();
        CHECK(node.figures().used == 0);
        for (sim_report const& r : node.reports()) { FAIL_CHECK(r.text()); }
    }
}
