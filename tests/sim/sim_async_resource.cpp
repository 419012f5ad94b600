// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_async_resource.hpp> // first: the header must stand alone

#include <vram/handle/buffer.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/sim/sim.hpp>

#include "../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <cstddef> // byte, size_t
#include <memory>  // make_unique
#include <vector>  // vector

using namespace vram;
using namespace std::chrono_literals;

namespace {
sim_options small() { return {.capacity = 1_MiB, .on_report = sim_on_report::collect}; }
} // namespace

TEST_CASE(
    "sim_async_resource: allocations and frees are stream-ordered, and the host does not wait") {
    sim_node           node{small()};
    sim_async_resource memory;
    sim_stream         s;
    void* const        p = memory.allocate(s, 1000);
    sim_launch(s, {.writes = {{p, 1000}}, .duration = 10us});
    memory.deallocate(s, p, 1000);
    CHECK(node.now() == 0us);
    CHECK(memory.usage().live == 0);
    CHECK(memory.usage().pending == 1024);
    s.synchronize();
    CHECK(memory.usage().pending == 0);
    CHECK(memory.usage().reserved == 0); // nothing is kept by default
    CHECK(memory.usage().peak_live == 1024);
    CHECK(node.reports().empty());
    CHECK(node.figures().host_waits == 1);
}

TEST_CASE("sim_async_resource: memory that a stream freed can be reused by that stream at once") {
    sim_node           node{small()};
    sim_async_resource memory;
    sim_stream         s;
    void* const        p = memory.allocate(s, 1_MiB);
    sim_launch(s, {.duration = 10us});
    memory.deallocate(s, p, 1_MiB);
    void* const q = memory.allocate(s, 1_MiB); // all of the device, still in use by the kernel
    CHECK(q != nullptr);
    CHECK(node.now() == 0us);
    CHECK(memory.usage().reserved == 1_MiB);
    memory.deallocate(s, q, 1_MiB);
}

TEST_CASE(
    "sim_async_resource: if no other memory is left, a stream waits for a free on another stream") {
    sim_options o = small();
    o.trace       = true;
    sim_node           node{o};
    sim_async_resource memory;
    sim_stream         s, t;
    void* const        p = memory.allocate(s, 1_MiB);
    sim_launch(s, {.duration = 10us});
    memory.deallocate(s, p, 1_MiB);
    void* const q = memory.allocate(t, 512_KiB);
    sim_call_host(t, [](void*) {}, nullptr);
    sim_device{}.synchronize();
    CHECK(node.trace()[1].start == 10us);
    memory.deallocate(t, q, 512_KiB);
}

TEST_CASE("sim_async_resource: if no stream frees memory, the request is refused with the pool's "
          "numbers") {
    sim_node           node{small()};
    sim_async_resource memory;
    sim_stream         s;
    void* const        p = memory.allocate(s, 700_KiB);
    CHECK(memory.try_allocate(s, 700_KiB) == nullptr);
    try {
        static_cast<void>(memory.allocate(s, 700_KiB));
        CHECK(false);
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().stream == s.id());
        CHECK(e.numbers().live == 700_KiB);
        CHECK(e.numbers().device_free == 324_KiB);
    }
    CHECK(memory.try_allocate(s, SIZE_MAX) == nullptr);
    CHECK(memory.try_allocate(s, SIZE_MAX - 255) == nullptr);
    memory.deallocate(s, p, 700_KiB);
}

TEST_CASE("sim_async_resource: the pool keeps memory up to its threshold, and trim returns it") {
    sim_node           node{small()};
    sim_async_resource memory{sim_device{}, {.release_threshold = 512_KiB}};
    sim_stream         s;
    memory.deallocate(s, memory.allocate(s, 768_KiB), 768_KiB);
    s.synchronize();
    CHECK(memory.usage().reserved == 512_KiB);
    CHECK(sim_device{}.memory().free == 512_KiB);
    CHECK(memory.trim(128_KiB) == 384_KiB);
    CHECK(memory.trim(128_KiB) == 0);
    CHECK(memory.trim() == 128_KiB);
    CHECK(sim_device{}.memory().free == 1_MiB);
}

