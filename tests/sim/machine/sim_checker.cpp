// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_checker.hpp> // first: the header must stand alone

#include <vram/base/error.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/machine/sim_register.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

using namespace vram;
using namespace vram::detail;

namespace {

/// A node that collects its reports, with two streams, device memory `d` and pinned memory `h`.
struct crime_scene {
    explicit crime_scene(sim_options o = {}) : node{collecting(o)} {}

    static sim_options collecting(sim_options o) {
        o.on_report     = sim_on_report::collect;
        o.merge_reports = false; // `kernel` has one line for all operations
        return o;
    }
    ~crime_scene() {
        sim_device{}.synchronize();
        set_error_sink([](error const&) noexcept {});
        if (d != nullptr) { memory.deallocate_sync(d, 1024); }
        if (h != nullptr) { pinned.deallocate_sync(h, 1024); }
        set_error_sink(print_error);
    }

    void kernel(sim_stream const& s, sim_access access, void* p, std::size_t n = 1024) {
        if (access == sim_access::read) {
            sim_launch(s, {.name = "reader", .reads = {{p, n}}});
        } else {
            sim_launch(s, {.name = "writer", .writes = {{p, n}}});
        }
    }

    /// Requires that there is exactly one report, of the given kind, with both operations.
    sim_report one(sim_mistake kind, bool both = true) {
        auto const all = node.take_reports();
        REQUIRE(all.size() == 1);
        CHECK(std::string{name(all[0].kind)} == name(kind));
        CHECK(all[0].second.what != sim_event_of::kind::none);
        if (both) { CHECK(all[0].first.what != sim_event_of::kind::none); }
        return all[0];
    }
    bool clean() { return node.reports().empty(); }

    sim_node            node;
    sim_resource        memory;
    sim_pinned_resource pinned;
    sim_stream          a, b;
    void*               d = memory.allocate_sync(1024);
    void*               h = pinned.allocate_sync(1024);
};

} // namespace

TEST_CASE("sim_checker: two writes on two streams race, and the report names both") {
    crime_scene t;
    t.kernel(t.a, sim_access::write, t.d);
    t.kernel(t.b, sim_access::write, t.d);
    sim_report const r = t.one(sim_mistake::race);
    CHECK(std::string{r.first.name} == "writer");
    CHECK(r.first.actor == t.a.id());
    CHECK(r.second.actor == t.b.id());
    CHECK(r.bytes == 1024);
    CHECK(std::string{r.second.where.file_name()}.find("sim_checker") != std::string::npos);
    CHECK(r.missing ==
          "stream " + std::to_string(t.b.id()) + " must wait for an event recorded on stream " +
              std::to_string(t.a.id()) + " after `writer` #" + std::to_string(r.first.number));
}

TEST_CASE("sim_checker: a race names the last conflicting operation and the whole range") {
    crime_scene t;
    auto* const p = static_cast<char*>(t.d);
    for (int i = 0; i < 4; ++i) { t.kernel(t.a, sim_access::write, p + 128 * i, 128); }
    t.kernel(t.b, sim_access::read, p + 64, 960);
    sim_report const r = t.one(sim_mistake::race);
    CHECK(r.first.number == r.second.number - 1);
    CHECK(r.address == reinterpret_cast<std::uintptr_t>(p + 64));
    CHECK(r.bytes == 448);
}

TEST_CASE("sim_checker: an access that races with two streams has a report for each") {
    crime_scene      t;
    sim_stream const c;
    t.kernel(t.a, sim_access::read, t.d);
    t.kernel(t.b, sim_access::read, t.d);
    t.kernel(c, sim_access::write, t.d);
    auto const all = t.node.take_reports();
    REQUIRE(all.size() == 2);
    CHECK(all[0].first.actor == t.a.id());
    CHECK(all[1].first.actor == t.b.id());
}

TEST_CASE("sim_checker: an event between two writes orders them") {
    crime_scene t;
    sim_event   e;
    t.kernel(t.a, sim_access::write, t.d);
    e.record(t.a);
    e.wait(t.b);
    t.kernel(t.b, sim_access::write, t.d);
    CHECK(t.clean());
}

