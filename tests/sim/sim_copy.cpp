// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_copy.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include "../doubles/collecting.hpp" // status_of

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

using namespace vram;
using namespace std::chrono_literals;

namespace {
/// 1 byte per nanosecond everywhere, no latency: a copy of n bytes takes n ns.
sim_options even(int devices = 1) {
    return {.devices            = devices,
            .host_bandwidth     = 1_GB,
            .pageable_bandwidth = 1_GB,
            .device_bandwidth   = 1_GB,
            .copy_latency       = sim_time{0},
            .on_report          = sim_on_report::collect,
            .trace              = true};
}

struct machine {
    explicit machine(sim_options const& o = even()) : node{o} { std::memset(h, 7, size); }
    ~machine() {
        sim_device{}.synchronize();
        memory.deallocate_sync(d, size);
        pinned.deallocate_sync(h, size);
        managed.deallocate_sync(m, size);
    }
    static constexpr std::size_t size = 200000;

    sim_node             node;
    sim_resource         memory;
    sim_pinned_resource  pinned;
    sim_managed_resource managed;
    sim_stream           s;
    char*                d        = static_cast<char*>(memory.allocate_sync(size));
    char*                h        = static_cast<char*>(pinned.allocate_sync(size));
    char*                m        = static_cast<char*>(managed.allocate_sync(size));
    std::vector<char>    pageable = std::vector<char>(size, 3);
};
} // namespace

TEST_CASE("sim_copy: the host does not wait for a copy between pinned and device memory, and the "
          "bytes arrive") {
    machine t;
    sim_copy(t.s, t.d, t.h, 100000);
    CHECK(t.node.now() == 0us);
    CHECK(*sim_view(t.d) == 0); // not yet
    t.s.synchronize();
    CHECK(t.node.now() == 100us);
    CHECK(sim_view(t.d)[99999] == 7);
    std::memset(t.h, 0, t.size);
    sim_copy(t.s, t.h, t.d, 100000);
    t.s.synchronize();
    CHECK(t.h[99999] == 7);
    CHECK(t.node.figures().bytes_to_device == 100000);
    CHECK(t.node.figures().bytes_to_host == 100000);
    CHECK(t.node.reports().empty());
}

TEST_CASE(
    "sim_copy: a small pageable source has been read when the call returns, and the host goes on") {
    machine t;
    sim_launch(t.s, {.duration = 50us});
    sim_copy(t.s, t.d, t.pageable.data(), 1000);
    CHECK(t.node.now() == 0us);
    t.pageable.assign(t.size, 9); // legal: it was read
    t.s.synchronize();
    CHECK(sim_view(t.d)[999] == 3);
}

TEST_CASE(
    "sim_copy: a pageable source of more than 1 MiB is read after the stream's earlier work") {
    machine           t;
    std::size_t const large = 1_MiB + 1;
    std::vector<char> pageable(large, 3);
    char* const       to = static_cast<char*>(t.memory.allocate_sync(large));
    sim_launch(t.s, {.duration = 50us});
    sim_copy(t.s, to, pageable.data(), large - 1);
    CHECK(t.node.now() == 0us);
    t.s.synchronize();
    sim_time const before = t.node.now();
    sim_launch(t.s, {.duration = 50us});
    sim_copy(t.s, to, pageable.data(), large);
    CHECK(t.node.now() - before == 50us + sim_time{large});
    pageable.assign(large, 9);
    CHECK(sim_view(to)[large - 1] == 3);
    t.memory.deallocate_sync(to, large);
}

TEST_CASE("sim_copy: sim_copy_sync takes the time of a pageable source of more than 64 KiB") {
    machine t;
    sim_copy_sync(t.d, t.pageable.data(), 100000);
    CHECK(t.node.now() == 100us);
    sim_launch({}, {.writes = {{t.d, 1}}});
    CHECK(t.node.reports().empty());
    sim_launch(t.s, {.reads = {{t.d, 1}}}); // the copy may still be under way
    CHECK(t.node.reports().size() == 1);
}

