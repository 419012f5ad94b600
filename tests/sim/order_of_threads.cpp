// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim.hpp>

#include "../doubles/collecting.hpp"

#include <doctest/doctest.h>

#include <atomic>

using namespace vram;
using doubles::collecting;

namespace order_of_threads {

/// Two threads write one block: `second` after `first` in simulated time, ordered by the tokens.
/// Returns the number of reports.
std::size_t reports_of(void const* first, void const* second) {
    sim_node            node{collecting()};
    sim_pinned_resource pinned;
    void* const         p = pinned.allocate_sync(64);
    {
        sim_thread a{sim_device{}, [&] {
                         sim_touch({p, 64}, sim_access::write);
                         sim_happens_before(first);
                     }};
        sim_thread b{sim_device{}, [&] {
                         sim_work(sim_time{1000});
                         sim_happens_after(second);
                         sim_touch({p, 64}, sim_access::write);
                     }};
        sim_thread::join_together(a, b);
    }
    pinned.deallocate_sync(p, 64);
    return node.reports().size();
}

} // namespace order_of_threads

using namespace order_of_threads;

TEST_CASE("sim_happens: a token orders the work of two threads" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    int one = 0, other = 0;
    CHECK(reports_of(&one, &one) == 0);
    CHECK(reports_of(&one, &other) == 1);
}

TEST_CASE("sim_happens: only what precedes the declaration is ordered" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node            node{collecting()};
    sim_pinned_resource pinned;
    void* const         p     = pinned.allocate_sync(64);
    int const           token = 0;
    {
        sim_thread a{sim_device{}, [&] {
                         sim_happens_before(&token);
                         sim_touch({p, 64}, sim_access::write);
                     }};
        sim_thread b{sim_device{}, [&] {
                         sim_work(sim_time{1000});
                         sim_happens_after(&token);
                         sim_touch({p, 64}, sim_access::write);
                     }};
        sim_thread::join_together(a, b);
    }
    CHECK(node.take_reports().size() == 1);
    pinned.deallocate_sync(p, 64);
}

TEST_CASE("sim_happens: an event that is recorded before a token may be waited for after it" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node          node{collecting()};
    sim_stream        s, t;
    sim_event         e;
    std::atomic<bool> recorded{false};
    {
        sim_thread a{sim_device{}, [&] {
                         e.record(s);
                         sim_happens_before(&recorded);
                         recorded = true;
                     }};
        sim_thread b{sim_device{}, [&] {
                         sim_work(sim_time{1000});
                         REQUIRE(recorded);
                         sim_happens_after(&recorded);
                         e.wait(t);
                     }};
        sim_thread::join_together(a, b);
    }
    CHECK(node.reports().empty());
}
