// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_observer.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include <cstddef>     // byte, size_t
#include <string_view> // string_view
#include <vector>      // vector

#include <doctest/doctest.h>

using namespace vram;

namespace {

using mk = memory_event_kind;

/// A resource that only notifies. Each function is one call of the program.
struct hand {
    char const* name = "hand";

    void tell(mk kind, void* p, std::size_t n, sim_stream_view const* s = nullptr,
              call_site at = {}) const {
        memory_event<sim_stream_view> e{kind, name, this, p, n, {}, at};
        if (s != nullptr) { e.stream = *s; }
        sim_platform::begin_resource_call();
        sim_platform::observe(e);
        sim_platform::end_resource_call();
    }
    void add(void* p, std::size_t n) const { tell(mk::chunk_added, p, n); }
    void remove(void* p, std::size_t n) const { tell(mk::chunk_removed, p, n); }
    void allocate(sim_stream_view s, void* p, std::size_t n,
                  call_site at = call_site::current()) const {
        tell(mk::allocated, p, n, &s, at);
    }
    void allocate_sync(void* p, std::size_t n) const { tell(mk::allocated, p, n); }
    void free(sim_stream_view s, void* p, std::size_t n,
              call_site at = call_site::current()) const {
        tell(mk::freed, p, n, &s, at);
    }
    void free_sync(void* p, std::size_t n) const { tell(mk::freed, p, n); }
};

/// A node with one chunk of 4096 bytes of `hand`.
struct hand_node {
    sim_node         node{{.on_report = sim_on_report::collect}};
    sim_resource     memory;
    std::byte* const chunk = static_cast<std::byte*>(memory.allocate_sync(4096));
    hand             h;
    sim_stream       s, t;

    hand_node() { h.add(chunk, 4096); }
    ~hand_node() {
        h.remove(chunk, 4096);
        sim_device{}.synchronize();
        memory.deallocate_sync(chunk, 4096);
    }
    static void write(sim_stream_view on, void* p, std::size_t n) {
        sim_launch(on, {.name = "writer", .writes = {{p, n}}});
    }
    static void read(sim_stream_view on, void* p, std::size_t n) {
        sim_launch(on, {.name = "reader", .reads = {{p, n}}});
    }
    static void order(sim_stream_view later, sim_stream_view earlier) {
        sim_event e;
        e.record(earlier);
        e.wait(later);
    }
    /// `later` waits for `earlier`, inside a call of a resource.
    static void resource_order(sim_stream_view later, sim_stream_view earlier) {
        sim_platform::begin_resource_call();
        order(later, earlier);
        sim_platform::end_resource_call();
    }
    /// Returns the only report and removes it.
    [[nodiscard]] sim_report only() {
        auto all = node.take_reports();
        for (sim_report const& r : all) { INFO(r.text()); }
        REQUIRE(all.size() == 1);
        return all.front();
    }
    [[nodiscard]] bool silent() const {
        for (sim_report const& r : node.reports()) { MESSAGE(r.text()); }
        return node.reports().empty();
    }
};

} // namespace

TEST_CASE("sim_observer: correct uses of blocks in a chunk are not reported") {
    hand_node m;
    m.h.allocate(m.s, m.chunk, 1024);
    m.h.allocate(m.s, m.chunk + 1024, 512);
    m.write(m.s, m.chunk, 1024);
    m.write(m.s, m.chunk + 1024, 512);
    m.order(m.t, m.s);
    m.read(m.t, m.chunk, 1024);
    m.order(m.s, m.t);
    m.h.free(m.s, m.chunk, 1024);
    m.h.allocate(m.s, m.chunk, 256);
    m.write(m.s, m.chunk, 256);
    m.h.free(m.s, m.chunk, 256);
    m.s.synchronize();
    m.h.free_sync(m.chunk + 1024, 512);
    CHECK(m.silent());
}

TEST_CASE("sim_observer: a use after the free is reported with the block, its owner and its free") {
    hand_node m;
    m.h.allocate(m.s, m.chunk + 512, 512);
    m.h.free(m.s, m.chunk + 512, 512);
    m.write(m.s, m.chunk + 640, 64);
    sim_report const r = m.only();
    CHECK(r.kind == sim_mistake::use_after_free);
    CHECK(std::string_view{r.block.resource} == "hand");
    CHECK(r.block.address == reinterpret_cast<std::uintptr_t>(m.chunk + 512));
    CHECK(r.block.bytes == 512);
    CHECK(r.block.allocated.actor == m.s.id());
    CHECK(std::string_view{r.block.allocated.where.file_name()}.ends_with("sim_observer.cpp"));
    CHECK(r.block.freed.where.line() == r.block.allocated.where.line() + 1);
    CHECK(r.first.what == sim_event_of::kind::release);
    CHECK(r.text().find("block of 512 bytes at ") != std::string::npos);
    CHECK(r.text().find("from a `hand`, offset 128, allocated by ") != std::string::npos);
}

