// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_options.hpp> // first: the header must stand alone

#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace vram;
using namespace std::chrono_literals;

namespace {
/// Returns the simulated time of `call()` on the calling thread.
template <class Call>
sim_time cost_on(sim_node& node, Call call) {
    sim_time const since = node.now();
    call();
    return node.now() - since;
}
/// A node with the costs of an H200, without contents.
sim_options h200_without_contents() {
    sim_options o = sim_options::h200();
    o.backed      = false;
    o.on_report   = sim_on_report::collect;
    return o;
}
} // namespace

TEST_CASE("sim_options: the defaults are one device and all checks that a correct program passes") {
    sim_options const o;
    CHECK(o.devices == 1);
    CHECK(o.checks.races);
    CHECK(o.checks.frees);
    CHECK(o.checks.leaks);
    CHECK_FALSE(o.checks.uninitialised);
    CHECK_FALSE(o.checks.capacity);
    CHECK(o.call_cost == sim_time{0});
    CHECK(o.query_cost > sim_time{0}); // a loop of queries must end
    CHECK(o.host_copy_bandwidth == 0); // the host copies in no time
    CHECK_FALSE(o.host_page_tables);
    CHECK(o.threads == sim_order::by_time);
    CHECK(o.kernel_latency + o.start_latency + o.costs.wake == sim_time{0});
    CHECK(o.costs.thread_wake + o.costs.driver_handoff + o.costs.driver_switch == sim_time{0});
    CHECK(o.cached_bandwidth == 0); // the caches of the host delay no copy
    CHECK(o.costs.allocate.empty());
    CHECK(o.devices_per_root == 1);
    CHECK_FALSE(o.kernels_share);
}

TEST_CASE("sim_cost: linear between points, constant before the first, one slope after the last") {
    // [sim/sim_options]
    sim_cost const allocate{{0, 1us}, {2_MiB, 35us}, {1_GiB, 200us}};
    CHECK(allocate.of(1_MiB) == 18us);
    // [/sim/sim_options]
    CHECK(allocate.of(0) == 1us);
    CHECK(allocate.of(2_MiB) == 35us);
    CHECK(allocate.of(1_GiB) == 200us);
    CHECK(allocate.of(2_GiB) > 360us);
    CHECK(sim_cost{7us}.of(5_GiB) == 7us);
    CHECK(sim_cost{}.of(5_GiB) == 0us);
    CHECK(sim_cost{{4_KiB, 2us}, {8_KiB, 3us}}.of(1) == 2us);
    CHECK(sim_cost{{0, 1us}, {3, 2us}}.of(1) == sim_time{1333}); // rounded down
    CHECK(sim_cost{{0, 0us}, {16_GiB, 16s}}.of(8_GiB) == 8s);    // no overflow
}

TEST_CASE("sim_cost: two points with the same number of bytes are a step") {
    sim_cost const within{{0, 1us}, {10, 2us}, {10, 5us}, {20, 6us}};
    CHECK(within.of(10) == 2us);
    CHECK(within.of(20) == 6us);
    sim_cost const last{{0, 1us}, {10, 2us}, {10, 5us}};
    CHECK(last.of(10) == 2us);
    CHECK(last.of(11) == 5us);
    CHECK(last.of(1_GiB) == 5us);
    sim_cost const only{{10, 2us}, {10, 5us}};
    CHECK(only.of(10) == 2us);
    CHECK(only.of(11) == 5us);
}

TEST_CASE("sim_costs: without a profile calls take no simulated time") {
    sim_node node{{.backed = false}};
    {
        sim_resource        memory;
        sim_pinned_resource pinned;
        sim_async_resource  async;
        sim_stream          s;
        sim_event           e;
        void* const         p = memory.allocate_sync(64_MiB);
        void* const         h = pinned.allocate_sync(64_MiB);
        void* const         a = async.allocate(s, 64_MiB);
        e.record(s);
        e.wait(s);
        e.synchronize();
        async.deallocate(s, a, 64_MiB);
        s.synchronize();
        pinned.deallocate_sync(h, 64_MiB);
        memory.deallocate_sync(p, 64_MiB);
    }
    CHECK(node.now() == sim_time{0});
}