TEST_CASE("sim_copy: other streams must wait for the device end of a copy from a pageable source") {
    machine    t;
    sim_stream other;
    sim_copy(t.s, t.d, t.pageable.data(), 100000);
    sim_launch(other, {.reads = {{t.d, 10}}});
    CHECK(t.node.reports().size() == 1);
}

TEST_CASE("sim_copy: to a pageable destination everything is complete when the call returns") {
    machine t;
    sim_copy(t.s, t.d, t.h, 1000);
    sim_copy(t.s, t.pageable.data(), t.d, 1000);
    CHECK(t.node.now() == 2us);
    CHECK(t.pageable[999] == 7);
    sim_launch(sim_stream{}, {.writes = {{t.d, 10}}}); // ordered: the host has waited
    CHECK(t.node.reports().empty());
}

TEST_CASE("sim_copy: a copy between host memory is complete when the call returns") {
    machine t;
    sim_copy(t.s, t.pageable.data(), t.h, 1000);
    CHECK(t.pageable[0] == 7);
    CHECK(t.node.now() == 1us);
}

TEST_CASE("sim_copy: managed memory is copied like device memory") {
    machine t;
    sim_copy(t.s, t.m, t.h, 1000);
    CHECK(t.node.now() == 0us);
    t.s.synchronize();
    CHECK(t.m[999] == 7);
    CHECK(t.node.trace()[0].engine == sim_engine::to_device);
}

TEST_CASE("sim_copy: sim_copy_sync waits, except within a device and for the end of a copy from a "
          "pageable source") {
    machine t;
    sim_copy_sync(t.d, t.h, 1000);
    CHECK(t.node.now() == 1us);
    CHECK(sim_view(t.d)[999] == 7);
    sim_copy_sync(t.d + 2000, t.d, 1000);
    CHECK(t.node.now() == 1us); // the host goes on
    sim_copy_sync(t.h + 1000, t.d + 2000, 1000);
    CHECK(t.node.now() == 3us); // after the copy before, on the default stream
    CHECK(t.h[1999] == 7);
    sim_copy_sync(t.d + 4000, t.pageable.data(), 1000);
    sim_launch(t.s, {.reads = {{t.d + 4000, 1000}}});
    CHECK(t.node.reports().size() == 1);
}

TEST_CASE("sim_copy: both copy directions and a kernel run at the same time") {
    machine    t;
    sim_stream a, b, c;
    sim_copy(a, t.d, t.h, 10000);
    sim_copy(b, t.h + 100000, t.d + 100000, 10000);
    sim_launch(c, {.duration = 10us});
    sim_device{}.synchronize();
    CHECK(t.node.now() == 10us);
    CHECK(t.node.figures()
              .together[sim_set(sim_engine::compute, sim_engine::to_device, sim_engine::to_host)] ==
          10us);
}

TEST_CASE(
    "sim_copy: a copy between devices has the speed of the link, and is refused without one") {
    sim_options o = even(3);
    o.links       = {{.from = 0, .to = 1, .bandwidth = 2_GB, .latency = 5us}};
    machine      t{o};
    sim_resource far{sim_device{1}}, unreachable{sim_device{2}};
    void* const  p = far.allocate_sync(1000);
    void* const  q = unreachable.allocate_sync(1000);
    sim_fill(t.s, t.d, std::byte{5}, 1000);
    sim_copy(t.s, p, t.d, 1000);
    t.s.synchronize();
    CHECK(t.node.now() == 1us + 5us + 500ns);
    CHECK(*sim_view(static_cast<char*>(p)) == 5);
    CHECK(t.node.trace()[1].engine == sim_engine::peer);
    CHECK(t.node.figures().bytes_peer == 1000);
    try {
        sim_copy(t.s, q, t.d, 1000);
        CHECK(false);
    } catch (sim_error const& e) { CHECK(e.status() == sim_status::peer_not_reachable); }
    far.deallocate_sync(p, 1000);
    unreachable.deallocate_sync(q, 1000);
}