TEST_CASE("sim_checker: an event that is recorded too early orders nothing") {
    crime_scene t;
    sim_event   e;
    e.record(t.a);
    t.kernel(t.a, sim_access::write, t.d);
    e.wait(t.b);
    t.kernel(t.b, sim_access::read, t.d);
    t.one(sim_mistake::race);
}

TEST_CASE(
    "sim_checker: operations without an order race even if their simulated times do not overlap") {
    crime_scene t;
    t.kernel(t.a, sim_access::write, t.d);
    t.node.work(std::chrono::seconds{1}); // it was over long ago
    t.kernel(t.b, sim_access::read, t.d);
    t.one(sim_mistake::race);
}

TEST_CASE(
    "sim_checker: a query that returns true orders the host, and one that returns false does not") {
    crime_scene t;
    sim_event   e;
    t.kernel(t.a, sim_access::write, t.d);
    e.record(t.a);
    CHECK_FALSE(e.done());
    t.kernel(t.b, sim_access::read, t.d);
    t.one(sim_mistake::race);
    while (!e.done()) {}
    t.kernel(t.b, sim_access::write, t.d, 512); // ordered after the write, and b's own read
    CHECK(t.clean());
}

TEST_CASE(
    "sim_checker: reads do not race with reads, and a write must be ordered after all of them") {
    crime_scene t;
    sim_event   e;
    sim_touch({t.h, 1024}, sim_access::write);
    t.kernel(t.a, sim_access::read, t.h);
    t.kernel(t.b, sim_access::read, t.h);
    CHECK(t.clean());
    e.record(t.a);
    e.wait(t.b);
    t.kernel(t.b, sim_access::write, t.h); // follows a's read by the event and its own by order
    CHECK(t.clean());
    t.kernel(t.a, sim_access::read, t.h);
    t.one(sim_mistake::race);
}

TEST_CASE("sim_checker: disjoint ranges do not race, and ranges with one common byte do") {
    crime_scene t;
    auto* const d = static_cast<char*>(t.d);
    t.kernel(t.a, sim_access::write, d, 512);
    t.kernel(t.b, sim_access::write, d + 512, 512);
    CHECK(t.clean());
    t.kernel(t.b, sim_access::write, d + 511, 2);
    sim_report const r = t.one(sim_mistake::race);
    CHECK(r.bytes == 1);
    CHECK(r.address == reinterpret_cast<std::uintptr_t>(d) + 511);
}

TEST_CASE("sim_checker: a use before a copy is complete is a race, on a stream and on the host") {
    crime_scene t;
    sim_touch({t.h, 1024}, sim_access::write);
    sim_copy(t.a, t.d, t.h, 1024);
    t.kernel(t.b, sim_access::read, t.d);
    sim_report const r = t.one(sim_mistake::race);
    CHECK(std::string{r.first.name}.starts_with("copy "));

    sim_copy(t.a, t.h, t.d, 1024);
    sim_touch({t.h, 1024}, sim_access::read);
    sim_report const host = t.one(sim_mistake::race);
    CHECK(host.second.host);
    CHECK(host.missing.find("the host must wait for stream") == 0);
}

TEST_CASE("sim_checker: a write to a pinned source during its copy is a race") {
    crime_scene t;
    sim_touch({t.h, 1024}, sim_access::write);
    sim_copy(t.a, t.d, t.h, 1024);
    sim_touch({t.h, 1}, sim_access::write);
    sim_report const r = t.one(sim_mistake::race);
    CHECK(r.first.what == sim_event_of::kind::read);
    t.a.synchronize();
    sim_touch({t.h, 1024}, sim_access::write);
    CHECK(t.clean());
}

TEST_CASE("sim_checker: a host write is ordered before work that is queued after it") {
    crime_scene t;
    t.kernel(t.a, sim_access::read, t.h);
    sim_touch({t.h, 4}, sim_access::write); // after the launch
    t.one(sim_mistake::race);
    sim_touch({t.h, 4}, sim_access::read);
    t.kernel(t.b, sim_access::write, t.h, 4); // enqueued after the host's read
    CHECK(t.clean());
}

