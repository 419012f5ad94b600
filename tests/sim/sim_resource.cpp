// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_resource.hpp> // first: the header must stand alone

#include <vram/base/error.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <deque>

using namespace vram;
using namespace std::chrono_literals;

namespace {
sim_options one_mebibyte() { return {.capacity = 1_MiB, .on_report = sim_on_report::collect}; }
} // namespace

TEST_CASE("sim_resource: it works without a node of the program's own") {
    sim_resource memory;
    void* const  p = memory.allocate_sync(1000);
    CHECK(p != nullptr);
    memory.deallocate_sync(p, 1000);
}

TEST_CASE("sim_resource: every alignment is honoured, and blocks do not overlap") {
    sim_node     node{one_mebibyte()};
    sim_resource memory;
    char*        last = nullptr;
    for (std::size_t a = 1; a <= 64_KiB; a *= 2) {
        auto* const p = static_cast<char*>(memory.allocate_sync(100, a));
        CHECK(reinterpret_cast<std::uintptr_t>(p) % a == 0);
        CHECK((last == nullptr || p >= last + 100));
        if (last != nullptr) { memory.deallocate_sync(last, 100); }
        last = p;
    }
    memory.deallocate_sync(last, 100);
}

TEST_CASE("sim_resource: the capacity is that of the device, in units of the granularity") {
    sim_node     node{one_mebibyte()};
    sim_resource memory;
    void* const  all = memory.allocate_sync(1_MiB);
    CHECK(sim_device{}.memory() == memory_info{0, 1_MiB});
    CHECK(memory.try_allocate_sync(1) == nullptr);
    memory.deallocate_sync(all, 1_MiB);
    void* const little = memory.allocate_sync(1);
    CHECK(sim_device{}.memory().free == 1_MiB - 512);
    CHECK(node.figures().used == 512);
    CHECK(node.figures().peak_used == 1_MiB);
    CHECK(node.figures().refused == 1);
    memory.deallocate_sync(little, 1);
}

TEST_CASE("sim_resource: a refusal has numbers, and a size that overflows is refused") {
    sim_node     node{one_mebibyte()};
    sim_resource memory;
    void* const  p = memory.allocate_sync(512_KiB);
    try {
        static_cast<void>(memory.allocate_sync(600_KiB, 4096));
        CHECK(false);
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == 600_KiB);
        CHECK(e.numbers().alignment == 4096);
        CHECK(e.numbers().device_free == 512_KiB);
        CHECK(e.numbers().device_total == 1_MiB);
        CHECK(e.numbers().live == 512_KiB);
    }
    for (std::size_t const n :
         {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 255, SIZE_MAX - 511, SIZE_MAX / 2}) {
        CHECK(memory.try_allocate_sync(n, 256) == nullptr);
        CHECK_THROWS_AS(static_cast<void>(memory.allocate_sync(n, 4096)), out_of_memory);
    }
    memory.deallocate_sync(p, 512_KiB);
}

TEST_CASE("sim_resource: an allocation of zero bytes is null, and freeing null does nothing") {
    sim_node     node{one_mebibyte()};
    sim_resource memory;
    CHECK(memory.allocate_sync(0) == nullptr);
    CHECK(memory.try_allocate_sync(0) == nullptr);
    memory.deallocate_sync(nullptr, 0);
    CHECK(node.figures().allocations == 0);
}

TEST_CASE("sim_resource: a free waits for the whole device, as cudaFree does") {
    sim_node     node{one_mebibyte()};
    sim_resource memory;
    sim_stream   s;
    void* const  p = memory.allocate_sync(8);
    sim_launch(s, {.duration = 30us}); // work of another program part
    memory.deallocate_sync(p, 8);
    CHECK(node.now() == 30us);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_resource: a foreign pointer is reported to the error sink and not freed") {
    sim_node         node{one_mebibyte()};
    sim_resource     memory;
    static int       told   = 0;
    error_sink const before = set_error_sink(
        [](error const& e) noexcept { told += e.kind == error_kind::foreign_pointer ? 1 : 100; });
    int         local = 0;
    void* const p     = memory.allocate_sync(64);
    memory.deallocate_sync(&local, 4);
    memory.deallocate_sync(static_cast<char*>(p) + 8, 8);
    memory.deallocate_sync(p, 64);
    memory.deallocate_sync(p, 64);
    set_error_sink(before);
    CHECK(told == 3);
    CHECK(sim_device{}.memory().free == 1_MiB);
    CHECK(node.reports().size() == 3);
}

TEST_CASE("sim_resource: owns returns true for live blocks only") {
    sim_node            node{one_mebibyte()};
    sim_resource        memory;
    sim_pinned_resource pinned;
    auto* const         p = static_cast<char*>(memory.allocate_sync(64));
    CHECK(memory.owns(p));
    CHECK(memory.owns(p + 63));
    CHECK_FALSE(memory.owns(p + 64));
    CHECK_FALSE(memory.owns(nullptr));
    CHECK_FALSE(pinned.owns(p));
    int local = 0;
    CHECK_FALSE(memory.owns(&local));
    memory.deallocate_sync(p, 64);
    CHECK_FALSE(memory.owns(p));
}

TEST_CASE("sim_resource: it keeps its device if another device becomes current") {
    sim_options o = one_mebibyte();
    o.devices     = 2;
    sim_node           node{o};
    sim_resource       memory{sim_device{1}};
    sim_resource const here;
    CHECK(memory.device() == sim_device{1});
    CHECK_FALSE(memory == here);
    CHECK(memory == sim_resource{sim_device{1}});
    void* const p = memory.allocate_sync(512);
    CHECK(sim_device{1}.memory().free == 1_MiB - 512);
    CHECK(sim_device{0}.memory().free == 1_MiB);
    memory.deallocate_sync(p, 512);
}

TEST_CASE("sim_resource: freed addresses are not reused soon") {
    sim_node     node{one_mebibyte()};
    sim_resource memory;
    void* const  first = memory.allocate_sync(1000);
    memory.deallocate_sync(first, 1000);
    void* const second = memory.allocate_sync(1000);
    CHECK(first != second);
    memory.deallocate_sync(second, 1000);
    for (int i = 0; i < 50000; ++i) { // many times round
        void* const p = memory.allocate_sync(1000);
        REQUIRE(p != nullptr);
        memory.deallocate_sync(p, 1000);
    }
    CHECK(node.reports().empty());
}

TEST_CASE("sim_resource: on an unbacked node a large block or device costs no memory") {
    sim_node     node{{.capacity = 80_GiB, .backed = false}};
    sim_resource memory;
    void* const  p = memory.allocate_sync(79_GiB);
    CHECK(p != nullptr);
    memory.deallocate_sync(p, 79_GiB);
}

TEST_CASE("sim_resource: uses of the blocks freed last are reported after thousands of frees") {
    sim_node          node{one_mebibyte()};
    sim_resource      memory;
    sim_stream        s;
    std::deque<void*> last;
    for (int i = 0; i < 4300; ++i) { // the device's addresses are reused
        last.push_back(memory.allocate_sync(64_KiB));
        memory.deallocate_sync(last.back(), 64_KiB);
        if (last.size() > 8) { last.pop_front(); }
    }
    for (void* const p : last) {
        sim_launch(s, {.reads = {{p, 8}}});
        REQUIRE(node.reports().size() == 1);
        CHECK(node.take_reports().at(0).kind == sim_mistake::use_after_free);
    }
}
