// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `dead_streams` requires that a raw stream that died is reported, at the latest when it matters,
/// and that no memory is lost by it.

#include "../doubles/mishaps.hpp"         // mishaps
#include "../doubles/streams_at_work.hpp" // busy

#include <vram/base/bytes.hpp>        // literals
#include <vram/pool/event_policy.hpp> // event_policy
#include <vram/sim/sim.hpp>           // sim_node, sim_stream, sim_event

#include <doctest/doctest.h>

#include <cstddef>  // size_t
#include <optional> // optional

namespace laws {

/// `make(events)` creates a pool over the simulated device with memory for one block of `bytes`. A
/// stream is destroyed without `retire` while it uses the block, in three cases: after it freed the
/// block, before it frees the block, and if another, unknown stream used the block last.
template <class Make>
void dead_streams(Make make, std::size_t bytes = std::size_t{1} << 20) {
    using namespace vram;
    using doubles::busy;
    for (event_policy const events : {event_policy::lazy, event_policy::eager}) {
        for (int const how : {0, 1, 2}) {
            CAPTURE(events);
            CAPTURE(how);
            doubles::mishaps const    told;
            sim_node                  node{{.on_report = sim_on_report::collect}};
            auto                      mr = make(events);
            sim_stream                other;
            std::optional<sim_stream> s{doubles::raw_stream()};
            sim_stream_view const     dead = s->view();
            sim_stream_view const     user = how == 2 ? other.view() : dead;
            void*                     p    = mr.allocate(user, bytes);
            busy(user, p, bytes);
            if (how == 2) {
                sim_event place;
                place.record(other);
                place.wait(dead);
                busy(dead, p, bytes);
            }
            if (how == 0) { mr.deallocate(dead, p, bytes); }
            s.reset();
            if (how != 0) { mr.deallocate(dead, p, bytes); }
            CHECK(mr.usage().live == 0);
            p = mr.allocate(other, bytes);
            busy(other, p, bytes);
            mr.deallocate(other, p, bytes);
            // If an event covers the free already, the stream is not needed.
            CHECK((told.count() != 0) == (how != 0 || events == event_policy::lazy));
            try {
                (void)mr.allocate(dead, bytes);
                FAIL("memory for a stream that is dead");
            } catch (sim_error const& e) { CHECK(e.status() == sim_status::invalid_handle); }
            CHECK(mr.try_allocate(dead, bytes) == nullptr);
            CHECK(mr.usage().live == 0);
            other.synchronize();
            mr.trim();
            CHECK(mr.usage().reserved == 0);
            for (auto const& r : node.reports()) { MESSAGE(r.text()); }
            CHECK(node.reports().empty());
        }
    }
}

} // namespace laws