TEST_CASE("sim_checker: a second stream that uses a block before the first is complete races") {
    // Models a pool that reuses memory too early: it gives one block to two streams without an
    // order.
    crime_scene t;
    auto* const piece = static_cast<char*>(t.d) + 256;
    t.kernel(t.a, sim_access::write, piece,
             128); // user of the piece, which is then freed on stream a
    t.kernel(t.b, sim_access::write, piece, 128); // and given to stream b
    t.one(sim_mistake::race);
}

TEST_CASE("sim_checker: a read or write after a free is reported with the free") {
    for (sim_access const access : {sim_access::read, sim_access::write}) {
        crime_scene t;
        t.memory.deallocate_sync(t.d, 1024);
        t.kernel(t.a, access, t.d);
        sim_report const r = t.one(sim_mistake::use_after_free);
        CHECK(std::string{r.first.name} == "free");
        CHECK(r.missing.find("free the block after its last use") != std::string::npos);
        t.d = nullptr;
    }
}

TEST_CASE("sim_checker: a copy from freed memory is reported") {
    crime_scene t;
    t.memory.deallocate_sync(t.d, 1024);
    sim_copy(t.a, t.h, t.d, 8);
    t.one(sim_mistake::use_after_free);
    t.d = nullptr;
}

TEST_CASE("sim_checker: an access outside any live allocation is reported") {
    crime_scene t;
    t.kernel(t.a, sim_access::read, static_cast<char*>(t.d) + 1020, 8); // over the end
    t.one(sim_mistake::out_of_bounds, false);
    t.kernel(t.a, sim_access::write, static_cast<char*>(t.d) + 1024, 1);
    t.one(sim_mistake::out_of_bounds, false);
}

TEST_CASE("sim_checker: a synchronous free that is not ordered after the last use is reported, "
          "though it waits") {
    crime_scene t;
    t.kernel(t.a, sim_access::read, t.d);
    t.memory.deallocate_sync(t.d, 1024);
    sim_report const r = t.one(sim_mistake::free_before_last_use);
    CHECK(std::string{r.first.name} == "reader");
    t.d = nullptr;
}

TEST_CASE("sim_checker: a stream-ordered free that is not ordered after the last use is reported") {
    crime_scene        t;
    sim_async_resource async;
    void* const        p = async.allocate(t.a, 256);
    t.kernel(t.a, sim_access::write, p, 256);
    async.deallocate(t.b, p, 256);
    sim_report const r = t.one(sim_mistake::free_before_last_use);
    CHECK(r.second.actor == t.b.id());
    CHECK(r.first.actor == t.a.id());
}

TEST_CASE(
    "sim_checker: a use that is not ordered after the stream-ordered allocation is reported") {
    crime_scene        t;
    sim_async_resource async;
    void* const        p = async.allocate(t.a, 256);
    t.kernel(t.b, sim_access::write, p, 256);
    sim_report const r = t.one(sim_mistake::use_before_ready);
    CHECK(r.first.what == sim_event_of::kind::allocation);
    t.b.synchronize();
    async.deallocate(t.a, p, 256);
}

TEST_CASE("sim_checker: double and foreign frees are reported, with the first free") {
    crime_scene t;
    auto const  before = set_error_sink([](error const&) noexcept {});
    t.memory.deallocate_sync(t.d, 1024);
    t.memory.deallocate_sync(t.d, 1024);
    sim_report const twice = t.one(sim_mistake::double_free);
    CHECK(std::string{twice.first.name} == "free");
    t.d = nullptr;

    int local = 0;
    t.memory.deallocate_sync(&local, sizeof local);
    t.one(sim_mistake::foreign_free, false);
    t.memory.deallocate_sync(t.h, 1024); // pinned, not device
    t.one(sim_mistake::foreign_free, false);
    t.pinned.deallocate_sync(static_cast<char*>(t.h) + 8, 1016); // inside a block
    t.one(sim_mistake::foreign_free, false);

    sim_async_resource async;
    void* const        p = async.allocate(t.a, 64);
    async.deallocate(t.a, p, 64);
    async.deallocate(t.a, p, 64);
    t.one(sim_mistake::double_free);
    set_error_sink(before);
}

