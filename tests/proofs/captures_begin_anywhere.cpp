// SPDX-License-Identifier: Apache-2.0
// Captures that another thread begins between any two calls of the simulated device.
#include "../laws/captures_begin_anywhere.hpp"

#include "../doubles/page_modes.hpp"
#include "../doubles/resetting.hpp"

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

using namespace vram;

namespace {

/// A simulated node, which checks every access.
struct sim_world {
    using stream = sim_stream;
    using mode   = sim_capture_mode;

    static constexpr mode modes[] = {sim_capture_mode::thread_local_only, sim_capture_mode::global,
                                     sim_capture_mode::relaxed};
    static constexpr std::size_t much = 24_MiB;

    static void work(sim_stream_view s, void* p, std::size_t bytes) {
        // A part is enough for the order; touching all pages takes most of the time.
        sim_fill(s, p, std::byte{1}, bytes < 256 ? bytes : 256);
    }
    static void record(sim_stream_view s) {
        place.emplace();
        place->record(s);
    }
    static void wait(sim_stream_view s, sim_stream_view) { place->wait(s); }
    static void synchronize(sim_stream_view s) { s.synchronize(); }
    static void begin(sim_stream_view s, mode m) { sim_graph::begin(s, m); }
    static bool end(sim_stream_view s) {
        try {
            (void)sim_graph::end(s);
            return true;
        } catch (sim_error const&) { return false; }
    }
    static void before_call(std::uint64_t nth, std::function<void()> what) {
        sim_interrupt::before(nth, std::move(what));
    }
    static bool never_came() { return !sim_interrupt::end(); }

    sim_world() = default;
    ~sim_world() {
        place.reset();
        for (auto const& r : node.reports()) { MESSAGE(r.text()); }
        CHECK(node.reports().empty());
    }
    sim_world(sim_world&&) = delete;

    sim_node node{{.on_report = sim_on_report::collect}};

    static inline std::optional<sim_event> place;
};

template <class Make>
void captures_begin_anywhere(Make make) {
    for (auto const events : {event_policy::lazy, event_policy::eager}) {
        CAPTURE(static_cast<int>(events));
        laws::captures_begin_anywhere<sim_world>(
            [&] { return make(pool_options{.events = events, .graphs = true}); });
    }
}

using ordered = stream_ordered<sim_resource>;

} // namespace

TEST_CASE("every pool: another thread's capture may begin before any call, and stays valid") {
    SUBCASE("pool") {
        captures_begin_anywhere([](pool_options o) { return pool{ordered{}, o}; });
    }
    SUBCASE("pool over virtual memory") {
        for (doubles::page_mode const mode : doubles::page_modes) {
            captures_begin_anywhere([&](pool_options o) {
                return pool{sim_virtual_resource{{.handle_size = 2_MiB}},
                            doubles::in_mode(mode, o)};
            });
        }
    }
    SUBCASE("arena") {
        captures_begin_anywhere([](pool_options o) {
            return arena{pool{ordered{}, o}, {.count = 4, .events = o.events, .graphs = o.graphs}};
        });
    }
    SUBCASE("slab") {
        captures_begin_anywhere([](pool_options o) { return slab{ordered{}, 24_MiB, o}; });
    }
    SUBCASE("binned") {
        captures_begin_anywhere([](pool_options o) {
            return binned{ordered{}, {.largest = 128_KiB, .events = o.events, .graphs = o.graphs}};
        });
    }
    SUBCASE("monotonic") {
        captures_begin_anywhere(
            [](pool_options o) { return doubles::resetting{monotonic{ordered{}, o}}; });
    }
    SUBCASE("stream_ordered") {
        laws::captures_begin_anywhere<sim_world>(
            [] { return ordered{sim_resource{}, {.frees_per_event = 4}}; });
    }
}