TEST_CASE("sim_copy: a pitched copy moves rows, and only the rows count as accessed") {
    machine t;
    for (int i = 0; i < 64; ++i) { t.h[i] = static_cast<char>(i); }
    // a 4x3 box, two slices, from a pitch of 8 to a pitch of 16
    sim_copy(t.s, {.to         = t.d,
                   .to_pitch   = 16,
                   .to_slice   = 64,
                   .from       = t.h + 2,
                   .from_pitch = 8,
                   .from_slice = 32,
                   .width      = 4,
                   .height     = 3,
                   .depth      = 2});
    sim_launch(sim_stream{}, {.writes = {{t.d + 4, 12}, {t.d + 20, 12}}}); // between the rows
    CHECK(t.node.reports().empty());
    t.s.synchronize();
    char const* const v = sim_view(t.d);
    CHECK(v[0] == 2);
    CHECK(v[3] == 5);
    CHECK(v[16] == 10);
    CHECK(v[32 + 64] == 50);
    CHECK(v[4] == 0);
    sim_launch(sim_stream{}, {.name = "clash", .writes = {{t.d + 16, 1}}});
    CHECK(t.node.reports().empty()); // the host has waited
}

TEST_CASE("sim_copy: a fill of device, pinned or managed memory does not wait") {
    machine t;
    sim_fill(t.s, t.d, std::byte{9}, 1000);
    sim_fill(t.s, t.h, std::byte{8}, 1000);
    sim_fill(t.s, t.m, std::byte{8}, 1000);
    CHECK(t.node.now() == 0us);
    CHECK(t.h[999] == 7);
    SUBCASE("the caller that synchronises may read the memory") {
        t.s.synchronize();
        CHECK(t.h[999] == 8);
        CHECK(sim_view(t.d)[999] == 9);
        sim_touch({t.h, 1000}, sim_access::read);
        CHECK(t.node.reports().empty());
    }
    SUBCASE("the caller that does not is reported") {
        sim_touch({t.h, 1000}, sim_access::read);
        REQUIRE(t.node.reports().size() == 1);
        CHECK(t.node.reports().front().kind == sim_mistake::race);
    }
}

TEST_CASE("sim_copy: overlapping source and destination are reported") {
    machine    t;
    auto const kinds = [&](std::size_t from, std::size_t to, std::size_t bytes) {
        sim_copy(t.s, t.d + to, t.d + from, bytes);
        std::size_t count = 0;
        for (sim_report const& r : t.node.take_reports()) {
            CHECK(r.kind == sim_mistake::overlapping_copy);
            CHECK(r.bytes == from + bytes - to);
            ++count;
        }
        return count;
    };
    CHECK(kinds(0, 512, 1024) == 1);
    CHECK(kinds(0, 1024, 1024) == 0);
    CHECK(kinds(0, 1023, 1024) == 1);
    // Interleaved rows share no byte, although the ranges around them overlap.
    sim_copy(t.s, {.to         = t.d + 16,
                   .to_pitch   = 32,
                   .to_slice   = 128,
                   .from       = t.d,
                   .from_pitch = 32,
                   .from_slice = 128,
                   .width      = 16,
                   .height     = 4});
    CHECK(t.node.take_reports().empty());
    sim_copy(t.s, {.to         = t.d + 16,
                   .to_pitch   = 32,
                   .to_slice   = 128,
                   .from       = t.d,
                   .from_pitch = 32,
                   .from_slice = 128,
                   .width      = 17,
                   .height     = 4});
    CHECK(t.node.take_reports().front().kind == sim_mistake::overlapping_copy);
}

TEST_CASE("sim_copy: sim_copy_sync from pageable memory first waits for the default stream") {
    machine           t;
    std::vector<char> v(1000);
    sim_copy(sim_stream_view{}, t.h, t.d, 1000);
    sim_copy_sync(t.d + 2000, v.data(), v.size());
    sim_touch({t.h, 1000}, sim_access::read);
    CHECK(t.node.reports().empty());
}