TEST_CASE("sim_checker: a free with a wrong size is reported") {
    crime_scene t;
    t.memory.deallocate_sync(t.d, 1000);
    t.one(sim_mistake::wrong_size);
    t.d = nullptr;
}

TEST_CASE("sim_checker: reads of unwritten memory are reported if that check is on") {
    sim_options o;
    o.checks.uninitialised = true;
    crime_scene t{o};
    t.kernel(t.a, sim_access::write, t.d, 512);
    t.kernel(t.a, sim_access::read, t.d, 512);
    CHECK(t.clean());
    t.kernel(t.a, sim_access::read, t.d, 1024);
    sim_report const r = t.one(sim_mistake::uninitialised_read);
    CHECK(r.bytes == 512);
}

TEST_CASE(
    "sim_checker: a kernel's access to pageable memory is reported, but not to registered memory") {
    crime_scene t;
    char        local[64];
    t.kernel(t.a, sim_access::read, local, sizeof local);
    t.one(sim_mistake::pageable_access, false);
    {
        sim_register const pin{{local, sizeof local}};
        t.kernel(t.a, sim_access::read, local, sizeof local);
        CHECK(t.clean());
        sim_touch({local, 8}, sim_access::write);
        t.one(sim_mistake::race);
        t.a.synchronize();
    }
    t.kernel(t.a, sim_access::read, local, sizeof local);
    t.one(sim_mistake::pageable_access, false);
}

TEST_CASE("sim_checker: a host access to device memory is reported") {
    crime_scene t;
    sim_touch({t.d, 8}, sim_access::read);
    t.one(sim_mistake::host_access);
}

TEST_CASE("sim_checker: a kernel without peer access is reported, and a copy is not") {
    sim_options o;
    o.devices     = 2;
    o.peer_access = false;
    crime_scene  t{o};
    sim_resource second{sim_device{1}};
    sim_stream   far{sim_device{1}};
    t.kernel(far, sim_access::read, t.d);
    t.one(sim_mistake::peer_access);
    void* const p = second.allocate_sync(1024);
    sim_copy(far, p, t.d, 1024);
    CHECK(t.clean());
    sim_device{1}.set_peer_access(sim_device{0}, true);
    t.kernel(far, sim_access::read, t.d);
    CHECK(t.clean());
    far.synchronize();
    second.deallocate_sync(p, 1024);
}

TEST_CASE("sim_checker: a refused request is reported if that check is on") {
    sim_options o;
    o.capacity        = 1_MiB;
    o.checks.capacity = true;
    crime_scene t{o};
    CHECK(t.memory.try_allocate_sync(2_MiB) == nullptr);
    sim_report const r = t.node.take_reports().at(0);
    CHECK(r.kind == sim_mistake::capacity_exceeded);
    CHECK(r.bytes == 2_MiB);
}

TEST_CASE(
    "sim_checker: memory that is live when the node ends is a leak, reported with its allocation") {
    sim_node           node{{.on_report = sim_on_report::collect}};
    sim_resource       memory;
    sim_async_resource async;
    sim_stream         s;
    void* const        freed = memory.allocate_sync(10);
    static_cast<void>(memory.allocate_sync(20));
    static_cast<void>(async.allocate(s, 30));
    memory.deallocate_sync(freed, 10);
    node.finish();
    auto const all = node.take_reports();
    REQUIRE(all.size() == 2);
    CHECK(all[0].kind == sim_mistake::leak);
    CHECK(all[0].bytes == 20);
    CHECK(all[1].bytes == 30);
    CHECK(all[0].first.what == sim_event_of::kind::allocation);
}

