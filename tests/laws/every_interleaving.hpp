// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `every_interleaving` runs two streams with six operations each in every order that there is.

#include "../doubles/streams_at_work.hpp" // busy

#include <vram/sim/sim.hpp> // sim_node, sim_stream

#include <doctest/doctest.h>

#include <bit>     // popcount
#include <cstddef> // size_t
#include <cstdint> // uint64_t

namespace laws {

/// `make()` returns a resource of the simulated platform. Each stream twice takes `bytes`, uses
/// them and gives them back (`give(mr, stream, p, bytes)`); the orders are all 924 of two sixes.
/// The device's checker sees whether memory changes hands before its last use is over.
template <class Make, class Give>
void every_interleaving(Make make, std::size_t bytes, Give give) {
    std::size_t orders = 0;
    for (unsigned order = 0; order < 1U << 12; ++order) {
        if (std::popcount(order) != 6) { continue; }
        ++orders;
        vram::sim_node node{{.compute_slots = 2, .on_report = vram::sim_on_report::collect}};
        {
            vram::sim_stream streams[2];
            auto             mr      = make();
            void*            held[2] = {nullptr, nullptr};
            unsigned         done[2] = {0, 0};
            for (unsigned step = 0; step < 12; ++step) {
                unsigned const              who = (order >> step) & 1;
                vram::sim_stream_view const s   = streams[who];
                switch (done[who]++ % 3) {
                case 0: held[who] = mr.allocate(s, bytes); break;
                case 1: doubles::busy(s, held[who], bytes); break;
                default: give(mr, s, held[who], bytes);
                }
            }
        }
        if (!node.reports().empty()) {
            MESSAGE(node.reports()[0].text());
            CAPTURE(order);
            CHECK(node.reports().empty());
        }
        CHECK(node.figures().used == 0);
    }
    CHECK(orders == 924);
}

} // namespace laws
