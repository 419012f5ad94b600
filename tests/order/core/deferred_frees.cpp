// SPDX-License-Identifier: Apache-2.0
#include <vram/order/core/deferred_frees.hpp> // first: the header stands alone

#include <vram/base/call_site.hpp>
#include <vram/base/core/worker.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include "../../doubles/archetype.hpp"
#include "../../doubles/at.hpp"
#include "../../doubles/bombing.hpp"
#include "../../doubles/mishaps.hpp"
#include "../../doubles/streams_at_work.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>

using namespace vram;
using namespace vram::detail;
using doubles::at;
using namespace std::chrono_literals;

template class vram::detail::deferred_frees<sim_platform>;
template class vram::detail::deferred_frees<host_platform>;

namespace {

using result = deferred_frees<sim_platform>::result;

/// Hands `bytes` out at `address`.
template <class Books>
void hand_out(Books& books, std::uintptr_t address, std::size_t bytes) {
    typename Books::reservation asked{books, bytes};
    CHECK(asked.keep(at(address)) == at(address));
}

} // namespace

TEST_CASE("deferred_frees: an unused reservation leaves no trace") {
    deferred_frees<host_platform> books{1, 0};
    { deferred_frees<host_platform>::reservation const asked{books, 100}; }
    CHECK(books.usage() == memory_usage{});
    bool threw = false;
    {
        doubles::bombing armed{1};
        try {
            // the link is there from the first reservation, so a second one needs another
            deferred_frees<host_platform>::reservation const one{books, 100};
            deferred_frees<host_platform>::reservation const two{books, 100};
        } catch (std::bad_alloc const&) { threw = true; }
    }
    CHECK(threw);
    CHECK(books.usage() == memory_usage{});
}

TEST_CASE(
    "deferred_frees: a freed block waits, and is returned after its stream is past the free") {
    sim_node                     node;
    deferred_frees<sim_platform> books{1, 0};
    sim_stream                   s;
    std::size_t                  given = 0;
    auto const give = [&](void*, std::size_t bytes, std::size_t, call_site) { given += bytes; };
    hand_out(books, 256, 100);
    sim_launch(s, {.duration = 1ms});
    CHECK(books.take(s, at(256), 100, 256) == result::kept);
    books.collect(give);
    CHECK(given == 0);
    CHECK(books.usage().pending == 100);
    s.synchronize();
    books.collect(give);
    CHECK(given == 100);
    CHECK(books.usage().pending == 0);
    CHECK(books.usage().upstream == 2);
}

TEST_CASE("deferred_frees: memory is made free by waiting, until there is nothing to wait for") {
    sim_node                                  node;
    deferred_frees<sim_platform>              books{1, 0};
    sim_stream                                s;
    std::size_t                               given = 0;
    deferred_frees<sim_platform>::reservation asked{books, 50};
    auto const give = [&](void*, std::size_t bytes, std::size_t, call_site) { given += bytes; };
    for (std::uintptr_t i = 1; i <= 3; ++i) {
        hand_out(books, i * 256, 100);
        sim_launch(s, {.duration = 1ms});
        CHECK(books.take(s, at(i * 256), 100, 256) == result::kept);
    }
    for (std::size_t i = 1; i <= 3; ++i) {
        CHECK(asked.make_room(give));
        CHECK(given == i * 100);
        CHECK(books.usage().waits == i);
    }
    CHECK_FALSE(asked.make_room(give));
    CHECK(books.usage().waits == 3);
}

TEST_CASE(
    "deferred_frees: a free without host memory for its event is due, and nothing is reported") {
    doubles::mishaps              told;
    deferred_frees<host_platform> books{1, 0};
    hand_out(books, 256, 100);
    using host_result = deferred_frees<host_platform>::result;
    auto became       = host_result::foreign;
    {
        doubles::bombing armed{1};
        became = books.take({}, at(256), 100, 256);
    }
    CHECK(became == host_result::due);
    CHECK(told.count() == 0);
    CHECK(books.usage().live == 0);
    CHECK(books.usage().pending == 0);
}

TEST_CASE(
    "deferred_frees: a block that is freed in a capture waits until the graphs are forgotten") {
    sim_node                     node;
    deferred_frees<sim_platform> books{1, 0};
    sim_stream                   s;
    std::size_t                  given = 0;
    auto const give = [&](void*, std::size_t bytes, std::size_t, call_site) { given += bytes; };
    hand_out(books, 256, 100);
    sim_graph::begin(s);
    CHECK(books.take(s, at(256), 100, 256) == result::kept);
    auto const graph = sim_graph::end(s);
    books.collect_all(give);
    CHECK(given == 0);
    CHECK(books.usage().pending == 100);
    CHECK(books.usage().events == 0);
    doubles::keep_busy(s, 5ms); // the last launch
    books.release_captured(give, sim_resource{});
    CHECK(node.now() == 5ms);
    CHECK(books.usage().waits == 1);
    CHECK(given == 100);
    books.release_captured(give, sim_resource{}); // nothing is kept
    CHECK(books.usage().waits == 1);
    CHECK(books.usage().pending == 0);
}