TEST_CASE("sim_costs: each call advances the clock of its thread by its cost") {
    sim_options const o = h200_without_contents();
    sim_costs const&  c = o.costs;
    sim_node          node{o};
    {
        sim_resource               memory;
        sim_pinned_resource        pinned;
        sim_async_resource         async{sim_device{}, {.release_threshold = unsatisfiable}};
        detail::sim_virtual_memory pages;
        void *                     p = nullptr, *h = nullptr, *at = nullptr;
        std::uint64_t              handle = 0;
        CHECK(cost_on(node, [&] { p = memory.allocate_sync(64_MiB); }) == c.allocate.of(64_MiB));
        CHECK(cost_on(node, [&] { memory.deallocate_sync(p, 64_MiB); }) == c.free.of(64_MiB));
        CHECK(cost_on(node, [&] { h = pinned.allocate_sync(1_GiB); }) == c.pin.of(1_GiB));
        CHECK(cost_on(node, [&] { pinned.deallocate_sync(h, 1_GiB); }) == c.unpin.of(1_GiB));
        sim_stream s, t;
        CHECK(cost_on(node, [&] { p = async.allocate(s, 1_GiB); }) ==
              c.allocate_async.of(1_GiB) + c.grow_async.of(1_GiB));
        CHECK(cost_on(node, [&] { async.deallocate(s, p, 1_GiB); }) == c.free_async.of(1_GiB));
        CHECK(cost_on(node, [&] { p = async.allocate(s, 1_GiB); }) == c.allocate_async.of(1_GiB));
        async.deallocate(s, p, 1_GiB);
        CHECK(cost_on(node, [&] { at = pages.reserve(128_MiB, 2_MiB); }) == c.reserve.of(128_MiB));
        CHECK(cost_on(node, [&] { handle = pages.create(64_MiB); }) == c.create.of(64_MiB));
        CHECK(cost_on(node, [&] { pages.map(at, handle, 64_MiB); }) == c.map.of(64_MiB));
        CHECK(cost_on(node, [&] { pages.set_access(at, 64_MiB); }) == c.set_access.of(64_MiB));
        CHECK(cost_on(node, [&] { pages.unmap(at, 64_MiB); }) == c.unmap.of(64_MiB));
        CHECK(cost_on(node, [&] { pages.destroy(handle, 64_MiB); }) == c.destroy.of(64_MiB));
        CHECK(cost_on(node, [&] { pages.release(at, 128_MiB); }) == c.release.of(128_MiB));
        CHECK(cost_on(node, [&] { sim_stream other; }) == c.create_stream.of(0));
        sim_event e;
        CHECK(cost_on(node, [&] { e.record(s); }) == c.record.of(0));
        CHECK(cost_on(node, [&] { e.wait(t); }) == c.wait.of(0));
        CHECK(cost_on(node, [&] { CHECK(e.done()); }) == c.query.of(0));
        CHECK(cost_on(node, [&] { e.synchronize(); }) == c.synchronize.of(0));
        CHECK(cost_on(node, [&] { sim_launch(s, {}); }) == c.launch.of(0));
        CHECK(cost_on(node, [&] { sim_call_host(s, [](void*) {}, nullptr); }) ==
              c.host_function.of(0));
        s.synchronize();
    }
    CHECK(node.reports().empty());
}

namespace {
/// A device of which a copy and a record cost 1.68 us of one thread, as measured on an H200.
sim_options copy_and_record() {
    sim_options o;
    o.backed               = false;
    o.on_report            = sim_on_report::collect;
    o.costs.copy           = sim_time{1510};
    o.costs.record         = sim_time{170};
    o.costs.driver_handoff = sim_time{750};
    return o;
}
/// Returns the simulated time that a copy and its record take each of `count` threads, which make
/// many of them at the same time, thread `i` on the device `i % devices`.
double ns_of_each_pair(sim_options o, int count, int devices = 1) {
    int constexpr rounds = 200;
    o.devices            = devices;
    sim_node node{o};
    {
        sim_pinned_resource     pinned;
        std::vector<sim_thread> threads;
        std::byte* const        host = static_cast<std::byte*>(pinned.allocate_sync(64 * 512));
        for (int i = 0; i < count; ++i) {
            threads.emplace_back(sim_device{i % devices}, [&, i] {
                sim_resource memory{sim_device{i % devices}};
                sim_stream   s{sim_device{i % devices}};
                sim_event    e{sim_device{i % devices}};
                void* const  there = memory.allocate_sync(512);
                for (int k = 0; k < rounds; ++k) {
                    sim_copy(s, there, host + 512 * i, 512);
                    e.record(s);
                }
                s.synchronize();
                memory.deallocate_sync(there, 512);
            });
        }
        for (sim_thread& each : threads) { each.join(); }
        pinned.deallocate_sync(host, 64 * 512);
    }
    CHECK(node.reports().empty());
    return static_cast<double>(node.now().count()) / rounds;
}
} // namespace