TEST_CASE("sim_checker: the chunks of a pool are one leak, and the report says how to free them") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream s;
    pool       memory{statistics{stream_ordered{sim_resource{}}}, {.initial_size = 0}};
    void*      blocks[] = {memory.allocate(s, 1_MiB), memory.allocate(s, 100_MiB)};
    node.finish();
    auto const all = node.take_reports();
    REQUIRE(all.size() == 1);
    CHECK(all[0].blocks == 2);
    CHECK(all[0].bytes == memory.usage().reserved);
    std::string const text = all[0].text();
    CHECK(text.find("leak: " + std::to_string(all[0].bytes) +
                    " bytes in 2 blocks, one of them at") != std::string::npos);
    CHECK(text.find("allocated by a pool for its chunks") != std::string::npos);
    CHECK(text.find("Destroy or trim the pool before the node ends.") != std::string::npos);
    memory.deallocate(s, blocks[0], 1_MiB);
    memory.deallocate(s, blocks[1], 100_MiB);
}

TEST_CASE("sim_checker: a leak through layers names the line of the user") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream s;
    auto       from = [&](auto memory) {
        (void)memory.allocate(s, 100);
        (void)memory.allocate_sync(200);
        (void)memory.try_allocate(s, 300);
        (void)memory.try_allocate_sync(400);
    };
    from(stream_ordered{sim_resource{}});
    from(statistics{limiting{stream_ordered{sim_resource{}}, 1_GiB}});
    from(limiting{sim_async_resource{}, 1_GiB});
    node.finish();
    auto const all = node.take_reports();
    REQUIRE(all.size() == 12);
    for (sim_report const& each : all) {
        CHECK(std::string{each.first.where.file_name()}.ends_with("sim_checker.cpp"));
        CHECK(each.text().find("Free every block before the node ends.") != std::string::npos);
    }
}

TEST_CASE("sim_checker: each check can be switched off separately") {
    auto const reports = [](void (*off)(sim_checks&)) {
        sim_options o;
        o.checks.uninitialised = true;
        off(o.checks);
        crime_scene t{o};
        char        local[8];
        t.kernel(t.a, sim_access::read, t.d, 8);                            // uninitialised
        t.kernel(t.b, sim_access::write, t.d);                              // races
        t.kernel(t.a, sim_access::read, static_cast<char*>(t.d) + 2048, 1); // bounds
        t.kernel(t.a, sim_access::read, local, 8);                          // residency
        auto const before = set_error_sink([](error const&) noexcept {});
        t.memory.deallocate_sync(local, 8); // frees
        set_error_sink(before);
        std::string kinds;
        for (auto const& r : t.node.take_reports()) {
            kinds += std::to_string(static_cast<int>(r.kind)) + " ";
        }
        return kinds;
    };
    auto const kind     = [](sim_mistake m) { return std::to_string(static_cast<int>(m)) + " "; };
    std::string const u = kind(sim_mistake::uninitialised_read), r = kind(sim_mistake::race),
                      b = kind(sim_mistake::out_of_bounds), p = kind(sim_mistake::pageable_access),
                      f = kind(sim_mistake::foreign_free);
    CHECK(reports([](sim_checks&) {}) == u + r + b + p + f);
    CHECK(reports([](sim_checks& c) { c.uninitialised = false; }) == r + b + p + f);
    CHECK(reports([](sim_checks& c) { c.races = false; }) == u + b + p + f);
    CHECK(reports([](sim_checks& c) { c.bounds = false; }) == u + r + p + f);
    CHECK(reports([](sim_checks& c) { c.residency = false; }) == u + r + b + f);
    CHECK(reports([](sim_checks& c) { c.frees = false; }) == u + r + b + p);
}

TEST_CASE("sim_checker: with throw_it, the call that made the mistake throws the report") {
    sim_node     node{{.on_report = sim_on_report::throw_it}};
    sim_resource memory;
    sim_stream   a, b;
    void* const  d = memory.allocate_sync(64);
    sim_launch(a, {.writes = {{d, 64}}});
    CHECK_THROWS_AS(sim_launch(b, {.writes = {{d, 64}}}), sim_race);
    sim_device{}.synchronize();
    memory.deallocate_sync(d, 64);
    CHECK(node.reports().size() == 1);
}