TEST_CASE("sim_observer: a piece of a freed block that is left after a smaller block is unusable") {
    hand_node m;
    m.h.allocate(m.s, m.chunk, 1024);
    m.h.free(m.s, m.chunk, 1024);
    m.h.allocate(m.s, m.chunk + 256, 256);
    m.write(m.s, m.chunk + 256, 256);
    CHECK(m.silent());
    for (std::size_t const at : {0, 512}) {
        m.write(m.s, m.chunk + at, 8);
        sim_report const r = m.only();
        CHECK(r.kind == sim_mistake::use_after_free);
        CHECK(r.block.bytes == 1024);
    }
    m.h.free(m.s, m.chunk + 256, 256);
}

TEST_CASE("sim_observer: an access beyond a block is out of bounds, though the memory is live") {
    hand_node m;
    m.h.allocate(m.s, m.chunk, 1024);
    m.h.allocate(m.s, m.chunk + 1024, 1024);
    m.write(m.s, m.chunk, 1025);
    sim_report const r = m.only();
    CHECK(r.kind == sim_mistake::out_of_bounds);
    CHECK(r.block.address == reinterpret_cast<std::uintptr_t>(m.chunk));
    CHECK(r.block.bytes == 1024);
    m.write(m.s, m.chunk + 2048, 8); // a part of the chunk that was never allocated
    sim_report const unused = m.only();
    CHECK(unused.kind == sim_mistake::out_of_bounds);
    CHECK(unused.block.address == reinterpret_cast<std::uintptr_t>(m.chunk + 1024));
    m.h.free(m.s, m.chunk, 1024);
    m.h.free(m.s, m.chunk + 1024, 1024);
}

TEST_CASE("sim_observer: a use on another stream must follow the allocation") {
    hand_node m;
    m.h.allocate(m.s, m.chunk, 1024);
    m.write(m.t, m.chunk, 1024);
    CHECK(m.only().kind == sim_mistake::use_before_ready);
    m.order(m.s, m.t);
    m.h.free(m.s, m.chunk, 1024);
    m.h.allocate_sync(m.chunk + 1024, 8);
    m.write(m.t, m.chunk + 1024, 8);
    m.order(m.s, m.t);
    m.h.free(m.s, m.chunk + 1024, 8);
    CHECK(m.silent());
}

TEST_CASE("sim_observer: a free that does not follow the last use is reported at once") {
    hand_node m;
    m.h.allocate(m.s, m.chunk, 1024);
    m.order(m.t, m.s);
    m.read(m.t, m.chunk, 1024);
    SUBCASE("on a stream") { m.h.free(m.s, m.chunk, 1024); }
    SUBCASE("without a stream") { m.h.free_sync(m.chunk, 1024); }
    sim_report const r = m.only();
    CHECK(r.kind == sim_mistake::free_before_last_use);
    CHECK(std::string_view{r.first.name} == "reader");
    CHECK(r.block.bytes == 1024);
}

TEST_CASE("sim_observer: the wait of a resource does not order the program") {
    hand_node m;
    m.h.allocate(m.s, m.chunk, 1024);
    m.h.allocate(m.s, m.chunk + 1024, 1024);
    m.order(m.t, m.s);
    m.write(m.s, m.chunk + 1024, 1024);
    m.h.free(m.s, m.chunk, 1024);
    m.resource_order(m.t, m.s); // covers the writer too
    m.h.allocate(m.t, m.chunk, 1024);
    m.write(m.t, m.chunk, 1024);
    CHECK(m.silent());
    m.read(m.t, m.chunk + 1024, 1024);
    CHECK(m.only().kind == sim_mistake::race);
    m.order(m.s, m.t);
    m.h.free(m.s, m.chunk, 1024);
    m.h.free(m.s, m.chunk + 1024, 1024);
    CHECK(m.silent());
}