TEST_CASE("sim_costs: calls of several threads on a device take turns, as measured on an H200" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_options const o = copy_and_record();
    CHECK(ns_of_each_pair(o, 1) == doctest::Approx(1680).epsilon(0.01));
    CHECK(ns_of_each_pair(o, 2) == doctest::Approx(6370).epsilon(0.01));
    CHECK(ns_of_each_pair(o, 4) == doctest::Approx(12780).epsilon(0.01));
    CHECK(sim_options::h200().costs.driver_handoff == o.costs.driver_handoff);
    CHECK(sim_options::h100().costs.driver_handoff == o.costs.driver_handoff);
}

namespace {
/// Returns the mean simulated time of a copy and its record by one of `count` threads, each of which
/// does other work for 50 us between them.
double ns_of_rare_pair(sim_options o, int count) {
    int constexpr rounds = 50;
    sim_node node{o};
    sim_time spent{};
    {
        sim_pinned_resource     pinned;
        sim_resource            memory;
        std::vector<sim_thread> threads;
        std::byte* const        host  = static_cast<std::byte*>(pinned.allocate_sync(64 * 512));
        std::byte* const        there = static_cast<std::byte*>(memory.allocate_sync(64 * 512));
        for (int i = 0; i < count; ++i) {
            threads.emplace_back(sim_device{}, [&, i] {
                sim_stream s;
                sim_event  e;
                sim_work(10us * i);
                for (int k = 0; k < rounds; ++k) {
                    sim_work(50us);
                    sim_time const since = node.now();
                    sim_copy(s, there + 512 * i, host + 512 * i, 512);
                    e.record(s);
                    spent += node.now() - since;
                }
                s.synchronize();
            });
        }
        for (sim_thread& each : threads) { each.join(); }
        memory.deallocate_sync(there, 64 * 512);
        pinned.deallocate_sync(host, 64 * 512);
    }
    CHECK(node.reports().empty());
    return static_cast<double>(spent.count()) / (rounds * count);
}
} // namespace

TEST_CASE("sim_costs: a call after one of another thread costs more, as measured on an H200" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_options o         = copy_and_record();
    o.costs.driver_switch = sim_time{5800};
    CHECK(ns_of_rare_pair(o, 1) == doctest::Approx(1680).epsilon(0.01));
    CHECK(ns_of_rare_pair(o, 2) == doctest::Approx(7480).epsilon(0.02));
    CHECK(ns_of_each_pair(o, 1) == doctest::Approx(1680).epsilon(0.01));
    CHECK(ns_of_each_pair(o, 4) == doctest::Approx(12780).epsilon(0.02));
    CHECK(sim_options::h200().costs.driver_switch == o.costs.driver_switch);
}

