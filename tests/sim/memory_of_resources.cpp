// SPDX-License-Identifier: Apache-2.0
// The checker sees the blocks of each resource and each stack. Every program of this file is right
// or has one mistake.
#include <vram/sim/sim_platform.hpp>

#include "../doubles/mishaps.hpp"

#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>
#include <vram/sim/sim.hpp>

#include <cstddef>     // byte, size_t
#include <string>      // string
#include <string_view> // string_view
#include <vector>      // vector

#include <doctest/doctest.h>

using namespace vram;

namespace block_users {

using device = stream_ordered<sim_resource>;

constexpr std::size_t size = 1_KiB;

inline void uses(char const* name, sim_stream_view s, void const* p, std::size_t bytes = size) {
    sim_launch(s, {.name = name, .writes = {{p, bytes}}});
}
inline void follow(sim_stream_view later, sim_stream_view earlier) {
    sim_event e;
    e.record(earlier);
    e.wait(later);
}

/// The mistakes of `program(memory, s, t)` on a new node, with one name for each.
template <class Make, class Program>
std::vector<sim_mistake> mistakes(Make make, Program program) {
    sim_node                 node{{.capacity = 1_GiB, .on_report = sim_on_report::collect}};
    std::vector<sim_mistake> found;
    {
        auto       memory = make();
        sim_stream s, t;
        program(memory, s, t);
        sim_device{}.synchronize();
    }
    for (sim_report const& r : node.reports()) {
        found.push_back(r.kind);
        INFO(r.text());
        CHECK(r.block.bytes != 0); // each names the block
    }
    return found;
}

/// Runs a correct program and one for each mistake. `whole`: blocks are not next to each other.
template <class Make>
void check(std::string const& name, Make make, bool whole = false) {
    CAPTURE(name);
    using kinds = std::vector<sim_mistake>;
    kinds const none{};
    CHECK(mistakes(make, [](auto& m, auto& s, auto& t) {
              for (int round = 0; round < 3; ++round) {
                  void* const p = m.allocate(s, size);
                  void* const q = m.allocate(t, size);
                  uses("first", s, p);
                  uses("second", t, q);
                  follow(t, s);
                  uses("third", t, p);
                  follow(s, t);
                  m.deallocate(s, p, size);
                  m.deallocate(t, q, size);
                  void* const again = m.allocate(t, size / 2); // memory of s, perhaps
                  uses("fourth", t, again, size / 2);
                  m.deallocate(t, again, size / 2);
                  void* const sync = m.allocate_sync(size);
                  uses("fifth", s, sync);
                  uses("sixth", s, sync);
                  s.synchronize();
                  m.deallocate_sync(sync, size);
              }
          }) == none);
    CHECK(mistakes(make, [](auto& m, auto& s, auto&) {
              void* const p = m.allocate(s, size);
              uses("user", s, p);
              m.deallocate(s, p, size);
              uses("late", s, p);
          }) == kinds{sim_mistake::use_after_free});
    CHECK(mistakes(make, [](auto& m, auto& s, auto& t) {
              void* const p = m.allocate(s, size);
              follow(t, s);
              uses("user", t, p);
              m.deallocate(s, p, size);
          }) == kinds{sim_mistake::free_before_last_use});
    CHECK(mistakes(make, [](auto& m, auto& s, auto&) {
              void* const p = m.allocate(s, size);
              void* const q = m.allocate(s, size);
              uses("long", s, p < q ? p : q, size + 8);
              m.deallocate(s, p, size);
              m.deallocate(s, q, size);
          }) == kinds{sim_mistake::out_of_bounds});
    if (!whole) {
        CHECK(mistakes(make, [](auto& m, auto& s, auto&) {
                  auto* const p = static_cast<std::byte*>(m.allocate(s, 64));
                  uses("beside", s, p + 64, 8);
                  m.deallocate(s, p, 64);
              }) == kinds{sim_mistake::out_of_bounds});
    }
    // Another pointer to freed memory that the stream gets again, in a smaller block.
    CHECK(mistakes(make, [](auto& m, auto& s, auto&) {
              void* const p = m.allocate(s, size);
              m.deallocate(s, p, size);
              void* const q = m.allocate(s, 64);
              uses("user", s, q, 64);
              uses("late", s, p);
              m.deallocate(s, q, 64);
          }).size() == 1);
}

} // namespace block_users

TEST_CASE("sim: blocks of each resource are checked") {
    using namespace block_users;
    check("stream_ordered", [] { return device{}; }, true);
    check("pool", [] { return pool<device>{}; });
    check("pool, eager", [] { return pool<device>{{.events = event_policy::eager}}; });
    check("slab", [] { return slab<device>{device{}, size}; });
    check("binned", [] { return binned<device>{}; });
    check("arena by stream", [] { return arena<device>{device{}, {.key = arena_key::stream}}; });
}

TEST_CASE("sim: blocks of each stack are checked") {
    using namespace block_users;
    check("arena over pool", [] { return arena<pool<device>>{}; });
    check("binned over pool", [] { return binned<pool<device>>{}; });
    check("stream_ordered over pool", [] { return stream_ordered<pool<sim_resource>>{}; });
    check("pool over virtual memory", [] { return pool<sim_virtual_resource>{}; });
    check("pool over stream-ordered memory", [] { return pool<sim_async_resource>{}; });
    check("pool over pool", [] { return pool<pool<device>>{}; });
    check("large blocks of binned",
          [] { return binned<pool<device>>{pool<device>{}, {.largest = 256}}; });
}