TEST_CASE("deferred_frees: a failed wait for a graph is thrown, and the block is kept") {
    sim_node                     node{{.on_report = sim_on_report::collect}};
    deferred_frees<sim_platform> books{1, 0};
    sim_stream                   s;
    std::size_t                  given = 0;
    auto const give = [&](void*, std::size_t bytes, std::size_t, call_site) { given += bytes; };
    hand_out(books, 256, 100);
    sim_graph::begin(s);
    CHECK(books.take(s, at(256), 100, 256) == result::kept);
    (void)sim_graph::end(s);
    node.faults().at(sim_call_kind::synchronize, 1);
    CHECK_THROWS_AS(books.release_captured(give, sim_resource{}), sim_error);
    CHECK(given == 0);
    CHECK(books.usage().pending == 100);
    CHECK(books.usage().waits == 0);
    books.release_captured(give, sim_resource{});
    CHECK(given == 100);
}

TEST_CASE("deferred_frees: a block that is found unused by a query is not waited for") {
    sim_node                     node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const       told;
    deferred_frees<sim_platform> books{2, 0};
    sim_stream                   s;
    std::size_t                  given = 0;
    auto const give = [&](void*, std::size_t bytes, std::size_t, call_site) { given += bytes; };
    hand_out(books, 256, 100);
    CHECK(books.take(s, at(256), 100, 256) == result::kept); // without an event
    auto const before = host_waits_made;
    node.faults().at(sim_call_kind::record, 1); // the next event, but not the one after it
    deferred_frees<sim_platform>::reservation asked{books, 100};
    CHECK(asked.make_room(give));
    CHECK(told.count() == 1);
    CHECK(given == 100);
    CHECK(books.usage().waits == 0);
    CHECK(host_waits_made == before);
}

TEST_CASE("deferred_frees: a thread about to be refused waits for blocks that another thread is "
          "returning") {
    deferred_frees<host_platform> books{1, 0};
    std::atomic<bool>             giving = false;
    std::atomic<bool>             given  = false;
    hand_out(books, 256, 100);
    CHECK(books.take({}, at(256), 100, 256) == deferred_frees<host_platform>::result::kept);
    deferred_frees<host_platform>::reservation asked{books, 50};
    bool                                       room = false;
    {
        worker const slow{0, [&] {
                              books.collect([&](void*, std::size_t, std::size_t, call_site) {
                                  giving = true;
                                  std::this_thread::sleep_for(20ms);
                                  given = true;
                              });
                          }};
        while (!giving) { std::this_thread::yield(); }
        room = asked.make_room([](void*, std::size_t, std::size_t, call_site) {});
        CHECK(given);
    }
    CHECK(room);
}

TEST_CASE("deferred_frees: a moved-from queue is empty") {
    sim_node                     node;
    deferred_frees<sim_platform> first{1, 0}, second{4, 1000};
    sim_stream                   s;
    std::size_t                  given = 0;
    auto const give = [&](void*, std::size_t bytes, std::size_t, call_site) { given += bytes; };
    hand_out(first, 256, 100);
    hand_out(first, 512, 10);
    CHECK(first.take(s, at(512), 10, 256) == result::kept);
    memory_usage const                 was = first.usage();
    deferred_frees<sim_platform> const third{std::move(first)};
    CHECK(third.usage() == was);
    CHECK(first.usage() == memory_usage{});
    CHECK(first.collect_all(give) == 0);

    hand_out(first, 768, 1); // and they can be used again
    CHECK(first.take(s, at(768), 1, 256) == result::kept);
    CHECK(first.usage().live == 0);
    CHECK(first.collect_all(give) == 1);
    hand_out(first, 768, 1);

    memory_usage const now = first.usage();
    second                 = std::move(first);
    CHECK(second.usage() == now);
    CHECK(first.usage() == memory_usage{});
    CHECK(second.take(s, at(768), 1, 256) == result::kept);
    CHECK(second.usage().events == now.events + 1);
    second.collect(give); // one block has an event of its own, and is enough, as in the first
    CHECK(given == 2);
}