TEST_CASE("sim_async_resource: a trim keeps unused bytes besides the live ones") {
    sim_node           node{small()};
    sim_async_resource memory{sim_device{}, {.release_threshold = 1_MiB}};
    sim_stream         s;
    void* const        live = memory.allocate(s, 256_KiB);
    memory.deallocate(s, memory.allocate(s, 512_KiB), 512_KiB);
    s.synchronize();
    CHECK(memory.trim_no_wait(512_KiB) == 0);
    CHECK(memory.trim(SIZE_MAX) == 0);
    CHECK(memory.trim(128_KiB) == 384_KiB);
    CHECK(memory.usage().reserved == 384_KiB);
    CHECK(memory.trim_no_wait(64_KiB) == 64_KiB);
    memory.deallocate(s, live, 256_KiB);
    CHECK(memory.trim_no_wait(256_KiB) == 64_KiB); // the queued free keeps its memory
    CHECK(memory.trim(64_KiB) == 192_KiB);
    CHECK(memory.usage().reserved == 64_KiB);
}

TEST_CASE("sim_async_resource: the pool reserves no more than its maximum") {
    sim_node           node{small()};
    sim_async_resource memory{sim_device{}, {.maximum_size = 64_KiB}};
    sim_stream         s;
    CHECK(memory.try_allocate(s, 65_KiB) == nullptr);
    void* const p = memory.allocate(s, 64_KiB);
    memory.deallocate(s, p, 64_KiB);
}

TEST_CASE("sim_async_resource: it is made like cuda_async_resource, with options alone") {
    sim_node           node{small()};
    sim_async_resource memory{{.initial_size = 128_KiB, .maximum_size = 256_KiB}};
    sim_stream         s;
    CHECK(memory.device() == sim_device::current());
    CHECK(memory.usage().reserved == 128_KiB);
    CHECK(memory.usage().live == 0);
    CHECK(node.figures().used == 128_KiB);
    CHECK(memory.try_allocate(s, 257_KiB) == nullptr);
    memory.deallocate(s, memory.allocate(s, 256_KiB), 256_KiB);
    s.synchronize();
    CHECK(memory.usage().reserved == 128_KiB); // the initial memory is kept
}

TEST_CASE("sim_async_resource: the constructor throws if the initial size is refused") {
    sim_node node{small()};
    CHECK_THROWS_AS((sim_async_resource{{.initial_size = 64_KiB, .maximum_size = 32_KiB}}),
                    out_of_memory);
    CHECK_THROWS_AS((sim_async_resource{sim_device{0}, {.initial_size = 64_GiB}}), out_of_memory);
    CHECK(node.figures().used == 0);
}

TEST_CASE("sim_async_resource: memory from allocate_sync can be used by every stream that the host "
          "then uses") {
    sim_node           node{small()};
    sim_async_resource memory;
    sim_stream         s;
    void* const        p = memory.allocate_sync(100);
    sim_launch(s, {.writes = {{p, 100}}});
    s.synchronize();
    memory.deallocate_sync(p, 100);
    sim_device{}.synchronize();
    CHECK(node.reports().empty());
    CHECK(memory.usage().reserved == 0);
}

TEST_CASE("sim_async_resource: an allocation of zero bytes is a null pointer") {
    sim_node           node{small()};
    sim_async_resource memory;
    sim_stream         s;
    CHECK(memory.allocate(s, 0) == nullptr);
    CHECK(memory.allocate_sync(0) == nullptr);
    memory.deallocate(s, nullptr, 0);
    memory.deallocate_sync(nullptr, 0);
}

TEST_CASE("sim_async_resource: two resources are equal if they share a pool") {
    sim_node                 node{small()};
    sim_async_resource const a, b, c{a};
    CHECK(a == c);
    CHECK_FALSE(a == b);
}

