// SPDX-License-Identifier: Apache-2.0
#include <vram/history/core/history_state.hpp> // first: the header stands alone

#include <vram/concepts/observer.hpp>
#include <vram/history/history.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <thread>

using namespace vram;
using kind = memory_event_kind;

namespace {
void chunk(history& log, kind k, std::uintptr_t memory, std::size_t bytes) {
    log.observe(memory_event<sim_stream_view>{.kind     = k,
                                              .name     = "pool",
                                              .resource = &log,
                                              .memory   = reinterpret_cast<void*>(memory),
                                              .bytes    = bytes});
}
} // namespace

TEST_CASE("history_state: a record has the chunks at its end, with parts that grew as one") {
    history log;
    chunk(log, kind::chunk_added, 0x1000, 0x1000);
    chunk(log, kind::chunk_added, 0x2000, 0x1000);
    CHECK(log.record().chunks.size() == 2); // adjacent by chance
    chunk(log, kind::pages_mapped, 0x2000, 0x1000);
    auto const record = log.record();
    REQUIRE(record.chunks.size() == 1);
    CHECK(record.chunks[0].bytes == 0x2000);
    CHECK(record.chunks[0].grows);
    chunk(log, kind::chunk_removed, 0x1000, 0x2000); // both at once
    CHECK(log.record().chunks.empty());
}

TEST_CASE("history_state: events of an idle thread before overwritten ones are not in a record") {
    constexpr std::uint64_t calls = 5000;
    history                 log{{.events = 32}};
    std::thread{[&] { chunk(log, kind::allocated, 0x99000, 1); }}.join();
    for (std::uint64_t i = 0; i != calls / 2; ++i) {
        chunk(log, kind::allocated, 0x1000, i);
        chunk(log, kind::freed, 0x1000, i);
    }
    auto const record = log.record();
    CHECK(record.events.size() >= 32);
    CHECK(record.events.size() + record.overwritten == calls + 1);
    bool phantom = false;
    for (auto const& e : record.events) { phantom |= e.memory == 0x99000; }
    CHECK_FALSE(phantom);
}

TEST_CASE("history_state: a line of the program is a word") {
    using w               = detail::history_words;
    call_site const here  = call_site::current();
    call_site const again = w::line(w::pack(here));
    CHECK(again.line() == here.line());
    CHECK_FALSE(w::line(w::pack(call_site{})).known());
}
