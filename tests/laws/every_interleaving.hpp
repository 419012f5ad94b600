// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `every_interleaving` runs two streams with six operations each in every possible order.

#include "../doubles/streams_at_work.hpp" // busy
#include "effort.hpp"                     // order_stride

#include <vram/base/out_of_memory.hpp> // out_of_memory
#include <vram/sim/sim.hpp>            // sim_node, sim_stream, sim_event

#include <doctest/doctest.h>

#include <array>    // array
#include <bit>      // popcount
#include <cstddef>  // size_t
#include <iterator> // size
#include <utility>  // pair, swap

namespace laws {

/// The next operation of a stream on its block. Without a block it does nothing.
enum class turn {
    take,      ///< allocates a block
    take_half, ///< allocates a block of half the size
    use,       ///< a kernel writes the whole block
    give,      ///< frees the block
    pass,      ///< hands the block to the other stream, behind an event
    receive,   ///< takes the block that the other stream handed over, if any
    settle,    ///< the host waits for the stream
};
using script = std::array<turn, 6>;

/// The operations of the two streams.
inline constexpr std::pair<script, script> scripts[] = {
    {{turn::take, turn::use, turn::give, turn::take, turn::use, turn::give},
     {turn::take, turn::use, turn::give, turn::take, turn::use, turn::give}},
    {{turn::take, turn::use, turn::give, turn::take_half, turn::use, turn::give},
     {turn::take_half, turn::use, turn::give, turn::take, turn::use, turn::give}},
    {{turn::take, turn::use, turn::pass, turn::take, turn::use, turn::give},
     {turn::receive, turn::use, turn::give, turn::take, turn::use, turn::give}},
    {{turn::take, turn::use, turn::pass, turn::receive, turn::use, turn::give},
     {turn::take_half, turn::use, turn::pass, turn::receive, turn::use, turn::give}},
    {{turn::take, turn::use, turn::give, turn::settle, turn::take_half, turn::use},
     {turn::take_half, turn::use, turn::give, turn::take, turn::use, turn::give}},
};

/// Two streams of the simulated device and their blocks. Virtual time advances only in a `settle`.
template <class R>
class two_streams {
public:
    /// The streams must outlive the resource.
    two_streams(R& mr, vram::sim_stream (&streams)[2], std::size_t bytes)
        : mr_{mr}, streams_{streams}, bytes_{bytes} {}

    void step(unsigned who, turn what) {
        vram::sim_stream_view const s    = streams_[who];
        block&                      mine = held_[who];
        switch (what) {
        case turn::take: return take(mine, s, bytes_);
        case turn::take_half: return take(mine, s, bytes_ / 2);
        case turn::settle: return vram::sim_platform::synchronize(s);
        case turn::receive:
            if (passed_[1 - who].p != nullptr) { events_[1 - who].wait(s); }
            return std::swap(mine, passed_[1 - who]);
        default: break;
        }
        if (mine.p == nullptr) { return; }
        if (what == turn::use) { return doubles::busy(s, mine.p, mine.bytes); }
        if (what == turn::pass) {
            events_[who].record(s);
            return std::swap(mine, passed_[who]);
        }
        mr_.deallocate(s, mine.p, mine.bytes);
        mine = {};
    }
    /// Frees the remaining blocks on their streams.
    void end() {
        for (unsigned who : {0U, 1U}) {
            step(who, turn::give);
            std::swap(held_[who], passed_[who]);
            step(who, turn::give);
        }
    }
    /// Returns true if a request was refused although no block was live.
    [[nodiscard]] bool refused_for_nothing() const noexcept { return refused_for_nothing_; }

private:
    struct block {
        void*       p     = nullptr;
        std::size_t bytes = 0;
    };

    void take(block& mine, vram::sim_stream_view s, std::size_t bytes) {
        try {
            mine = {mr_.allocate(s, bytes), bytes};
        } catch (vram::out_of_memory const&) {
            // The other stream has the block, or is handing it over.
            bool const out       = held_[0].p || held_[1].p || passed_[0].p || passed_[1].p;
            refused_for_nothing_ = refused_for_nothing_ || !out;
        }
    }

    R& mr_;
    vram::sim_stream (&streams_)[2];
    std::size_t     bytes_;
    vram::sim_event events_[2];
    block           held_[2]             = {};
    block           passed_[2]           = {};
    bool            refused_for_nothing_ = false;
};

/// `make()` creates a resource of the simulated platform with memory for fewer than two blocks of
/// `bytes`. All 924 orders of two times six operations are run for each pair of scripts, or a part
/// of them under sanitizers. The device's checker detects memory that is reused before its last use
/// is complete.
template <class Make>
void every_interleaving(Make make, std::size_t bytes) {
    std::size_t orders = 0, tried = 0, mistakes = 0;
    for (auto const& [first, second] : scripts) {
        for (unsigned order = 0; order < 1U << 12; ++order) {
            if (std::popcount(order) != 6 || ++orders % order_stride != 0) { continue; }
            ++tried;
            vram::sim_node node{{.capacity      = 8 * bytes,
                                 .compute_slots = 2,
                                 .on_report     = vram::sim_on_report::collect}};
            {
                vram::sim_stream streams[2];
                auto             mr = make();
                two_streams      both{mr, streams, bytes};
                unsigned         done[2] = {0, 0};
                for (unsigned step = 0; step < 12; ++step) {
                    unsigned const who = (order >> step) & 1;
                    both.step(who, (who == 0 ? first : second)[done[who]++]);
                }
                both.end();
                if (both.refused_for_nothing()) { ++mistakes; }
            }
            for (auto const& r : node.reports()) {
                if (++mistakes < 4) { MESSAGE("order ", order, ": ", r.text()); }
            }
            if (node.figures().used != 0) { ++mistakes; }
        }
    }
    CHECK(mistakes == 0);
    CHECK(orders == 924 * std::size(scripts));
    CHECK(tried == orders / order_stride);
}

} // namespace laws