TEST_CASE("sim_options: copies of pinned memory in a cache of the host take longer") {
    sim_options o;
    o.backed           = false;
    o.host_bandwidth   = 1'000'000'000;
    o.copy_latency     = sim_time{0};
    o.core_cache       = 16_KiB;
    o.cached_bandwidth = 500'000'000;
    sim_node            node{o};
    sim_pinned_resource pinned;
    sim_resource        memory;
    sim_stream          s;
    std::byte           plain[8_KiB];
    auto* const         host  = static_cast<std::byte*>(pinned.allocate_sync(8_KiB));
    void* const         there = memory.allocate_sync(8_KiB);
    auto const          time  = [&](void* to, void const* from, std::size_t n) {
        sim_time const since = node.now();
        sim_copy(s, to, from, n);
        s.synchronize();
        return (node.now() - since).count();
    };
    CHECK(time(there, host, 1000) == 1000);
    sim_platform::host_copies(host, plain, 500);
    CHECK(time(there, host, 1000) == 1500); // half of it is in the cache
    CHECK(time(there, host, 1000) == 1000); // the device has copied it
    sim_platform::host_copies(plain, host, 1000);
    CHECK(time(host, there, 1000) == 2000);
    sim_platform::host_copies(plain, host, 8_KiB, true); // the target bypasses the cache
    CHECK(time(host, there, 8_KiB) == 16384);
    sim_platform::host_copies(plain, host, 8_KiB); // with its target, as large as the cache
    CHECK(time(host, there, 8_KiB) == 8192);
    sim_platform::host_copies(host, plain, 8_KiB); // with its source, as large as the cache
    CHECK(time(there, host, 8_KiB) == 8192);
    sim_platform::host_copies(host, plain, 1000);
    sim_platform::host_copies(host, plain, 500, true); // these bytes are no longer in the cache
    CHECK(time(there, host, 1000) == 1500);
    sim_platform::host_copies(host, nullptr, 1000); // a file
    CHECK(time(there, host, 1000) == 2000);
    memory.deallocate_sync(there, 8_KiB);
    pinned.deallocate_sync(host, 8_KiB);
}

TEST_CASE("sim_options: no copy is faster than the link, also of memory in a cache of the host") {
    sim_options o;
    o.backed           = false;
    o.host_bandwidth   = 1'000'000'000;
    o.copy_latency     = sim_time{0};
    o.core_cache       = 16_KiB;
    o.cached_bandwidth = 2'000'000'000;
    sim_node            node{o};
    sim_pinned_resource pinned;
    sim_resource        memory;
    sim_stream          s;
    std::byte           plain[1000];
    void* const         host  = pinned.allocate_sync(1000);
    void* const         there = memory.allocate_sync(1000);
    sim_platform::host_copies(host, plain, 1000);
    sim_time const since = node.now();
    sim_copy(s, there, host, 1000);
    s.synchronize();
    CHECK(node.now() - since == 1us);
    memory.deallocate_sync(there, 1000);
    pinned.deallocate_sync(host, 1000);
}

TEST_CASE("sim_costs: calls on different devices do not wait for each other" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    CHECK(ns_of_each_pair(copy_and_record(), 4, 4) == doctest::Approx(1680).epsilon(0.01));
    CHECK(ns_of_each_pair(copy_and_record(), 4, 2) == doctest::Approx(6370).epsilon(0.01));
}

TEST_CASE("sim_costs: threads that take turns in the driver have the same times in each run") {
    for (sim_order const order : {sim_order::by_time, sim_order::by_seed}) {
        sim_options o      = copy_and_record();
        o.threads          = order;
        o.seed             = 7;
        double const first = ns_of_each_pair(o, 4);
        if (sim_ordered_threads) { CHECK(ns_of_each_pair(o, 4) == first); }
    }
}