TEST_CASE("sim_copy: a copy between devices in the NULL stream is ordered on both devices") {
    machine      t{even(2)};
    sim_resource there{sim_device{1}};
    void* const  q     = there.allocate_sync(1000);
    auto const   other = sim_stream_view::legacy(sim_device{1});
    sim_launch(other, {.name = "before", .writes = {{q, 1000}}, .duration = 5us});
    sim_copy_sync(t.d, q, 1000);
    sim_launch(other, {.name = "after", .writes = {{q, 1000}}, .duration = 5us});
    sim_device{1}.synchronize();
    CHECK(t.node.now() >= 11us); // one after the other
    CHECK(t.node.reports().empty());

    SUBCASE("a non-blocking stream of the other device is not") {
        sim_stream const apart{sim_device{1}};
        sim_launch(apart, {.name = "apart", .writes = {{q, 1000}}});
        sim_copy_sync(t.d, q, 1000);
        CHECK(t.node.take_reports().size() == 1);
    }
    sim_device{0}.synchronize();
    sim_device{1}.synchronize();
    there.deallocate_sync(q, 1000);
}

TEST_CASE("sim_copy: a copy of zero bytes queues no operation") {
    machine t;
    sim_copy(t.s, nullptr, nullptr, 0);
    sim_fill(t.s, nullptr, std::byte{}, 0);
    sim_copy(t.s, pitched_copy{});
    sim_copy_sync(nullptr, nullptr, 0);
    t.s.synchronize();
    CHECK(t.node.trace().empty());
}

TEST_CASE("sim_copy: a copy or fill of zero bytes throws an earlier report, too") {
    for (int const call : {0, 1, 2}) {
        sim_node         node{{.on_report = sim_on_report::throw_it}};
        sim_stream const s;
        sim_resource     memory;
        void* const      p = memory.allocate_sync(64);
        memory.deallocate_sync(p, 64);
        memory.deallocate_sync(p, 64); // reported, but a free throws nothing
        auto const later = [&] {
            if (call == 0) { sim_copy(s, nullptr, nullptr, 0); }
            if (call == 1) { sim_copy_sync(nullptr, nullptr, 0); }
            if (call == 2) { sim_fill(s, nullptr, std::byte{}, 0); }
        };
        CHECK_THROWS_AS(later(), sim_race);
        later();
    }
}

TEST_CASE("sim_copy: on a node without contents a copy takes time and transfers nothing") {
    sim_options o = even();
    o.backed      = false;
    o.capacity    = 160_GiB;
    sim_node            node{o};
    sim_resource        memory;
    sim_pinned_resource pinned;
    sim_stream          s;
    void* const         d = memory.allocate_sync(80_GiB);
    auto* const         h = static_cast<char*>(pinned.allocate_sync(1000));
    h[0]                  = 1;
    sim_copy(s, d, h, 1000);
    sim_fill(s, d, std::byte{3}, 1000);
    sim_copy(s, h, d, 1000);
    s.synchronize();
    CHECK(node.now() == 3us);
    CHECK(h[0] == 1);
    CHECK_THROWS_AS(static_cast<void>(sim_view(static_cast<char*>(d))), sim_error);
    memory.deallocate_sync(d, 80_GiB);
    pinned.deallocate_sync(h, 1000);
}

TEST_CASE("sim_copy: the host does not wait for sim_copy_sync between devices") {
    machine      t{even(2)};
    sim_resource far{sim_device{1}};
    void* const  p = far.allocate_sync(1000);
    sim_device{0}.set_peer_access(sim_device{1}, true);
    sim_copy_sync(p, t.d, 1000);
    CHECK(t.node.now() == 0us);
    sim_launch(t.s, {.reads = {{p, 1000}}});
    CHECK(t.node.reports().size() == 1); // the host is not ordered after the copy
    sim_device{}.synchronize();
    far.deallocate_sync(p, 1000);
}

