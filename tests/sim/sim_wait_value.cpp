// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_wait_value.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include "../doubles/bombing.hpp"
#include "../doubles/collecting.hpp" // status_of
#include "../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <string>

using namespace vram;
using namespace std::chrono_literals;

namespace {

/// A node that collects its reports, with two streams, device memory `d`, and a word `flag`.
struct word_scene {
    explicit word_scene(sim_options o = {}) : node{quiet(std::move(o))} { *flag = 0; }
    ~word_scene() {
        sim_device{}.synchronize();
        memory.deallocate_sync(d, 1024);
        pinned.deallocate_sync(flag, 64);
    }
    static sim_options quiet(sim_options o) {
        o.on_report = sim_on_report::collect;
        return o;
    }
    void write(sim_stream const& s) { sim_launch(s, {.name = "writer", .writes = {{d, 1024}}}); }
    void read(sim_stream const& s) { sim_launch(s, {.name = "reader", .reads = {{d, 1024}}}); }
    /// Returns the kinds of the reports since the last call.
    std::string kinds() {
        std::string all;
        for (sim_report const& r : node.take_reports()) { all += name(r.kind) + std::string{";"}; }
        return all;
    }

    sim_node             node;
    sim_resource         memory;
    sim_pinned_resource  pinned;
    sim_stream           a, b;
    void* const          d    = memory.allocate_sync(1024);
    std::uint32_t* const flag = static_cast<std::uint32_t*>(pinned.allocate_sync(64));
};

} // namespace

TEST_CASE("sim_wait_value: a stream that waits for a value is ordered after the write before it") {
    word_scene t;
    t.write(t.a);
    sim_write_value(t.a, t.flag, 1);
    sim_wait_value(t.b, t.flag, 1);
    t.read(t.b);
    CHECK(t.kinds().empty());
    t.write(t.a); // not ordered after the read
    CHECK(t.kinds() == "race;");
    t.b.synchronize();
    CHECK(*t.flag == 1);
}

TEST_CASE("sim_wait_value: a value that was written before the work orders nothing") {
    word_scene t;
    sim_write_value(t.a, t.flag, 1);
    t.write(t.a);
    sim_wait_value(t.b, t.flag, 1);
    t.read(t.b);
    CHECK(t.kinds() == "race;");
}

TEST_CASE("sim_wait_value: the wait may be queued before the write, on streams that wait longer") {
    word_scene t;
    sim_stream c;
    sim_event  e;
    sim_wait_value(t.b, t.flag, 7);
    t.read(t.b);
    e.record(t.b);
    e.wait(c);
    t.read(c);
    sim_launch(t.a, {.writes = {{t.d, 1024}}, .duration = 5us});
    sim_write_value(t.a, t.flag, 7);
    CHECK(t.kinds().empty());
    c.synchronize();
    CHECK(t.node.now() >= 6us); // it waited for the write
    CHECK(t.kinds().empty());
    sim_stream other;
    t.write(other); // knows of the streams through the host that waited for `c`
    CHECK(t.kinds().empty());
}

TEST_CASE("sim_wait_value: a conflict with work after the write is reported after the write") {
    word_scene t;
    sim_wait_value(t.b, t.flag, 1);
    t.read(t.b);
    sim_write_value(t.a, t.flag, 1);
    t.write(t.a);
    CHECK(t.kinds() == "race;");
    t.a.synchronize();
    t.b.synchronize();
    sim_wait_value(t.b, t.flag, 2);
    t.read(t.b);
    t.write(t.a); // may still be ordered before the read
    CHECK(t.kinds().empty());
    sim_stream other;
    sim_write_value(other, t.flag, 2); // it is not
    CHECK(t.kinds() == "race;");
}

TEST_CASE("sim_wait_value: a read before the wait is not ordered by it") {
    word_scene t;
    t.read(t.b);
    sim_wait_value(t.b, t.flag, 1);
    t.read(t.b);
    t.write(t.a);
    sim_write_value(t.a, t.flag, 1);
    CHECK(t.kinds() == "race;");
}

TEST_CASE("sim_wait_value: waits that follow from each other are all resolved") {
    word_scene           t;
    std::uint32_t* const second = t.flag + 4;
    *second                     = 0;
    sim_stream c;
    sim_wait_value(c, second, 1);
    t.read(c);
    sim_wait_value(t.b, t.flag, 1);
    sim_write_value(t.b, second, 1);
    t.write(t.a);
    CHECK(t.kinds().empty());
    sim_write_value(t.a, t.flag, 1);
    c.synchronize();
    CHECK(t.kinds().empty());
}

