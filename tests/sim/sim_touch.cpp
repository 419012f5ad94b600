// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_touch.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <thread>
#include <type_traits>

using namespace vram;
using namespace std::chrono_literals;

TEST_CASE("sim_touch: permitted accesses of the host are not reported, nor is pageable memory") {
    sim_node             node{{.on_report = sim_on_report::collect}};
    sim_pinned_resource  pinned;
    sim_managed_resource managed;
    int                  local = 0;
    void* const          p     = pinned.allocate_sync(8);
    void* const          m     = managed.allocate_sync(8);
    sim_touch({&local, 4}, sim_access::write);
    sim_touch({p, 8}, sim_access::write);
    sim_touch({m, 8}, sim_access::read);
    sim_touch({}, sim_access::read);
    CHECK(node.reports().empty());
    pinned.deallocate_sync(p, 8);
    sim_touch({p, 1}, sim_access::read);
    CHECK(node.reports().size() == 1);
    managed.deallocate_sync(m, 8);
}

TEST_CASE("sim_work: the thread's clock advances while the device works") {
    sim_node const node;
    sim_stream     s;
    sim_launch(s, {.duration = 5us});
    sim_work(3us);
    CHECK_FALSE(s.done());
    sim_work(2us);
    CHECK(s.done());
}

namespace {

/// A thread writes memory, and this thread reads it later. `tokens` declares the order. Returns the
/// number of reports.
template <class Thread>
std::size_t reports_of_threads(sim_host_order order, bool tokens) {
    sim_node            node{{.on_report = sim_on_report::collect, .host_threads = order}};
    sim_pinned_resource pinned;
    void* const         p     = pinned.allocate_sync(64);
    int                 token = 0;
    sim_touch({p, 64}, sim_access::write);
    if (tokens) { sim_happens_before(&token); }
    auto const body = [&] {
        if (tokens) { sim_happens_after(&token); }
        sim_touch({p, 64}, sim_access::write);
        if (tokens) { sim_happens_before(&token); }
    };
    if constexpr (std::is_same_v<Thread, sim_thread>) {
        sim_thread{sim_device{}, body}.join();
    } else {
        std::thread{body}.join();
    }
    if (tokens) { sim_happens_after(&token); }
    sim_touch({p, 64}, sim_access::read);
    std::size_t const found = node.take_reports().size();
    node.set_checks({.races = false, .leaks = false});
    pinned.deallocate_sync(p, 64);
    return found;
}

} // namespace

TEST_CASE("sim_host_order: ordinary threads are ordered, or checked with tokens") {
    CHECK(reports_of_threads<std::thread>(sim_host_order::by_kind, false) == 0);
    CHECK(reports_of_threads<std::thread>(sim_host_order::ordered, false) == 0);
    CHECK(reports_of_threads<std::thread>(sim_host_order::checked, false) == 2); // start and end
    CHECK(reports_of_threads<std::thread>(sim_host_order::checked, true) == 0);
    if (!sim_ordered_threads) { return; } // with ThreadSanitizer these are ordinary threads
    CHECK(reports_of_threads<sim_thread>(sim_host_order::checked, false) == 0);
}

TEST_CASE("sim_host_order: the order of two sim_threads is checked unless the options order it" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    for (sim_host_order const order :
         {sim_host_order::by_kind, sim_host_order::ordered, sim_host_order::checked}) {
        sim_node   node{{.on_report = sim_on_report::collect, .host_threads = order}};
        sim_stream s;
        sim_event  e;
        sim_thread first{sim_device{}, [&] { e.record(s); }};
        sim_thread second{sim_device{}, [&] {
                              sim_work(10us);
                              e.synchronize();
                          }};
        sim_thread::join_together(first, second);
        CHECK(node.take_reports().size() == (order == sim_host_order::ordered ? 0 : 1));
    }
}

TEST_CASE("sim_host_order: ordinary threads that start a sim_thread stay ordered" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node            node{{.on_report = sim_on_report::collect}};
    sim_pinned_resource pinned;
    void* const         p = pinned.allocate_sync(64);
    std::thread{[&] {
        sim_thread t{sim_device{}, [] {}};
        sim_touch({p, 64}, sim_access::write);
    }}.join();
    std::thread{[&] {
        sim_thread t{sim_device{}, [] {}};
        sim_touch({p, 64}, sim_access::write);
    }}.join();
    sim_touch({p, 64}, sim_access::read);
    pinned.deallocate_sync(p, 64);
    CHECK(node.reports().empty());
}