TEST_CASE(
    "sim_async_resource: memory that was freed behind kernels is reused after they are complete") {
    sim_node           node{small()};
    sim_async_resource memory;
    sim_stream         s;
    auto* const        p    = static_cast<int*>(memory.allocate(s, 128_KiB));
    int                seen = 0;
    sim_fill(s, p, std::byte{1}, 128_KiB);
    sim_launch(s, {.reads = {{p, 4}}}, [&] { seen = *sim_view(p); });
    memory.deallocate(s, p, 128_KiB);
    for (int i = 0; i < 100; ++i) { // new blocks in between
        void* const q = memory.allocate(s, 1_KiB);
        sim_fill(s, q, std::byte{2}, 1_KiB);
        memory.deallocate(s, q, 1_KiB);
    }
    s.synchronize();
    CHECK(seen == 0x01010101);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_async_resource: the pool returns all memory after its last copy is destroyed, "
          "queued frees included") {
    sim_node   node{small()};
    sim_stream s;
    {
        sim_async_resource memory{sim_device{}, {.release_threshold = 1_MiB}};
        void* const        p = memory.allocate(s, 128_KiB);
        void* const        q = memory.allocate(s, 256_KiB);
        memory.deallocate(s, p, 128_KiB);
        s.synchronize();
        sim_launch(s, {.duration = 5us});
        memory.deallocate(s, q, 256_KiB);
        CHECK(sim_device{}.memory().free == 640_KiB);
        sim_async_resource const copy{memory};
    }
    CHECK(sim_device{}.memory().free == 768_KiB); // the kernel may still use q
    s.synchronize();
    CHECK(sim_device{}.memory().free == 1_MiB);
}

TEST_CASE(
    "sim_async_resource: a report of an earlier call is thrown before anything is allocated") {
    sim_options o = small();
    o.on_report   = sim_on_report::throw_it;
    sim_node           node{o};
    sim_async_resource memory;
    sim_stream         s;
    void* const        p = memory.allocate(s, 1024);
    memory.deallocate(s, p, 1024);
    memory.deallocate(s, p, 1024); // noticed, but not thrown out of a noexcept call
    CHECK_THROWS_AS(static_cast<void>(memory.allocate(s, 2048)), sim_race);
    CHECK(memory.usage().live == 0);
    CHECK(node.take_reports().size() == 1);
}

TEST_CASE("sim_async_resource: if the wait of allocate_sync throws, the block is freed") {
    sim_node           node{small()};
    sim_async_resource memory;
    sim_stream         s;
    sim_launch(sim_stream_view{}, {}, [] { throw 42; });
    CHECK_THROWS_AS(static_cast<void>(memory.allocate_sync(1000)), int);
    CHECK(memory.usage().live == 0);
}

TEST_CASE("sim_async_resource: a refused request adds no order between streams") {
    sim_node            node{small()};
    sim_async_resource  memory;
    sim_pinned_resource pinned;
    sim_stream          a, b;
    void* const         h = pinned.allocate_sync(64);
    void* const         p = memory.allocate(a, 512_KiB);
    sim_launch(a, {.writes = {{h, 64}}, .duration = 1ms});
    memory.deallocate(a, p, 512_KiB);
    CHECK(memory.try_allocate(b, 2_MiB) == nullptr);
    CHECK(memory.usage().pending == 512_KiB);
    sim_launch(b, {.reads = {{h, 64}}});
    CHECK(node.reports().size() == 1);
    sim_device{}.synchronize();
    pinned.deallocate_sync(h, 64);
}

TEST_CASE("sim_async_resource: a stream reuses memory that it freed itself first") {
    sim_node           node{{.capacity = 1_MiB, .on_report = sim_on_report::collect}};
    sim_async_resource memory;
    sim_stream         s, t;
    void* const        a = memory.allocate(s, 256_KiB);
    void* const        b = memory.allocate(t, 256_KiB);
    void* const        c = memory.allocate(s, 256_KiB);
    void* const        d = memory.allocate(s, 256_KiB);
    sim_launch(t, {.duration = 1ms});
    memory.deallocate(t, b, 256_KiB);
    memory.deallocate(s, a, 256_KiB);
    memory.deallocate(s, c, 256_KiB);
    CHECK(memory.usage().pending == 768_KiB);
    void* const e = memory.allocate(s, 512_KiB); // a and c: no wait for t
    CHECK(memory.usage().pending == 256_KiB);
    memory.deallocate(s, d, 256_KiB);
    s.synchronize();
    CHECK(node.now() < 1ms);
    CHECK(memory.usage().pending == 256_KiB);
    memory.deallocate(s, e, 512_KiB);
    t.synchronize();
    s.synchronize();
    CHECK(memory.usage().pending == 0);
}