TEST_CASE("sim_observer: a host wait of a resource does not order the program") {
    hand_node m;
    m.h.allocate(m.s, m.chunk, 1024);
    m.write(m.s, m.chunk, 1024);
    SUBCASE("a wait") {
        sim_platform::begin_resource_call();
        m.s.synchronize();
        sim_platform::end_resource_call();
    }
    SUBCASE("a query") {
        sim_event e;
        e.record(m.s);
        m.s.synchronize();
        sim_platform::begin_resource_call();
        CHECK(e.done());
        sim_platform::end_resource_call();
        m.write(m.s, m.chunk, 1024);
        sim_platform::begin_resource_call();
        m.s.synchronize();
        CHECK(m.s.done());
        sim_platform::end_resource_call();
    }
    m.h.free_sync(m.chunk, 1024);
    CHECK(m.only().kind == sim_mistake::free_before_last_use);
}

TEST_CASE("sim_observer: memory must not be allocated again before its free") {
    hand_node m;
    m.h.allocate(m.s, m.chunk, 1024);
    m.write(m.s, m.chunk, 1024);
    m.h.free(m.s, m.chunk, 1024);
    SUBCASE("the resource makes no wait") {
        m.h.allocate(m.t, m.chunk, 512);
        sim_report const r = m.only();
        CHECK(r.kind == sim_mistake::race);
        CHECK(r.first.what == sim_event_of::kind::release);
        CHECK(r.second.what == sim_event_of::kind::allocation);
    }
    SUBCASE("the stream waits") {
        m.resource_order(m.t, m.s);
        m.h.allocate(m.t, m.chunk, 512);
    }
    SUBCASE("the host waits") {
        sim_platform::begin_resource_call();
        m.s.synchronize();
        sim_platform::end_resource_call();
        m.h.allocate(m.t, m.chunk, 512);
    }
    m.write(m.t, m.chunk, 512);
    m.h.free(m.t, m.chunk, 512);
    CHECK(m.silent());
}

TEST_CASE("sim_observer: a free completes with the earlier work of its stream, so an older event "
          "is enough") {
    hand_node m;
    m.h.allocate(m.s, m.chunk, 1024);
    m.write(m.s, m.chunk, 1024);
    sim_event e;
    e.record(m.s);
    m.h.free(m.s, m.chunk, 1024);
    sim_platform::begin_resource_call();
    e.wait(m.t);
    sim_platform::end_resource_call();
    m.h.allocate(m.t, m.chunk, 1024);
    m.write(m.t, m.chunk, 1024);
    m.h.free(m.t, m.chunk, 1024);
    CHECK(m.silent());
}

TEST_CASE("sim_observer: after two frees of a block, it is not known which one counts") {
    hand_node m;
    m.h.allocate(m.s, m.chunk, 1024);
    m.h.free(m.t, m.chunk, 1024);
    m.h.free(m.s, m.chunk, 1024);
    m.h.allocate(m.s, m.chunk, 1024);
    m.h.free(m.s, m.chunk, 1024);
    CHECK(m.silent());
}

TEST_CASE("sim_observer: a report about reused memory has the free of the block before") {
    hand_node m;
    m.h.allocate(m.s, m.chunk, 1024);
    m.h.free(m.s, m.chunk, 1024);
    m.resource_order(m.t, m.s);
    m.h.allocate(m.t, m.chunk, 1024);
    m.write(m.s, m.chunk, 1024); // its block is gone
    sim_report const r = m.only();
    CHECK(r.kind == sim_mistake::use_before_ready);
    CHECK(r.block.before.actor == m.s.id());
    CHECK(r.text().find(", in memory that was freed by `free` #") != std::string::npos);
    m.order(m.t, m.s);
    m.h.free(m.t, m.chunk, 1024);
}

TEST_CASE("sim_observer: a refused free keeps the block and its history") {
    hand_node m;
    m.h.allocate(m.s, m.chunk, 1024);
    m.write(m.s, m.chunk, 1024);
    m.h.free(m.s, m.chunk, 1024);
    m.h.tell(mk::free_refused, m.chunk, 1024);
    m.read(m.s, m.chunk, 8);
    CHECK(m.silent());
    m.read(m.t, m.chunk, 8);
    CHECK(m.only().kind == sim_mistake::race);
    m.order(m.s, m.t);
    m.h.free(m.s, m.chunk, 512); // another size, which the resource refuses
    m.h.tell(mk::free_refused, m.chunk, 512);
    m.read(m.s, m.chunk, 8);
    m.h.free(m.s, m.chunk, 1024);
    m.h.free(m.s, m.chunk, 1024); // a double free, which the resource refuses
    m.h.tell(mk::free_refused, m.chunk, 1024);
    CHECK(m.silent());
    m.read(m.s, m.chunk, 8);
    CHECK(m.only().kind == sim_mistake::use_after_free);
}

