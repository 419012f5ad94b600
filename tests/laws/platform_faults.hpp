// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `survives_platform_faults` makes each platform call of a pool fail in turn.

#include "../doubles/mishaps.hpp"         // mishaps
#include "../doubles/streams_at_work.hpp" // busy
#include "effort.hpp"                     // of_many

#include <vram/pool/event_policy.hpp> // event_policy
#include <vram/sim/sim.hpp>           // sim_node, sim_faults

#include <doctest/doctest.h>

#include <cstddef>          // size_t
#include <cstdint>          // uint64_t
#include <exception>        // exception
#include <initializer_list> // initializer_list

namespace laws {

/// Two streams alternately allocate, use and free blocks of `sizes`. After a failure no block is
/// live.
template <class R>
void take_turns(R& mr, vram::sim_stream_view a, vram::sim_stream_view b,
                std::initializer_list<std::size_t> sizes) {
    for (int i = 0; i < 3; ++i) {
        unsigned turn = 0;
        for (std::size_t const bytes : sizes) {
            vram::sim_stream_view const s = ++turn % 4 < 2 ? a : b; // a, b, b, a
            try {
                void* const p = mr.allocate(s, bytes);
                doubles::busy(s, p, bytes);
                mr.deallocate(s, p, bytes);
            } catch (std::exception const&) {}
            CHECK(mr.usage().live == 0);
        }
    }
    std::size_t const last = *(sizes.end() - 1);
    try {
        mr.deallocate_sync(mr.allocate_sync(last), last);
    } catch (std::exception const&) {}
    CHECK(mr.usage().live == 0);
}

/// For each event policy, each kind of call and n = 1...8: `make(events)` creates a pool, and the
/// n-th call fails while `work(mr, a, b)` runs on two streams, which catches the exception. No
/// memory may be lost, and none reused or returned before its last use is complete, also at the
/// pool's end. The error sink, which reads the pool's usage, is called without locks.
template <class Make, class Work>
void survives_platform_faults(Make make, Work work) {
    using enum vram::sim_call_kind;
    for (auto const events : {vram::event_policy::lazy, vram::event_policy::eager}) {
        for (auto const failing : {allocate, create_event, record, wait, query, synchronize}) {
            for (std::uint64_t n = 1; n <= of_many(8); ++n) {
                CAPTURE(n);
                CAPTURE(static_cast<unsigned>(failing));
                doubles::mishaps told;
                vram::sim_node   node{{.on_report = vram::sim_on_report::collect}};
                vram::sim_stream a, b;
                {
                    auto mr = make(events);
                    node.faults().at(failing, n);
                    told.also = [&] { (void)mr.usage(); };
                    work(mr, a.view(), b.view());
                    told.also = nullptr;
                }
                CHECK(told.under_a_lock() == 0);
                node.faults().clear();
                // For frees that a driver's pool deferred.
                vram::sim_platform::synchronize(vram::sim_device{});
                CHECK(node.figures().used == 0);
                for (auto const& r : node.reports()) { MESSAGE(r.text()); }
                CHECK(node.reports().empty());
            }
        }
    }
}

} // namespace laws