TEST_CASE("sim_checker: with host page tables, kernels on pageable memory are checked for races") {
    crime_scene            t{{.host_page_tables = true}};
    sim_stream const       other;
    std::vector<std::byte> v(4096);
    sim_event              e;
    t.kernel(t.a, sim_access::write, v.data(), v.size());
    CHECK(t.node.reports().empty()); // the device may use it
    e.record(t.a);
    e.wait(other);
    t.kernel(other, sim_access::read, v.data(), v.size());
    CHECK(t.node.reports().empty());
    sim_touch({v.data(), 1}, sim_access::write);
    CHECK(t.node.take_reports().size() == 2); // the host waited for none of the two
    other.synchronize();
    sim_touch({v.data() + 1, 4095}, sim_access::write);
    CHECK(t.node.take_reports().empty());
}

TEST_CASE("sim_checker: with host page tables, copies of pageable memory are asynchronous") {
    for (bool const tables : {false, true}) {
        crime_scene            t{{.host_page_tables = tables}};
        std::vector<std::byte> v(1000);
        sim_copy(t.a, t.d, v.data(), 1000);
        sim_touch({v.data(), 1000}, sim_access::write);
        CHECK(t.node.take_reports().size() == (tables ? 1 : 0));
        sim_copy(t.a, v.data(), t.d, 1000);
        sim_touch({v.data(), 1000}, sim_access::read);
        CHECK(t.node.take_reports().size() == (tables ? 1 : 0));
        t.a.synchronize();
        sim_touch({v.data(), 1000}, sim_access::write);
        sim_copy_sync(t.d, v.data(), 1000);
        sim_touch({v.data(), 1000}, sim_access::write);
        sim_copy_sync(v.data(), t.d, 1000);
        sim_touch({v.data(), 1000}, sim_access::write);
        CHECK(t.node.take_reports().empty());
    }
}

TEST_CASE("sim_checker: pieces that cannot conflict any more become one") {
    sim_node     node{crime_scene::collecting({})};
    sim_resource mr;
    sim_stream   s, t;
    char* const  p      = static_cast<char*>(mr.allocate_sync(64000));
    auto const   pieces = [&] {
        detail::sim_machine& m = node.machine();
        return m.memory.space(detail::sim_kind::device, 0)
            .before(reinterpret_cast<std::uintptr_t>(p))
            ->history.pieces();
    };
    for (int i = 0; i < 1000; ++i) { sim_launch(s, {.writes = {{p + 64 * i, 32}}}); }
    CHECK(pieces() == 2000);
    for (int i = 0; i < 4; ++i) { sim_launch(s, {.reads = {{p, 64000}}}); }
    CHECK(pieces() == 2000); // another stream may still conflict with each of them
    sim_device{}.synchronize();
    for (int i = 0; i < 4; ++i) { sim_launch(s, {.reads = {{p, 64000}}}); }
    CHECK(pieces() == 1);
    CHECK(node.reports().empty());
    sim_launch(t, {.writes = {{p + 100, 8}}}); // the reads of `s` are not forgotten
    CHECK(node.take_reports().size() == 1);
    mr.deallocate_sync(p, 64000);
    static_cast<void>(node.take_reports());
}

TEST_CASE("sim_checker: an access that another host thread does not know is not forgotten" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node            node{crime_scene::collecting({})};
    sim_pinned_resource mr;
    sim_stream          s;
    char* const         p = static_cast<char*>(mr.allocate_sync(64));
    sim_thread          other{
        sim_device{}, [&] {
            sim_stream t;
            sim_work(std::chrono::milliseconds{1}); // after everything that the first thread does
            sim_launch(t, {.writes = {{p, 64}}});
            t.synchronize();
        }};
    sim_launch(s, {.name = "first", .writes = {{p, 64}}});
    s.synchronize();
    for (int i = 0; i < 300; ++i) { sim_touch({p, 64}, sim_access::read); }
    other.join();
    auto const reports = node.take_reports();
    REQUIRE(!reports.empty());
    CHECK(std::string_view{reports[0].first.name} == "first");
    mr.deallocate_sync(p, 64);
    static_cast<void>(node.take_reports());
}