TEST_CASE("sim_observer: after a double free, no piece of the block is checked against its free") {
    hand_node m;
    m.h.allocate(m.s, m.chunk, 1024);
    m.h.free(m.s, m.chunk, 1024);
    m.h.free(m.t, m.chunk, 1024); // the resource refuses one of the two
    m.h.allocate(m.t, m.chunk + 256, 256);
    m.h.allocate(m.t, m.chunk, 256);
    m.h.allocate(m.t, m.chunk + 512, 512);
    CHECK(m.silent());
}

TEST_CASE("sim_observer: a piece of a block keeps the free of the memory before it") {
    hand_node m;
    m.h.allocate(m.s, m.chunk, 1024);
    m.h.free(m.s, m.chunk, 1024);
    m.h.allocate(m.s, m.chunk, 1024);
    m.h.free(m.s, m.chunk, 1024);
    m.h.allocate(m.s, m.chunk + 256, 256);
    m.write(m.s, m.chunk + 512, 8);
    sim_report const r = m.only();
    CHECK(r.kind == sim_mistake::use_after_free);
    CHECK(r.block.before.what == sim_event_of::kind::release);
}

TEST_CASE("sim_observer: chunks nest, and each access is that of the innermost block") {
    hand_node  m;
    hand const inner{"inner"}, leaf{"leaf"};
    m.h.allocate_sync(m.chunk, 2048);
    inner.add(m.chunk, 2048);
    inner.allocate_sync(m.chunk, 2048); // a block of the whole chunk
    leaf.add(m.chunk, 2048);
    leaf.allocate(m.s, m.chunk, 64);
    leaf.allocate(m.s, m.chunk + 2048 - 64, 64);
    m.write(m.s, m.chunk, 64);
    CHECK(m.silent());
    m.write(m.s, m.chunk + 64, 8);
    CHECK(std::string_view{m.only().block.resource} == "leaf");
    m.write(m.s, m.chunk + 2048 - 8, 16);
    sim_report const over = m.only();
    CHECK(over.kind == sim_mistake::out_of_bounds);
    CHECK(std::string_view{over.block.resource} == "leaf");
    leaf.free(m.s, m.chunk, 64);
    m.write(m.s, m.chunk, 8);
    CHECK(std::string_view{m.only().block.resource} == "leaf");
    leaf.free(m.s, m.chunk + 2048 - 64, 64);
    leaf.remove(m.chunk, 2048);

    // The memory is the block of `inner` again, after the frees of the leaf's blocks.
    m.write(m.s, m.chunk, 2048);
    CHECK(m.silent());
    inner.free(m.s, m.chunk, 2048);
    m.write(m.s, m.chunk, 8);
    CHECK(std::string_view{m.only().block.resource} == "inner");
    inner.remove(m.chunk, 2048);
    m.h.free(m.s, m.chunk, 2048);
    CHECK(m.silent());
}

TEST_CASE(
    "sim_observer: a chunk returned before the frees of its blocks is the resource's mistake") {
    sim_node     node{{.on_report = sim_on_report::collect}};
    sim_resource memory;
    sim_stream   s;
    hand const   h;
    void* const  p = memory.allocate_sync(4096);
    h.add(p, 4096);
    h.allocate(s, p, 64);
    sim_launch(s, {.writes = {{p, 64}}});
    h.free(s, p, 64);
    bool waits = false;
    SUBCASE("the resource waits") { waits = true; }
    SUBCASE("the resource does not wait") {}
    sim_platform::begin_resource_call();
    if (waits) { s.synchronize(); }
    h.remove(p, 4096);
    memory.deallocate_sync(p, 4096);
    sim_platform::end_resource_call();
    CHECK(node.reports().size() == (waits ? 0 : 1));
}

TEST_CASE("sim_observer: all blocks of a range are freed at once") {
    hand_node m;
    m.h.allocate(m.s, m.chunk, 64);
    m.h.allocate(m.t, m.chunk + 64, 64);
    m.write(m.s, m.chunk, 64);
    m.write(m.t, m.chunk + 64, 64);
    sim_stream u;
    m.order(u, m.s);
    m.read(u, m.chunk, 64);
    sim_stream_view const on = m.s;
    SUBCASE("the resource waits for the streams that allocated, and the caller for others") {
        m.order(m.s, u);
        m.h.tell(mk::all_freed, m.chunk, 4096, &on);
        CHECK(m.silent());
    }
    SUBCASE("the caller did not wait") {
        m.h.tell(mk::all_freed, m.chunk, 4096, &on);
        CHECK(m.only().kind == sim_mistake::free_before_last_use);
    }
    m.write(m.t, m.chunk + 64, 8);
    CHECK(m.only().kind == sim_mistake::use_after_free);
}