TEST_CASE("sim: blocks of monotonic are checked, also after they are unwound") {
    using namespace block_users;
    using kinds     = std::vector<sim_mistake>;
    auto const make = [] { return monotonic<device>{}; };
    CHECK(mistakes(make, [](auto& m, auto& s, auto& t) {
              for (int round = 0; round < 3; ++round) {
                  void* const p = m.allocate(s, size);
                  void* const q = m.allocate(t, size);
                  uses("first", s, p);
                  uses("second", t, q); // its own block: the unwinding needs no wait
                  m.deallocate(s, p, size);
                  m.reset(s);
              }
          }) == kinds{});
    CHECK(mistakes(make, [](auto& m, auto& s, auto&) {
              void* const p = m.allocate(s, size);
              m.reset(s);
              uses("late", s, p);
          }) == kinds{sim_mistake::use_after_free});
    CHECK(mistakes(make, [](auto& m, auto& s, auto& t) {
              void* const p = m.allocate(s, size);
              follow(t, s);
              uses("other", t, p);
              m.reset(s);
          }) == kinds{sim_mistake::free_before_last_use});
    CHECK(mistakes(make, [](auto& m, auto& s, auto&) {
              void* const p = m.allocate(s, size);
              void* const q = m.allocate(s, size);
              uses("long", s, p, size + 8);
              m.deallocate(s, q, size);
              m.deallocate(s, p, size);
          }) == kinds{sim_mistake::out_of_bounds});
}

TEST_CASE("sim: the event of a pool hides no mistake of the program") {
    using namespace block_users;
    sim_node node{{.on_report = sim_on_report::collect}};
    {
        sim_resource d;
        void* const  x = d.allocate_sync(size);
        {
            pool<device> m{{.initial_size = 1_MiB, .max_size = 1_MiB}};
            sim_stream   s, t;
            void* const  p = m.allocate(s, 1_MiB);
            m.deallocate(s, p, 1_MiB);
            uses("writer", s, x);
            void* const q = m.allocate(t, 1_MiB); // t waits for s, in the pool
            uses("user", t, q, 1_MiB);
            CHECK(node.reports().empty());
            uses("reader", t, x);
            m.deallocate(t, q, 1_MiB);
            sim_device{}.synchronize();
        }
        d.deallocate_sync(x, size);
    }
    REQUIRE(node.reports().size() == 1);
    CHECK(node.reports().front().kind == sim_mistake::race);
}

TEST_CASE("sim: the lock of a pool orders no accesses of two threads") {
    using namespace block_users;
    sim_node            node{{.on_report = sim_on_report::collect}};
    sim_pinned_resource pinned;
    void* const         shared_block = pinned.allocate_sync(size);
    {
        pool<device> m;
        auto const   work = [&] {
            sim_stream  s;
            void* const p = m.allocate(s, size);
            m.deallocate(s, p, size);
            sim_touch({shared_block, size}, sim_access::write);
            m.deallocate(s, m.allocate(s, size), size);
        };
        sim_thread one{sim_device{}, work}, two{sim_device{}, work};
        sim_thread::join_together(one, two);
    }
    if (sim_ordered_threads) {
        REQUIRE(node.reports().size() == 1);
        CHECK(node.reports().front().kind == sim_mistake::race);
    }
    pinned.deallocate_sync(shared_block, size);
}

TEST_CASE("sim: the report of a double free names the block and its first free") {
    using namespace block_users;
    sim_node const         node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const sink;
    {
        pool<device> m;
        sim_stream   s;
        void* const  p = m.allocate(s, size);
        m.deallocate(s, p, size);
        m.deallocate(s, p, size);
    }
    REQUIRE(node.reports().size() == 1);
    sim_report const r = node.reports().front();
    CHECK(r.kind == sim_mistake::double_free);
    CHECK(r.block.bytes == size);
    CHECK(r.first.where.line() + 1 == r.second.where.line());
    CHECK(std::string_view{r.block.resource} == "pool");
}

TEST_CASE("sim: memory that a captured graph allocates from a pool is accessible in each launch") {
    using namespace block_users;
    sim_node node{{.on_report = sim_on_report::collect}};
    {
        pool<device> m{{.graphs = true}};
        sim_stream   s;
        sim_graph::begin(s);
        void* const p = m.allocate(s, size);
        uses("node", s, p);
        m.deallocate(s, p, size);
        sim_graph graph = sim_graph::end(s);
        graph.launch(s);
        graph.launch(s);
        s.synchronize();
        m.forget_captures();
    }
    for (sim_report const& r : node.reports()) { MESSAGE(r.text()); }
    CHECK(node.reports().empty());
}

TEST_CASE(
    "sim: after work on the legacy stream, blocking streams may use a block allocated there") {
    sim_node node{{.on_report = sim_on_report::collect}};
    {
        pool<stream_ordered<sim_resource>> memory;
        sim_stream const                   s{sim_device{}, {.blocking = true}};
        auto const                         legacy = sim_stream_view::legacy(sim_device{});
        sim_launch(s, {});
        void* const p = memory.allocate(legacy, block_users::size);
        sim_launch(legacy, {}); // blocking streams follow it, but not an allocation of a pool
        block_users::uses("on a blocking stream", s, p);
        memory.deallocate(legacy, p, block_users::size);
    }
    CHECK(node.take_reports().empty());
}