TEST_CASE("sim_wait_value: exactly a value, and values in cyclic order") {
    word_scene t;
    sim_write_value(t.a, t.flag, 5);
    t.a.synchronize();
    sim_wait_value(t.b, t.flag, 5, sim_value_is::equal);
    sim_wait_value(t.b, t.flag, 4);
    sim_wait_value(t.b, t.flag, 0xffffffffU); // five is later
    t.b.synchronize();
    sim_wait_value(t.b, t.flag, 4, sim_value_is::equal);
    CHECK_FALSE(t.b.done());
    sim_write_value(t.a, t.flag, 4);
    t.b.synchronize();
    CHECK(t.kinds().empty());
}

TEST_CASE("sim_read_value: a host thread that polls the word is ordered after the write") {
    word_scene  t;
    void* const h = t.pinned.allocate_sync(1024);
    sim_copy(t.a, h, t.d, 1024);
    sim_write_value(t.a, t.flag, 1);
    sim_touch({h, 1024}, sim_access::read);
    CHECK(t.kinds() == "race;");
    while (sim_read_value(t.flag) != 1) {}
    sim_touch({h, 1024}, sim_access::read);
    CHECK(t.kinds().empty());
    t.pinned.deallocate_sync(h, 1024);
    CHECK(t.kinds().empty());
}

TEST_CASE("sim_set_value: the host starts the work of a stream, which is ordered after it") {
    word_scene  t;
    void* const h = t.pinned.allocate_sync(1024);
    sim_wait_value(t.b, t.flag, 1);
    sim_copy(t.b, t.d, h, 1024);
    sim_touch({h, 1024}, sim_access::write);
    CHECK(t.kinds().empty());
    sim_set_value(t.flag, 1);
    t.b.synchronize();
    CHECK(t.kinds().empty());
    sim_wait_value(t.b, t.flag, 2);
    sim_copy(t.b, t.d, h, 1024);
    sim_set_value(t.flag, 2);
    sim_touch({h, 1024}, sim_access::write); // too late
    CHECK(t.kinds() == "race;");
    t.b.synchronize();
    t.pinned.deallocate_sync(h, 1024);
}

TEST_CASE("sim_wait_value: a value that nothing writes is a deadlock at the end of the node") {
    sim_node             node{{.on_report = sim_on_report::collect}};
    sim_pinned_resource  pinned;
    std::uint32_t* const flag = static_cast<std::uint32_t*>(pinned.allocate_sync(64));
    bool                 ran  = false;
    {
        sim_stream s;
        *flag = 0;
        sim_wait_value(s, flag, 1);
        sim_launch(s, {}, [&] { ran = true; });
        node.machine().stuck_patience = 20ms;
        SUBCASE("a wait of the host") { s.synchronize(); }
        SUBCASE("the end") {}
    }
    pinned.deallocate_sync(flag, 64);
    node.finish();
    auto const all = node.take_reports();
    REQUIRE(!all.empty());
    bool found = false;
    for (sim_report const& r : all) {
        if (r.kind != sim_mistake::deadlock) { continue; }
        found = true;
        CHECK(r.text().find("`wait value`") != std::string::npos);
        CHECK(r.text().find("waits until 1 or more is written") != std::string::npos);
    }
    CHECK(found);
    CHECK(ran);
}

TEST_CASE("sim_wait_value: threads in simulated time report the deadlock at once" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    word_scene t;
    sim_thread waits{sim_device{}, [&] {
                         sim_wait_value(t.b, t.flag, 1);
                         t.b.synchronize();
                     }};
    waits.join();
    CHECK(t.kinds() == "deadlock;");
    sim_thread writes{sim_device{}, [&] {
                          sim_work(20us);
                          sim_write_value(t.a, t.flag, 2);
                      }};
    sim_wait_value(t.b, t.flag, 2);
    t.b.synchronize();
    CHECK(t.node.now() == 20us);
    writes.join();
    CHECK(t.kinds().empty());
}

TEST_CASE("sim_wait_value: words in device memory, without contents, and in graphs") {
    for (bool const backed : {true, false}) {
        word_scene  t{{.backed = backed}};
        auto* const word = static_cast<std::uint32_t*>(t.memory.allocate_sync(512));
        sim_fill(t.a, word, std::byte{0}, 512);
        t.a.synchronize();
        sim_graph::begin(t.a);
        t.write(t.a);
        sim_write_value(t.a, word, 1);
        sim_graph const graph = sim_graph::end(t.a);
        sim_wait_value(t.b, word, 1);
        t.read(t.b);
        graph.launch(t.a);
        t.b.synchronize();
        t.a.synchronize();
        CHECK(t.kinds().empty());
        t.memory.deallocate_sync(word, 512);
    }
}