TEST_CASE("sim_observer: adjacent chunks are one, and a chunk may be removed in parts") {
    sim_node     node{{.on_report = sim_on_report::collect}};
    sim_resource memory;
    sim_stream   s;
    hand const   h;
    auto* const  p = static_cast<std::byte*>(memory.allocate_sync(4096));
    h.add(p + 1024, 1024);
    h.add(p + 2048, 1024);
    h.allocate(s, p + 1536, 1024); // in both
    sim_launch(s, {.writes = {{p + 1536, 1024}}});
    sim_launch(s, {.writes = {{p, 1024}}}); // no chunk
    CHECK(node.reports().empty());
    sim_launch(s, {.writes = {{p + 512, 1024}}}); // runs into the chunk
    CHECK(node.take_reports().size() == 1);
    h.free(s, p + 1536, 1024);
    h.remove(p + 1024, 512);
    sim_launch(s, {.writes = {{p, 1536}}});
    CHECK(node.reports().empty());
    sim_launch(s, {.writes = {{p + 1536, 8}}});
    CHECK(node.take_reports().size() == 1);
    h.remove(p + 1536, 1536);
    sim_launch(s, {.writes = {{p, 4096}}});
    CHECK(node.reports().empty());
    s.synchronize();
    memory.deallocate_sync(p, 4096);
}

TEST_CASE("sim_observer: blocks of a captured graph are accessible in each launch") {
    hand_node m;
    m.h.allocate(m.s, m.chunk + 1024, 64); // used by the graph, and freed by it
    sim_graph::begin(m.s);
    m.h.allocate(m.s, m.chunk, 512);
    m.write(m.s, m.chunk, 512);
    m.h.free(m.s, m.chunk, 512);
    m.h.allocate(m.s, m.chunk, 64); // the memory again, in the same capture
    m.write(m.s, m.chunk, 64);
    m.h.free(m.s, m.chunk, 64);
    m.read(m.s, m.chunk + 1024, 64);
    m.h.free(m.s, m.chunk + 1024, 64);
    sim_graph graph = sim_graph::end(m.s);
    graph.launch(m.s);
    graph.launch(m.s);
    CHECK(m.silent());
    m.read(m.t, m.chunk, 64); // the graph has freed the block
    CHECK(m.only().kind == sim_mistake::use_after_free);
    m.s.synchronize();
    m.t.synchronize();
}

TEST_CASE("sim_observer: events of unknown memory are ignored, also without a node") {
    int        here = 0;
    hand const h;
    {
        hand_node m;
        h.add(&here, sizeof(here));
        h.allocate(m.s, &here, sizeof(here));
        h.free(m.s, m.chunk + 8, 8); // no block
        h.tell(mk::free_refused, m.chunk + 8, 8);
        h.remove(m.chunk + 4096 + 64, 64);
        CHECK(m.silent());
    }
    h.allocate_sync(&here, sizeof(here));
}

TEST_CASE("sim_observer: without the checks that need them, events are not stored") {
    sim_checks none{};
    none.races = none.bounds = false;
    sim_node     node{{.checks = none, .on_report = sim_on_report::collect}};
    sim_resource memory;
    sim_stream   s;
    hand const   h;
    void* const  p = memory.allocate_sync(4096);
    h.add(p, 4096);
    sim_launch(s, {.writes = {{p, 4096}}});
    CHECK(node.reports().empty());
    memory.deallocate_sync(p, 4096);
}

TEST_CASE("sim_observer: an event takes no simulated time and no number of an operation") {
    sim_node     node{{.call_cost = sim_time{10}, .on_report = sim_on_report::collect}};
    sim_resource memory;
    sim_stream   s;
    void* const  p    = memory.allocate_sync(4096);
    auto const   time = node.now();
    auto const   last = node.machine().schedule.count();
    hand const   h;
    h.add(p, 4096);
    h.allocate(s, p, 64);
    h.free(s, p, 64);
    h.remove(p, 4096);
    CHECK(node.now() == time);
    CHECK(node.machine().schedule.count() == last);
    memory.deallocate_sync(p, 4096);
}
