// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_stream.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include "../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <set>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

TEST_CASE("sim_stream: a destroyed stream's work still runs") {
    sim_node node;
    bool     ran = false;
    {
        sim_stream const s;
        sim_launch(s, {.duration = 5us}, [&] { ran = true; });
    }
    CHECK_FALSE(ran);
    sim_device{}.synchronize(); // the device waits for it too
    CHECK(ran);
    CHECK(node.now() == 5us);
}

TEST_CASE("sim_stream: the handle of a destroyed stream is reused at once, and its id never") {
    sim_node                node;
    std::set<std::uint64_t> ids;
    sim_stream_state*       handle = nullptr;
    for (int i = 0; i < 10; ++i) {
        sim_stream const s;
        if (i > 0) { CHECK(s.view().get() == handle); }
        handle = s.view().get();
        ids.insert(s.id());
    }
    CHECK(ids.size() == 10);
}

TEST_CASE("sim_stream: work on a destroyed stream, and a wait for it, are refused") {
    sim_node                  node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const    told;
    sim_resource              mr;
    sim_async_resource        async;
    void* const               p = mr.allocate_sync(64);
    void* const               q = async.allocate_sync(64);
    sim_event                 e;
    std::optional<sim_stream> s{std::in_place};
    sim_stream_view const     dead = s->view();
    e.record(*s);
    s.reset();
    auto const refused = [](auto call) {
        try {
            call();
            FAIL("a call of a stream that is not there");
        } catch (sim_error const& error) { CHECK(error.status() == sim_status::invalid_handle); }
    };
    refused([&] { (void)dead.id(); });
    refused([&] { (void)dead.done(); });
    refused([&] { dead.synchronize(); });
    refused([&] { e.record(dead); });
    refused([&] { e.wait(dead); });
    refused([&] { sim_launch(dead, {}); });
    refused([&] { sim_fill(dead, p, std::byte{1}, 64); });
    refused([&] { sim_copy(dead, p, q, 64); });
    refused([&] { (void)async.allocate(dead, 64); });
    CHECK(told.count() == 0);
    async.deallocate(dead, q, 64); // the block outlives its raw stream and is freed anyway
    CHECK(told.count() == 1);      // dead_stream
    CHECK(async.usage().live == 0);
    mr.deallocate_sync(p, 64);
    node.finish();
    CHECK(node.reports().empty());
}

TEST_CASE(
    "sim_stream: a new stream with a reused handle is not ordered after the old stream's work") {
    sim_node     node{{.on_report = sim_on_report::collect}};
    sim_resource mr;
    void* const  p = mr.allocate_sync(8);
    {
        sim_stream const s;
        sim_launch(s, {.writes = {{p, 8}}});
    }
    sim_stream const s;
    sim_launch(s, {.writes = {{p, 8}}});
    CHECK(node.reports().size() == 1);
    sim_device{}.synchronize();
    mr.deallocate_sync(p, 8);
}

TEST_CASE("sim_stream: a move transfers the stream, and an assignment swaps") {
    sim_node   node;
    sim_stream a, b;
    auto const id_a = a.id(), id_b = b.id();
    a = std::move(b);
    CHECK(a.id() == id_b);
    sim_stream const c{std::move(a)};
    CHECK(c.id() == id_b);
    CHECK(b.id() == id_a);
}

TEST_CASE("sim_stream: many short-lived streams leave little state behind") {
    sim_node node;
    for (int i = 0; i < 10000; ++i) {
        sim_stream const s;
        sim_event        e;
        e.record(s);
        e.synchronize();
    }
    vector_clock other;
    CHECK(node.machine().checker.actor(other) < 20); // components of the vector clocks are reused
}