TEST_CASE("sim_wait_value: pageable and misaligned words are refused") {
    word_scene    t;
    std::uint32_t local = 0;
    CHECK_THROWS_AS(sim_write_value(t.a, &local, 1), sim_error);
    CHECK_THROWS_AS(sim_wait_value(t.a, &local, 1), sim_error);
    CHECK_THROWS_AS(sim_set_value(&local, 1), sim_error);
    auto* const odd = reinterpret_cast<std::uint32_t*>(reinterpret_cast<char*>(t.flag) + 2);
    CHECK_THROWS_AS(sim_write_value(t.a, odd, 1), sim_error);
    CHECK(doubles::status_of([&] { sim_wait_value(t.a, odd, 1); }) == sim_status::invalid_value);
    CHECK(doubles::status_of([&] { sim_set_value(odd, 1); }) == sim_status::invalid_value);
    CHECK(*t.flag == 0);
    CHECK_FALSE(sim_platform::mark(t.a, &local, 1));
    CHECK(sim_platform::mark(t.a, t.flag, 9));
    t.a.synchronize();
    CHECK(*t.flag == 9);
}

TEST_CASE(
    "sim_wait_value: an event recorded behind a wait that was resolved long ago is an order") {
    for (bool const right : {true, false}) {
        word_scene t;
        sim_stream c, e, late;
        auto const resolve = [&](sim_stream const& waiting, std::uint32_t value) {
            sim_wait_value(waiting, t.flag + 1, value);
            sim_write_value(e, t.flag + 1, value);
        };
        sim_event before;
        sim_wait_value(t.b, t.flag, 1);
        before.record(t.b); // the value is written later
        if (right) { t.write(t.a); }
        sim_write_value(t.a, t.flag, 1);
        if (!right) { t.write(t.a); }
        for (std::uint32_t i = 1; i < 600; ++i) { resolve(c, i); }
        before.wait(late);
        t.read(late);
        CHECK(t.kinds() == std::string{right ? "" : "race;"});
        CHECK(t.node.unchecked().waits == 0);
    }
}

TEST_CASE("sim_wait_value: conflicts that a forgotten wait may order are counted") {
    word_scene t;
    sim_stream e, late;
    sim_event  before;
    sim_wait_value(t.b, t.flag, 1);
    before.record(t.b);
    t.write(t.a);
    sim_write_value(t.a, t.flag, 1);
    for (std::uint32_t i = 1; i < 600; ++i) {
        sim_wait_value(t.b, t.flag + 1, i);
        sim_write_value(e, t.flag + 1, i);
    }
    before.wait(late);
    t.read(late);
    CHECK(t.kinds().empty());
    CHECK(t.node.unchecked().waits == 1);
    CHECK(t.node.unchecked().text().find("1 conflicts after too many waits for values") !=
          std::string::npos);
    late.synchronize();
    t.read(t.b); // later work of the stream has the order
    CHECK(t.kinds().empty());
}

TEST_CASE("sim_wait_value: a wait follows the work before every write that may end it") {
    word_scene t;
    sim_stream c;
    sim_event  first;
    sim_write_value(t.a, t.flag, 1);
    sim_write_value(c, t.flag, 1);
    SUBCASE("executed writes count as queued ones do") {
        t.a.synchronize();
        c.synchronize();
    }
    SUBCASE("queued writes") {}
    t.write(t.a); // after the write of the value
    sim_write_value(t.a, t.flag, 2);
    sim_wait_value(t.b, t.flag, 2);
    t.read(t.b);
    CHECK(t.kinds().empty()); // only one write suits
    first.record(t.b);
    first.wait(c);
    t.write(c);
    sim_write_value(c, t.flag, 3);
    sim_stream e;
    sim_wait_value(e, t.flag, 2); // ends at 2 or 3
    t.read(e);
    CHECK(t.kinds() == "race;");
    sim_wait_value(e, t.flag, 3);
    t.read(e);
    CHECK(t.kinds().empty());
}