TEST_CASE("sim_copy_batch: many copies cost the host one call, and are stream-ordered") {
    sim_node node{
        {.host_bandwidth = 1_GB, .copy_latency = sim_time{10}, .call_cost = sim_time{100}}};
    sim_stream const    stream;
    sim_resource        device;
    sim_pinned_resource pinned;
    auto* const         d = static_cast<std::byte*>(device.allocate_sync(300));
    auto* const         p = static_cast<std::byte*>(pinned.allocate_sync(300));
    for (int i = 0; i < 300; ++i) { p[i] = static_cast<std::byte>(i); }
    void* const       to[]    = {d, d + 100, d + 250};
    void const* const from[]  = {p + 200, p + 100, p};
    std::size_t const bytes[] = {100, 100, 50};
    auto const        begin   = node.now();
    CHECK(sim_copy_batch(stream, to, from, bytes));
    CHECK(node.now() == begin + sim_time{100});
    sim_launch(stream, {.name = "use", .reads = {{d, 200}, {d + 250, 50}}});
    stream.synchronize();
    CHECK(sim_view(std::span{d, 300})[0] == std::byte{200});
    CHECK(sim_view(std::span{d, 300})[299] == std::byte{49});
    CHECK(node.reports().empty());
    pinned.deallocate_sync(p, 300);
    device.deallocate_sync(d, 300);
}

TEST_CASE(
    "sim_copy_batch: default streams and captures are refused, and an injected fault is thrown") {
    sim_node          node;
    sim_stream const  stream;
    char              a = 1, b = 0;
    void* const       to[]    = {&b};
    void const* const from[]  = {&a};
    std::size_t const bytes[] = {1};
    CHECK_FALSE(sim_copy_batch(sim_stream_view{}, to, from, bytes));
    sim_graph::begin(stream, sim_capture_mode::relaxed);
    CHECK_FALSE(sim_copy_batch(stream, to, from, bytes));
    auto const graph = sim_graph::end(stream);
    CHECK(b == 0);
    node.faults().at(sim_call_kind::copy, 1);
    CHECK_THROWS_AS(sim_copy_batch(stream, to, from, bytes), sim_error);
    CHECK(sim_copy_batch(stream, {}, {}, {}));
    CHECK(sim_copy_batch(stream, to, from, bytes));
    stream.synchronize();
    CHECK(b == 1);
}

TEST_CASE("sim_copy_batch: spans of different sizes are refused, and nothing is copied") {
    sim_node          node;
    sim_stream const  stream;
    char              a[] = {1, 2}, b[] = {0, 0};
    void* const       to[]    = {&b[0], &b[1]};
    void const* const from[]  = {&a[0], &a[1]};
    std::size_t const bytes[] = {1, 1};
    std::span const   all_to{to};
    std::span const   all_from{from};
    std::span const   all_bytes{bytes};
    auto const        status = [&](auto t, auto f, auto n) {
        return doubles::status_of([&] { (void)sim_copy_batch(stream, t, f, n); });
    };
    CHECK(status(all_to, all_from, all_bytes.first(1)) == sim_status::invalid_value);
    CHECK(status(all_to, all_from.first(1), all_bytes) == sim_status::invalid_value);
    CHECK(status(all_to.first(0), all_from, all_bytes) == sim_status::invalid_value);
    stream.synchronize();
    CHECK(b[0] == 0);
    CHECK(status(all_to, all_from, all_bytes) == sim_status::ok);
    stream.synchronize();
    CHECK(b[1] == 2);
}

TEST_CASE("sim_copy_batch: copies of one batch that depend on each other are reported") {
    sim_node         node{{.on_report = sim_on_report::collect}};
    sim_stream const stream;
    sim_resource     device;
    auto* const      p     = static_cast<std::byte*>(device.allocate_sync(4096));
    auto const       batch = [&](std::size_t from, std::size_t to) {
        void* const       targets[] = {p + 1024, p + to};
        void const* const sources[] = {p, p + from};
        std::size_t const bytes[]   = {512, 512};
        CHECK(sim_copy_batch(stream, targets, sources, bytes));
        return node.take_reports().size();
    };
    CHECK(batch(2048, 3072) == 0);
    CHECK(batch(0, 3072) == 0);    // one source may be read twice
    CHECK(batch(1024, 3072) == 1); // reads the destination of the first copy
    CHECK(batch(2048, 1500) == 1); // writes part of it
    CHECK(batch(2048, 256) == 1);  // writes the source of the first copy
    stream.synchronize();
    device.deallocate_sync(p, 4096);
}