TEST_CASE("deferred_frees: a move also takes due and graph-retained blocks") {
    sim_node                     node;
    deferred_frees<sim_platform> first{1, 1000};
    sim_stream                   s;
    std::size_t                  given = 0;
    auto const give = [&](void*, std::size_t bytes, std::size_t, call_site) { given += bytes; };
    hand_out(first, 256, 100);
    hand_out(first, 512, 10);
    CHECK(first.take(s, at(256), 100, 256) == result::kept);
    first.collect(give); // it is done, and too little
    sim_graph::begin(s);
    CHECK(first.take(s, at(512), 10, 256) == result::kept);
    (void)sim_graph::end(s);
    CHECK(given == 0);
    auto second = std::move(first);
    CHECK(first.usage().pending == 0);
    CHECK(second.collect_all(give) == 100);
    second.release_captured(give, sim_resource{});
    CHECK(given == 110);
}

TEST_CASE("deferred_frees: a moved-from queue has no blocks, and reports a free") {
    sim_node                     node;
    doubles::mishaps             told;
    deferred_frees<sim_platform> first{1, 0};
    sim_stream                   s;
    hand_out(first, 256, 100);
    auto second = std::move(first);
    CHECK(first.take(s, at(256), 100, 256) == result::foreign);
    CHECK_FALSE(first.free_idle(at(256), 100));
    CHECK(told.count(error_kind::foreign_pointer) == 2);
    CHECK(told.under_a_lock() == 0);
    CHECK(second.free_idle(at(256), 100));
}

TEST_CASE("deferred_frees: blocks of completed streams are returned although another stream cannot "
          "be queried") {
    sim_node                     node{{.on_report = sim_on_report::collect}};
    deferred_frees<sim_platform> books{1, 0};
    sim_stream                   first, second;
    std::size_t                  given = 0;
    auto const give = [&](void*, std::size_t bytes, std::size_t, call_site) { given += bytes; };
    hand_out(books, 256, 100);
    hand_out(books, 512, 10);
    CHECK(books.take(first, at(256), 100, 256) == result::kept);
    CHECK(books.take(second, at(512), 10, 256) == result::kept);
    node.faults().at(sim_call_kind::query, 1, {}, 5); // it is recorded again, and asked again
    CHECK_THROWS_AS(books.collect(give), sim_error);
    CHECK(given == 10);
    CHECK(books.usage().pending == 100);
    books.collect(give);
    CHECK(given == 110);
}

TEST_CASE("deferred_frees: draining waits for uncovered blocks, and for nothing else") {
    sim_node                     node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
    doubles::mishaps             told;
    deferred_frees<sim_platform> books{4, 0};
    std::optional<sim_stream>    gone{doubles::raw_stream()};
    sim_stream                   s, busy;
    std::size_t                  given = 0;
    auto const give = [&](void*, std::size_t bytes, std::size_t, call_site) { given += bytes; };
    hand_out(books, 256, 100);
    hand_out(books, 512, 10);
    hand_out(books, 768, 1);
    sim_launch(*gone, {.duration = 1ms});
    CHECK(books.take(*gone, at(256), 100, 256) == result::kept);
    gone.reset();
    CHECK(books.collect_all(give) == 100);
    CHECK(node.now() >= 1ms);
    CHECK(told.count(error_kind::dead_stream) == 1);
    CHECK(books.usage().waits == 1);

    sim_launch(s, {.duration = 1ms});
    CHECK(books.take(s, at(512), 10, 256) == result::kept);
    sim_launch(busy, {.duration = 100ms});
    CHECK(books.take(busy, at(768), 1, 256) == result::kept);
    node.faults().at(sim_call_kind::record, 1); // of the first, when all are asked
    CHECK(books.collect_all(give) == 0);
    CHECK(node.now() < 50ms);
    CHECK(books.usage().waits == 1);
    CHECK(books.usage().pending == 11);
    s.synchronize();
    CHECK(books.collect_all(give) == 10);
    CHECK(node.now() < 50ms);
    CHECK(books.usage().pending == 1);
    CHECK(told.count(error_kind::platform_error) == 1);
    CHECK(told.under_a_lock() == 0);
}

TEST_CASE("deferred_frees: a free of a part of a block is reported and changes nothing") {
    doubles::mishaps                     told;
    stream_ordered<doubles::archetype<>> mr{doubles::archetype<>{}};
    void* const                          p = mr.allocate({}, 512);
    mr.deallocate({}, p, 256);
    mr.deallocate({}, static_cast<std::byte*>(p) + 256, 256); // one block more than were allocated
    CHECK(told.count(error_kind::foreign_pointer) == 1);
}
