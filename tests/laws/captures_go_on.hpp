// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `captures_go_on` requires that no operation of a pool breaks a capture.

#include "../doubles/mishaps.hpp" // mishaps

#include <vram/base/bytes.hpp>        // literals
#include <vram/pool/event_policy.hpp> // event_policy
#include <vram/sim/sim.hpp>           // sim_node, sim_graph

#include <doctest/doctest.h>

#include <cstddef> // size_t, byte
#include <vector>  // vector

namespace laws {

/// Checks one capture: `begin(stream)` begins it, and `end(stream)` returns true if it ended
/// without error. `make()` creates a pool that grows and has a limit of 8 MiB. A third stream has
/// freed a block that it may still use. Another stream allocates that block, the captured stream
/// allocates until the pool has to grow, and the other stream allocates the rest.
template <class Begin, class End, class Make>
void a_capture_goes_on(Begin begin, End end, Make make) {
    using namespace vram;
    using platform                      = typename decltype(make())::platform;
    constexpr auto                bytes = 1_MiB;
    doubles::mishaps const        told;
    typename platform::own_stream captured, giver, taker;
    auto                          mr    = make();
    void* const                   freed = mr.allocate(giver, bytes);
    platform::fill(giver, freed, std::byte{1}, bytes);
    mr.deallocate(giver, freed, bytes);
    std::vector<void*> kept, taken;

    begin(captured);
    taken.push_back(mr.allocate(taker, bytes));
    std::size_t const held = mr.usage().reserved;
    do { kept.push_back(mr.allocate(captured, bytes)); } while (mr.usage().reserved == held);
    while (void* const p = mr.try_allocate(taker, bytes)) { taken.push_back(p); }
    CHECK(kept.size() + taken.size() == 8); // if not 8, the freed memory is unavailable to both
    CHECK(end(captured));

    for (void* const p : kept) { mr.deallocate(captured, p, bytes); }
    for (void* const p : taken) { mr.deallocate(taker, p, bytes); }
    CHECK(told.count() == 0);
}

/// Checks every mode of a simulated capture, for a pool that `make(events, graphs)` creates.
template <class Make>
void captures_go_on(Make make) {
    using namespace vram;
    for (auto const mode : {sim_capture_mode::global, sim_capture_mode::thread_local_only,
                            sim_capture_mode::relaxed}) {
        for (auto const events : {event_policy::lazy, event_policy::eager}) {
            for (bool const graphs : {false, true}) {
                sim_node node{{.on_report = sim_on_report::collect}};
                a_capture_goes_on([&](sim_stream_view s) { sim_graph::begin(s, mode); },
                                  [](sim_stream_view s) { return sim_graph::end(s).size() == 0; },
                                  [&] { return make(events, graphs); });
                CHECK(node.reports().empty());
            }
        }
    }
}

} // namespace laws
