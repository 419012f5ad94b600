// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `every_interleaving` runs two streams with six operations each in every order that there is.

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

/// What a stream does next with the block that it has. Where there is none, nothing.
enum class turn {
    take,      ///< a block
    take_half, ///< a block of half the size
    use,       ///< a kernel writes all of it
    give,      ///< it goes back
    pass,      ///< it is the other stream's to take over, after an event
    receive,   ///< takes over what the other one passed, if it has
    settle,    ///< the host waits for the stream
};
using script = std::array<turn, 6>;

/// What the two streams do.
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

/// Two streams of the simulated device and what they have; time goes on there only where `settle`
/// waits for it.
template <class R>
class two_streams {
public:
    /// The streams end after the resource.
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
    /// What is left goes back where it is.
    void end() {
        for (unsigned who : {0U, 1U}) {
            step(who, turn::give);
            std::swap(held_[who], passed_[who]);
            step(who, turn::give);
        }
    }
    /// Whether there was no block though none was out.
    [[nodiscard]] bool refused_for_nothing() const noexcept { return refused_for_nothing_; }

private:
    struct block {
        void*       p     = nullptr;
        std::size_t bytes = 0;
    };

    void take(block& mine, vram::sim_stream_view s, std::size_t bytes) {
        try {
            mine = {mr_.allocate(s, bytes), bytes};
        } catch (vram::out_of_memory const&) { // the other one has it, or it is on its way
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

/// `make()` makes a resource of the simulated platform, which may have less than two blocks of
/// `bytes`. The orders are all 924 of two sixes, for each pair of scripts, or every tenth of them
/// where ThreadSanitizer watches, or every fourth where AddressSanitizer does. The device's checker sees whether memory changes hands before its
/// last use is over.
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