TEST_CASE("sim_costs: queries and waits of the host do not wait for calls of other threads" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_options o       = copy_and_record();
    o.costs.launch      = 100us;
    o.costs.query       = 1us;
    o.costs.synchronize = 2us;
    sim_node   node{o};
    sim_event  e;
    sim_thread other{sim_device{}, [] { sim_launch(sim_stream{}, {}); }};
    sim_work(10us);
    CHECK(e.done());
    e.synchronize();
    CHECK(node.now() == sim_time{13us});
    e.record(sim_stream_view{});
    CHECK(node.now() == sim_time{100'920});
    other.join();
}

TEST_CASE("sim_costs: one call that maps many pieces costs as much as one call for each") {
    sim_options const o = h200_without_contents();
    sim_node          node{o};
    {
        detail::sim_virtual_memory pages;
        auto* const                at = static_cast<std::byte*>(pages.reserve(20_MiB, 2_MiB));
        std::uint64_t made[] = {pages.create(2_MiB), pages.create(2_MiB), pages.create(2_MiB)};
        for (std::size_t i = 0; i < 3; ++i) { pages.map(at + i * 2_MiB, made[i], 2_MiB); }
        CHECK(cost_on(node, [&] { pages.set_access(at, 6_MiB); }) ==
              3 * o.costs.set_access.of(2_MiB));
        CHECK(cost_on(node, [&] { pages.unmap(at, 6_MiB); }) == 3 * o.costs.unmap.of(2_MiB));
        for (std::uint64_t const handle : made) { pages.destroy(handle, 2_MiB); }
        pages.release(at, 20_MiB);
    }
}

TEST_CASE("sim_costs: cudaMalloc places small blocks in pages of 2 MiB, and pays for each page") {
    sim_options const o = h200_without_contents();
    sim_costs const&  c = o.costs;
    sim_node          node{o};
    {
        sim_resource memory;
        void*        p[3]  = {};
        auto const   small = c.allocate_small.of(1_MiB);
        CHECK(cost_on(node, [&] { p[0] = memory.allocate_sync(1_MiB); }) ==
              small + c.allocate_page);
        CHECK(cost_on(node, [&] { p[1] = memory.allocate_sync(1_MiB); }) == small);
        CHECK(cost_on(node, [&] { p[2] = memory.allocate_sync(1); }) == small + c.allocate_page);
        CHECK(cost_on(node, [&] { memory.deallocate_sync(p[2], 1); }) ==
              c.free_small.of(1) + c.free_page);
        CHECK(cost_on(node, [&] { memory.deallocate_sync(p[1], 1_MiB); }) ==
              c.free_small.of(1_MiB));
        memory.deallocate_sync(p[0], 1_MiB);
    }
}

TEST_CASE("sim_costs: a copy takes the issue, the start, the link, and the thread's waking") {
    sim_options const o = h200_without_contents();
    sim_node          node{o};
    {
        sim_resource        memory;
        sim_pinned_resource pinned;
        sim_stream          s;
        void* const         d       = memory.allocate_sync(64_MiB);
        void* const         h       = pinned.allocate_sync(64_MiB);
        sim_time const      on_link = o.copy_latency + sim_transfer_time(64_MiB, o.host_bandwidth);
        sim_time const      alone   = cost_on(node, [&] {
            sim_copy(s, d, h, 64_MiB);
            s.synchronize();
        });
        CHECK(alone == o.costs.copy.of(0) + o.start_latency + on_link + o.costs.wake);
        // One after the other, the calls are hidden behind the link.
        sim_time const ten = cost_on(node, [&] {
            for (int i = 0; i < 10; ++i) { sim_copy(s, d, h, 64_MiB); }
            s.synchronize();
        });
        CHECK(ten == o.costs.copy.of(0) + o.start_latency + 10 * on_link + o.costs.wake);
        memory.deallocate_sync(d, 64_MiB);
        pinned.deallocate_sync(h, 64_MiB);
    }
}

TEST_CASE("sim_costs: the advantage of a pool over cudaMalloc is visible in simulated time") {
    auto const time_of = [](auto make) {
        sim_node node{h200_without_contents()};
        sim_time taken{};
        {
            auto       memory = make();
            sim_stream s;
            taken = cost_on(node, [&] {
                for (int i = 0; i < 100; ++i) {
                    void* const p = memory.allocate(s, 32_MiB);
                    memory.deallocate(s, p, 32_MiB);
                }
            });
        }
        return taken;
    };
    sim_time const direct = time_of([] { return stream_ordered{sim_resource{}}; });
    sim_time const pooled = time_of([] { return pool{stream_ordered{sim_resource{}}}; });
    CHECK(direct > 9ms);
    CHECK(pooled < direct / 50);
    CHECK(time_of([] { return pool{stream_ordered{sim_resource{}}}; }) == pooled);
}

TEST_CASE("sim_options: a profile is a description that a program may change") {
    sim_options o = sim_options::h200();
    o.backed      = false; // memory without contents
    sim_node node{o};
    CHECK(node.options().capacity > sim_options::h100().capacity);
    CHECK(node.options().host_bandwidth == sim_options::h100().host_bandwidth);
}
