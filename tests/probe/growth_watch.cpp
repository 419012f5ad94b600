// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/growth_watch.hpp> // first: the header must stand alone

#include "../doubles/archetype.hpp"

#include <vram/base/bytes.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/probe/tracking.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

using namespace vram;

template class vram::growth_watch<doubles::archetype<>>;

TEST_CASE("growth_watch: memory that grows at each step is found, with tag and line") {
    sim_node                                     node;
    sim_stream                                   s;
    tracking<pool<stream_ordered<sim_resource>>> memory;
    std::vector<void*>                           cache;
    growth_watch                                 watch{memory};
    unsigned                                     line = 0;
    for (int i = 0; i < 100; ++i) {
        void* const work = memory.allocate(s, 1_MiB);
        if (i >= 12) {
            tagged const scope{"cache"};
            line = __LINE__ + 1;
            cache.push_back(memory.allocate(s, 64_KiB));
        }
        memory.deallocate(s, work, 1_MiB);
        watch.step();
    }
    memory_growth const found = watch.growth();
    REQUIRE(found);
    CHECK(watch.steps() == 100);
    CHECK(found.since == 12);
    CHECK(found.until == 100);
    CHECK(found.per_step() == 64_KiB);
    CHECK(found.live_since == 8); // nothing has changed from then to step 12
    CHECK(found.live == found.bytes);
    CHECK(found.sites.find("of tag \"cache\"") != std::string::npos);
    if (call_site::current().known()) {
        CHECK(found.sites.find("growth_watch.cpp:" + std::to_string(line)) != std::string::npos);
    }
    for (void* p : cache) { memory.deallocate(s, p, 64_KiB); }
    watch.step();
    CHECK_FALSE(watch.growth()); // it has returned
}

TEST_CASE("growth_watch: a stack that gets a new value is watched with its lists of then") {
    using stack = tracking<pool<stream_ordered<sim_resource>>>;
    sim_node           node;
    sim_stream         s;
    stack              memory;
    std::vector<void*> cache;
    growth_watch       watch{memory};
    memory = stack{}; // the lists of before are destroyed
    for (int i = 0; i < 60; ++i) {
        tagged const scope{"cache"};
        cache.push_back(memory.allocate(s, 64_KiB));
        watch.step();
    }
    memory_growth const found = watch.growth();
    CHECK(found);
    CHECK(found.sites.find("of tag \"cache\"") != std::string::npos);
    for (void* p : cache) { memory.deallocate(s, p, 64_KiB); }
}

TEST_CASE(
    "growth_watch: a cache that is full does not grow, nor does memory that rises and falls") {
    doubles::archetype<> memory;
    std::vector<void*>   cache;
    growth_watch         watch{memory};
    for (std::size_t i = 0; i < 500; ++i) {
        if (i < 20) { cache.push_back(memory.allocate_sync(1_KiB)); }
        std::size_t const work = 100 + 100 * (i % 7);
        void* const       kept = memory.allocate_sync(work);
        watch.step();
        memory.deallocate_sync(kept, work);
        CHECK_FALSE(watch.growth());
    }
    for (void* p : cache) { memory.deallocate_sync(p, 1_KiB); }
}

TEST_CASE(
    "growth_watch: after a warm-up and a plateau, the lines are counted from the plateau on") {
    sim_node                                     node;
    sim_stream                                   s;
    tracking<pool<stream_ordered<sim_resource>>> memory;
    std::vector<void*>                           cache;
    growth_watch                                 watch{memory};
    for (int i = 0; i < 500; ++i) {
        if (i < 40 || i >= 200) { cache.push_back(memory.allocate(s, 64_KiB)); }
        watch.step();
    }
    memory_growth const found = watch.growth();
    REQUIRE(found);
    CHECK(found.since >= 197);
    CHECK(found.since <= 203);
    CHECK(found.per_step() == 64_KiB);
    CHECK(found.live_since <= 200);
    CHECK(found.live_since > 40);
    CHECK(found.live == 300 * 64_KiB); // those of the plateau and of the warm-up are not counted
    CHECK(found.sites.find("18.8 MiB more live") != std::string::npos);
    for (void* p : cache) { memory.deallocate(s, p, 64_KiB); }
}

TEST_CASE("growth_watch: memory of another library is found on the device") {
    sim_node                           node{{.capacity = 1_GiB, .backed = false}};
    pool<stream_ordered<sim_resource>> memory;
    sim_resource                       other; // of a library that does not use `memory`
    sim_stream                         s;
    std::vector<void*>                 lost;
    growth_watch                       device{memory, {.of = growth_of::device, .steps = 20}};
    growth_watch                       own{memory, {.steps = 20}};
    growth_watch                       reserved{memory, {.of = growth_of::reserved}};
    for (int i = 0; i < 40; ++i) {
        memory.deallocate(s, memory.allocate(s, 1_MiB), 1_MiB);
        lost.push_back(other.allocate_sync(2_MiB));
        device.step();
        own.step();
        reserved.step();
    }
    CHECK_FALSE(own.growth());
    CHECK_FALSE(reserved.growth());
    memory_growth const found = device.growth();
    REQUIRE(found);
    CHECK(found.per_step() >= 2_MiB);
    CHECK(found.text().find("another library") != std::string::npos);
    for (void* p : lost) { other.deallocate_sync(p, 2_MiB); }
}
