// SPDX-License-Identifier: Apache-2.0
#include <vram/history/history.hpp> // first: the header stands alone

#include "../doubles/contracts_throw.hpp"
#include "recorded.hpp"

#include <vram/base/tag.hpp>
#include <vram/history/history_columns.hpp>
#include <vram/history/read_history.hpp>
#include <vram/layer/fallback.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace vram;
using kind = memory_event_kind;

static_assert(observer<history, sim_stream_view>);

namespace {
std::size_t events_of_kind(history_record const& from, kind k) {
    return static_cast<std::size_t>(
        std::count_if(from.events.begin(), from.events.end(),
                      [&](history_record::event const& e) { return e.kind == k; }));
}
} // namespace

TEST_CASE("history: an event has its size, stream, tag, line and resource") {
    sim_node const node;
    sim_stream     s;
    history        log;
    pool           memory{observed{stream_ordered{sim_resource{}}, std::ref(log)}};
    auto const     line = static_cast<unsigned>(__LINE__) + 3;
    {
        tagged const scope{"cache"};
        void* const  p = memory.allocate(s, 1000);
        memory.deallocate_sync(p, 1000);
    }
    auto const record = log.record();
    REQUIRE(record.events.size() == 3);
    CHECK(record.events[0].kind == kind::chunk_added);
    history_record::event const& made = record.events[1];
    CHECK(made.kind == kind::allocated);
    CHECK(made.bytes == 1000);
    CHECK(made.has_stream);
    CHECK(made.stream == s.id());
    CHECK(record.tags[made.tag] == "cache");
    CHECK(record.sites[made.site].line == line);
    CHECK(record.sites[made.site].file.ends_with("history.cpp"));
    CHECK(record.resources[made.resource].name == "pool");
    history_record::event const& freed = record.events[2];
    CHECK(freed.kind == kind::freed);
    CHECK(!freed.has_stream);
    CHECK(freed.memory == made.memory);
    CHECK(freed.time >= made.time);
    CHECK(made.time > std::int64_t{1'500'000'000} * 1'000'000'000); // since 1970
    REQUIRE(record.chunks.size() == 1);
    CHECK(record.chunks[0].bytes == record.events[0].bytes);
    CHECK(log.events() == 3);
    CHECK(log.overwritten() == 0);
}

TEST_CASE("history: the number of the device is at most 4095, which each file can have") {
    recorded_history::file_name const file{"device"};
    history{{.device = 4095}}.write(file.path(), history_columns);
    CHECK(read_history(file.path()).device == 4095);
    doubles::contracts_throw const throws;
    try {
        history const refused{{.device = 4096}};
        FAIL("a larger number is refused");
    } catch (doubles::broken_contract const& b) {
        CHECK(b.what == "history: `device` must be at most 4095");
    }
}

TEST_CASE("history: an observer that was moved from is still one") {
    static_assert(std::is_nothrow_move_constructible_v<history> &&
                  std::is_nothrow_move_assignable_v<history>);
    history                             log, other;
    history const                       first{std::move(log)};
    memory_event<sim_stream_view> const e{};
    log.observe(e);
    CHECK(log.events() == 1);
    CHECK(first.events() == 1);
    log = std::move(other);
    other.observe(e);
    CHECK(log.events() == 1);
    sim_node const   node{};
    sim_stream       s;
    pool             memory{observed{stream_ordered{sim_resource{}}, history{}}};
    decltype(memory) moved{std::move(memory)};
    memory.upstream().mark("late");
    CHECK(moved.observer().events() == 1);
}

TEST_CASE("history: copies in two upstreams store each event of a resource over both once") {
    sim_node const node;
    sim_stream     s;
    history        log, other;
    auto const     by = [](history to) { return observed{stream_ordered{sim_resource{}}, to}; };
    {
        pool memory{fallback{fallback{by(log), by(other)}, by(log)}};
        memory.deallocate(s, memory.allocate(s, 1000), 1000);
    }
    for (history const& each : {log, other}) {
        auto const record = each.record();
        CHECK(events_of_kind(record, kind::allocated) == 1);
        CHECK(events_of_kind(record, kind::freed) == 1);
        CHECK(record.chunks.empty());
    }
    CHECK(log.shares_with(history{log}));
    CHECK_FALSE(log.shares_with(other));
}

TEST_CASE("history: the last events are kept, and the others are counted") {
    sim_node const node;
    sim_stream     s;
    for (std::size_t const kept : {1U, 64U, 1000U}) {
        history log{{.events = kept}};
        pool    memory{observed{stream_ordered{sim_resource{}}, std::ref(log)}};
        for (std::size_t i = 1; i != 3001; ++i) { memory.deallocate(s, memory.allocate(s, i), i); }
        auto const record = log.record();
        CHECK(log.events() == 6001);
        CHECK(record.events.size() >= kept);
        CHECK(record.events.size() < kept + 20'000);
        CHECK(record.events.size() + record.overwritten == 6001);
        CHECK((record.overwritten > 0) == (kept < 1000 || record.events.size() < 6001));
        for (std::size_t i = 0; i != std::min(kept, record.events.size()); ++i) {
            history_record::event const& e = record.events[record.events.size() - 1 - i];
            CHECK(e.bytes == 3000 - i / 2);
        }
        CHECK(record.chunks.size() == 1); // older than the events
    }
}

TEST_CASE("history: a number of events that no memory holds is an error of the constructor") {
    std::size_t const most = ~std::size_t{0};
    for (std::size_t const events : {most, most - 300, most / 64 + 1}) {
        CHECK_THROWS_AS(history{history_options{.events = events}}, std::bad_alloc);
    }
}

TEST_CASE("history: memory is bounded however many events occur") {
    sim_node const node;
    sim_stream     s;
    history        log{{.events = 256}};
    pool           memory{observed{stream_ordered{sim_resource{}}, std::ref(log)}};
    for (std::size_t i = 1; i != 20'001; ++i) { memory.deallocate(s, memory.allocate(s, i), i); }
    CHECK(log.record().events.size() < 2000);
    CHECK(log.overwritten() > 38'000);
}

TEST_CASE("history: threads write at the same time as a record is made") {
    sim_node const           node;
    history                  log{{.events = 4096}};
    std::size_t const        pairs = 3000;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t != 4; ++t) {
        threads.emplace_back([&] {
            sim_stream s;
            pool       memory{observed{stream_ordered{sim_resource{}}, std::ref(log)}};
            for (std::size_t i = 1; i <= pairs; ++i) {
                memory.deallocate(s, memory.allocate(s, i), i);
            }
        });
    }
    for (int i = 0; i != 20; ++i) {
        auto const record = log.record();
        CHECK(std::is_sorted(record.events.begin(), record.events.end(),
                             [](auto const& a, auto const& b) { return a.time < b.time; }));
        for (history_record::event const& e : record.events) {
            if (e.kind > kind::freed) { continue; }
            if (e.bytes == 0 || e.bytes > pairs) { FAIL("a torn event"); }
        }
    }
    for (std::thread& each : threads) { each.join(); }
    auto const record = log.record();
    CHECK(record.events.size() + record.overwritten == log.events());
    CHECK(log.events() == 4 * (2 * pairs + 2)); // and a chunk added and removed
    CHECK(record.chunks.empty());
    CHECK(events_of_kind(record, kind::chunk_removed) == 4);
}

TEST_CASE("history: events that are overwritten while a record is made are counted") {
    history           log{{.events = 4096}};
    std::atomic<bool> ends{false};
    std::thread       writer{[&] {
        memory_event<sim_stream_view> e{.kind = kind::allocated, .name = "pool", .bytes = 1};
        while (!ends.load()) { log.observe(e); }
    }};
    for (int i = 0; i != 200; ++i) {
        std::uint64_t const  before = log.events();
        history_record const record = log.record();
        CHECK(record.events.size() + record.overwritten >= before);
    }
    ends.store(true);
    writer.join();
    history_record const record = log.record();
    CHECK(record.events.size() + record.overwritten == log.events());
}

TEST_CASE("history: an event is complete, however many threads run") {
    // A thread with a number of at least 64 stores its events in another way.
    sim_node const           node;
    sim_stream               s;
    history                  log;
    std::atomic<unsigned>    running{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i != 70; ++i) {
        threads.emplace_back([&, i] {
            memory_event<sim_stream_view> e{};
            e.kind   = i % 2 == 0 ? kind::allocated : kind::marked;
            e.name   = "a name";
            e.memory = &running;
            e.bytes  = i;
            e.stream.emplace(s);
            e.at = call_site::current();
            static_cast<void>(vram::detail::thread_number());
            ++running;
            while (running.load() != 70) { std::this_thread::yield(); }
            log.observe(e);
        });
    }
    for (std::thread& each : threads) { each.join(); }
    auto const record = log.record();
    REQUIRE(record.events.size() == 70);
    std::size_t bytes = 0, numbers = 0;
    for (history_record::event const& each : record.events) {
        CHECK(each.kind == (each.bytes % 2 == 0 ? kind::allocated : kind::marked));
        CHECK(each.memory == reinterpret_cast<std::uintptr_t>(&running));
        CHECK(each.stream == s.id());
        CHECK(record.resources[each.resource].name == "a name");
        CHECK(record.sites[each.site].file.ends_with("history.cpp"));
        bytes += each.bytes;
        numbers += each.thread >= 64 ? 1 : 0;
    }
    CHECK(bytes == 69 * 70 / 2);
    CHECK(numbers >= 6);
}

TEST_CASE("history: many threads one after the other use few pages") {
    history log{{.events = 64}};
    for (int i = 0; i != 300; ++i) {
        std::thread{[&] {
            log.observe(memory_event<sim_stream_view>{.kind = kind::marked, .name = "thread"});
        }}.join();
    }
    CHECK(log.events() == 300);
    CHECK(log.record().events.size() >= 64);
}

TEST_CASE("history: a file that cannot be written is an error, and leaves nothing") {
    history const log;
    CHECK_THROWS_AS(log.write("/no/such/folder/run.vram", history_columns), file_error);
    recorded_history::file_name const file{"history"};
    log.write(file.path(), history_columns);
    CHECK(file.exists());
    CHECK_FALSE(std::filesystem::exists(file.path() + ".part"));
    CHECK_THROWS_AS(log.write(file.path(),
                              [](history_record const&, detail::byte_file& to) {
                                  to << "half";
                                  throw file_error{file_error::reason::damaged, "x"};
                              }),
                    file_error);
    CHECK(file.contents() != "half"); // the file from before
    CHECK_FALSE(std::filesystem::exists(file.path() + ".part"));
}