TEST_CASE("sim_async_resource: trim waits for queued frees, but only as far as necessary") {
    sim_node           node{{.capacity = 4_MiB, .on_report = sim_on_report::collect}};
    sim_async_resource memory;
    sim_stream         s, t;
    void* const        p = memory.allocate(s, 1_MiB);
    void* const        q = memory.allocate(t, 2_MiB);
    sim_launch(s, {.duration = 1ms});
    sim_launch(t, {.duration = 5ms});
    memory.deallocate(s, p, 1_MiB);
    memory.deallocate(t, q, 2_MiB);
    CHECK(memory.trim_no_wait() == 0);
    CHECK(node.now() < 1ms);
    memory.trim(2_MiB);
    CHECK(memory.usage().reserved == 2_MiB);
    CHECK(node.now() >= 1ms);
    CHECK(node.now() < 5ms);
    memory.trim();
    CHECK(memory.usage().reserved == 0);
    CHECK(node.now() >= 5ms);
    CHECK(node.figures().used == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_async_resource: a queued free costs the logarithm of their number") {
    // If each free looked at all others that wait, this test would take several minutes.
    sim_node           node{{.capacity = 8_GiB, .backed = false}};
    sim_async_resource memory;
    sim_stream         s;
    std::vector<void*> all;
    for (int i = 0; i < 100'000; ++i) { all.push_back(memory.allocate(s, 8)); }
    for (void* p : all) { memory.deallocate(s, p, 8); }
    CHECK(memory.usage().pending == 100'000 * std::size_t{512});
    s.synchronize();
    CHECK(memory.usage().pending == 0);
}

TEST_CASE(
    "sim_async_resource: a block of a destroyed stream is freed after the work of that stream") {
    sim_node           node{small()};
    sim_async_resource memory;
    bool               raw = false;
    SUBCASE("the free is in the order of a stream whose end was announced") {}
    SUBCASE("the host waits for a raw stream, which is reported") { raw = true; }
    static int reported = 0;
    reported            = 0;
    auto const sink     = set_error_sink(
        [](error const& e) noexcept { reported += e.kind == error_kind::dead_stream ? 1 : 1000; });
    {
        auto stream =
            std::make_unique<sim_stream>(sim_device::current(), sim_stream_options{.raw = raw});
        buffer data{memory, stream->view(), 1000};
        sim_launch(*stream, {.writes = {{data.data(), 1000}}, .duration = 10us});
        stream.reset();
    }
    set_error_sink(sink);
    CHECK((node.now() >= 10us) == raw);
    CHECK(reported == (raw ? 1 : 0));
    CHECK(memory.usage().live == 0);
    node.finish();
    CHECK(node.figures().used == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_async_resource: each launch counts the memory of a graph that is freed outside") {
    sim_node           node{{.on_report = sim_on_report::collect}};
    sim_async_resource memory;
    sim_stream         s, t;
    sim_graph::begin(s);
    void* const     p     = memory.allocate(s, 4096);
    sim_graph const graph = sim_graph::end(s);
    sim_graph::begin(t);
    memory.deallocate(t, p, 4096);
    sim_graph const frees = sim_graph::end(t);
    CHECK(memory.usage().live == 4096);
    for (int i = 0; i < 3; ++i) {
        graph.launch(s);
        CHECK(memory.usage().live == 4096);
        CHECK(memory.usage().reserved >= 4096);
        if (i == 1) {
            frees.launch(s);
        } else {
            memory.deallocate(s, p, 4096);
        }
        s.synchronize();
        CHECK(memory.usage().live == 0);
    }
    CHECK(memory.usage().peak_live == 4096);
    CHECK(node.take_reports().empty());
}

TEST_CASE("sim_async_resource: limiting over it does not count a free that is refused or fails") {
    sim_node               node{small()};
    doubles::mishaps const told;
    sim_stream             s;
    limiting               mr{sim_async_resource{}, 1_MiB};
    void* const            p    = mr.allocate(s, 1024);
    std::size_t const      live = mr.used();
    node.faults().at(sim_call_kind::free, 1);
    mr.deallocate(s, p, 1024); // fails
    CHECK(mr.used() == live);
    mr.deallocate(s, p, 1024);
    mr.deallocate(s, p, 1024); // double free
    CHECK(told.count() == 2);
    CHECK(mr.used() == 0);
}