TEST_CASE("sim_wait_value: later writes that may end an earlier wait are counted") {
    for (bool const first : {true, false}) { // the wait is queued before all writes, or between
        word_scene t;
        sim_stream c, d;
        sim_event  e;
        if (first) { sim_wait_value(t.b, t.flag, 1); }
        sim_write_value(t.a, t.flag, 1);
        if (!first) { sim_wait_value(t.b, t.flag, 1); }
        sim_write_value(t.a, t.flag, 2); // cannot come first
        e.record(t.a);
        e.wait(d);
        sim_write_value(d, t.flag, 3); // neither can this one
        e.record(t.b);
        e.wait(d);
        sim_write_value(d, t.flag, 4);
        CHECK(t.node.unchecked().values == 0);
        sim_write_value(c, t.flag, 0); // does not suit
        CHECK(t.node.unchecked().values == 0);
        sim_write_value(c, t.flag, 5);
        CHECK(t.node.unchecked().values == 1);
        CHECK(t.node.unchecked().text().find("1 later writes that may end an earlier wait") !=
              std::string::npos);
        for (unsigned i = 6; i < 100; ++i) { // the newest waits are compared
            sim_wait_value(t.b, t.flag, i);
            sim_write_value(t.a, t.flag, i);
        }
        sim_stream late;
        sim_write_value(late, t.flag, 1000);
        CHECK(t.node.unchecked().values == 1 + 16);
    }
}

TEST_CASE("sim_wait_value: both streams that may end a wait follow common work") {
    word_scene t;
    sim_stream c;
    sim_event  e;
    t.write(t.a);
    e.record(t.a);
    e.wait(c);
    sim_write_value(t.a, t.flag, 1);
    sim_write_value(c, t.flag, 1);
    sim_wait_value(t.b, t.flag, 1);
    t.read(t.b);
    CHECK(t.kinds().empty());
}

TEST_CASE("sim_wait_value: a known write excludes the values before it") {
    word_scene t;
    for (int i = 0; i < 3; ++i) { // the streams use the memory in turns
        t.write(t.a);
        sim_write_value(t.a, t.flag, 1);
        sim_wait_value(t.b, t.flag, 1, sim_value_is::equal);
        t.write(t.b);
        sim_write_value(t.b, t.flag, 0);
        if (i == 1) { t.b.synchronize(); }
        sim_wait_value(t.a, t.flag, 0, sim_value_is::equal);
    }
    CHECK(t.kinds().empty());
    t.a.synchronize();
    for (int i = 0; i < 3; ++i) { // the host resets the word
        *t.flag = 0;
        t.write(t.a);
        sim_write_value(t.a, t.flag, 1);
        if (i == 1) { t.a.synchronize(); }
        sim_wait_value(t.b, t.flag, 1);
        t.write(t.b);
        t.b.synchronize();
    }
    CHECK(t.kinds().empty());
}

TEST_CASE("sim_wait_value: accesses before an open wait are kept until they are ordered") {
    word_scene t;
    sim_stream c;
    t.write(t.b);
    t.read(t.b);
    sim_event e;
    e.record(t.b);
    e.wait(c);
    t.read(c);
    e.record(c);
    e.wait(t.b);
    sim_wait_value(t.b, t.flag, 1);
    for (int i = 0; i < 100; ++i) { t.write(t.b); }
    t.write(t.a);
    REQUIRE(t.node.reports().size() == 1);
    CHECK(t.node.reports().at(0).count == 2); // with the reads of `b` and `c`
    CHECK(t.kinds() == "race;");
    sim_write_value(t.a, t.flag, 1);
    CHECK(t.kinds().empty()); // the other writes of `b` are later
    e.record(t.b);
    e.wait(t.a);
    t.write(t.a);
    CHECK(t.kinds().empty());
}

TEST_CASE("sim_write_value: a poll that cannot store its order ends the reports of races") {
    std::size_t hits = 0;
    for (std::uint64_t nth = 1; nth < 50; ++nth) {
        doubles::mishaps const sink;
        word_scene             t;
        void* const            h = t.pinned.allocate_sync(1024);
        sim_copy(t.a, h, t.d, 1024);
        sim_write_value(t.a, t.flag, 1);
        sim_launch(t.b, {.name = "longer", .duration = 5ms});
        t.b.synchronize(); // the copy is also complete then, but not ordered before this thread
        bool hit = false;
        {
            doubles::bombing armed{nth};
            sim_platform::mark_seen(t.flag);
            hit = armed.defuse();
        }
        hits += hit;
        sim_touch({h, 1024}, sim_access::read);
        CHECK(t.kinds().empty());
        CHECK(sink.count() == hit);
        CHECK(t.node.unchecked().orders == hit);
        t.a.synchronize();
        t.pinned.deallocate_sync(h, 1024);
        if (!hit) { break; }
    }
    CHECK(hits > 0);
}
