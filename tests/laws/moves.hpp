// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `moves` requires that a move assignment of a pool frees its memory and takes the state of the
/// other.

#include "../doubles/archetype.hpp"         // archetype
#include "../doubles/counting_resource.hpp" // counting_resource
#include "../doubles/ledger.hpp"            // ledger
#include "../doubles/mishaps.hpp"           // mishaps
#include "../doubles/streams_at_work.hpp"   // busy

#include <vram/base/bytes.hpp>        // literals
#include <vram/pool/event_policy.hpp> // event_policy
#include <vram/sim/sim.hpp>           // sim_node, sim_stream, sim_graph

#include <doctest/doctest.h>

#include <cstddef> // size_t
#include <utility> // move
#include <vector>  // vector

namespace laws {

/// An upstream that can be assigned, and records its live blocks.
using movable_upstream = doubles::counting_resource<doubles::archetype<vram::sim_platform>>;

/// The options of the two pools. All numbers differ.
struct movable_options {
    std::size_t        max_size;
    std::size_t        step; ///< chunk size of a fixed growth, if the pool has one
    vram::event_policy events;
    bool               graphs;
};

/// Requires that `mr` has the options `o`: memory for `o.max_size` bytes, streams that may be
/// destroyed without `retire` if `o.events` says so, and graph-retained memory if `o.graphs` is
/// true.
template <class Pool>
void is_as_made(Pool& mr, movable_options const& o, bool grows) {
    using namespace vram;
    if constexpr (requires { mr.options(); }) {
        CHECK(mr.options().max_size == o.max_size);
        CHECK(mr.options().events == o.events);
        CHECK(mr.options().graphs == o.graphs);
    }
    std::vector<void*> out;
    sim_stream         s; // a stream that is new to the pool
    if (grows) {
        std::size_t const held = mr.usage().reserved;
        while (mr.usage().reserved == held) { out.push_back(mr.allocate(s, 1_MiB)); }
        CHECK(mr.usage().reserved - held == o.step);
    }
    while (void* const p = mr.try_allocate(s, 1_MiB)) { out.push_back(p); }
    CHECK(mr.usage().reserved <= o.max_size);
    CHECK(mr.usage().reserved > o.max_size - 1_MiB);
    try {
        (void)mr.allocate(s, 1_MiB);
        FAIL("more than the limit");
    } catch (out_of_memory const& e) { CHECK(e.numbers().limit == o.max_size); }
    for (void* const p : out) { mr.deallocate(s, p, 1_MiB); }

    doubles::mishaps const told;
    for (bool const retire : {true, false}) {
        {
            sim_stream const brief = doubles::raw_stream();
            void* const      p     = mr.allocate(brief, 1_MiB);
            doubles::busy(brief, p, 1_MiB);
            mr.deallocate(brief, p, 1_MiB);
            std::size_t const retired = mr.upstream().upstream().retired();
            if (retire) { mr.retire(brief); }
            CHECK(mr.upstream().upstream().retired() - retired == retire);
        }
        mr.trim();
        bool const expected = !retire && o.events == event_policy::lazy;
        CHECK((told.count(error_kind::dead_stream) != 0) == expected);
    }
    CHECK(mr.usage().reserved == 0);

    void* const earlier = mr.allocate(s, 1_MiB);
    doubles::busy(s, earlier, 1_MiB);
    mr.deallocate(s, earlier, 1_MiB);
    sim_graph::begin(s);
    void* const kept = mr.allocate(s, 1_MiB);
    CHECK((kept != earlier) == o.graphs);
    mr.deallocate(s, kept, 1_MiB);
    (void)sim_graph::end(s);
    mr.trim();
    CHECK((mr.usage().reserved != 0) == o.graphs);
    mr.forget_captures();
    mr.trim();
    CHECK(mr.usage().reserved == 0);
}

/// `make(upstream, options)` creates the pool. `large` is the largest request, and `grows` is true
/// if it has a growth policy. A stream uses the memory of the assigned pool: idle chunks, or live
/// blocks.
template <class Make>
void moves(Make make, bool grows = true, std::size_t large = std::size_t{4} << 20) {
    using namespace vram;
    using doubles::busy;
    auto const upstream = [](doubles::ledger& book) {
        return movable_upstream{doubles::archetype<sim_platform>{}, book};
    };
    for (event_policy const events : {event_policy::lazy, event_policy::eager}) {
        for (bool const leaks : {false, true}) {
            CAPTURE(events);
            CAPTURE(leaks);
            bool const            lazy = events == event_policy::lazy;
            movable_options const now{24_MiB, 3_MiB, events, true};
            movable_options const before{64_MiB, 5_MiB,
                                         lazy ? event_policy::eager : event_policy::lazy, false};
            doubles::ledger       here, gone, next;
            sim_node              node{{.on_report = sim_on_report::collect}};
            {
                sim_stream  s, other;
                auto        b  = make(upstream(gone), before);
                void* const b1 = b.allocate(other, 1_MiB);
                void* const b2 = b.allocate(other, large);
                busy(other, b1, 1_MiB);
                busy(other, b2, large);
                if (!leaks) {
                    b.deallocate(other, b1, 1_MiB);
                    b.deallocate(other, b2, large);
                }
                auto        a  = make(upstream(here), now);
                void* const a1 = a.allocate(s, 1_MiB);
                void* const a2 = a.allocate(s, large);
                void* const a3 = a.allocate(s, 1_MiB);
                a.deallocate(s, a3, 1_MiB); // the peak exceeds the live bytes
                memory_usage const was = a.usage();
                {
                    doubles::mishaps const told;
                    b = std::move(a);
                    CHECK(told.count() == (leaks ? told.count(error_kind::leak) : 0));
                }
                CHECK(gone.blocks() == 0);
                CHECK((b.usage() == was));
                CHECK((b.owns(a1) && b.owns(a2)));
                CHECK((a.usage() == memory_usage{}));

                doubles::mishaps const told;
                auto&                  same = b;
                b                           = std::move(same);
                CHECK((b.usage() == was));
                // On a stream that was known to the other pool.
                void* const again = b.allocate(s, 1_MiB);
                CHECK(b.usage().reserved == was.reserved);
                b.deallocate(s, again, 1_MiB);
                // The moved-from pool can be used again.
                a              = make(upstream(next), before);
                void* const a4 = a.allocate(s, 1_MiB);
                CHECK(next.has(a4));
                a.deallocate(s, a4, 1_MiB);
                b.deallocate(s, a1, 1_MiB);
                b.deallocate(s, a2, large);
                CHECK(b.usage().live == 0);
                CHECK(told.count() == 0);
                is_as_made(b, now, grows);
                CHECK(here.blocks() == 0);
                CHECK(told.count() == 0);
            }
            CHECK(next.blocks() == 0);
            for (auto const* book : {&here, &gone, &next}) {
                CHECK_MESSAGE(*book->broken() == '\0', book->broken());
            }
            for (auto const& r : node.reports()) {
                CHECK_MESSAGE((leaks && r.kind == sim_mistake::leak), r.text());
            }
        }
    }
}

} // namespace laws
