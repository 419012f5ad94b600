// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/stream_arbiter.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include "../../doubles/at.hpp"
#include "../../doubles/bombing.hpp"
#include "../../doubles/mishaps.hpp"
#include "../../doubles/streams_at_work.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;
using doubles::keep_busy;
using namespace std::chrono_literals;
using doubles::at;

using sim_arbiter = stream_arbiter<sim_platform>;
template class vram::detail::stream_arbiter<sim_platform>;

namespace {

struct cell {
    enum class state { live, free, reserved, retained };
    tags  held;
    state now = state::live;
};

/// Blocks without addresses, as candidates. Each function can be observed or disturbed.
struct cells {
    struct place {
        cell*        where = nullptr;
        availability cost  = availability::unavailable;
    };
    sim_arbiter&          arbiter;
    std::vector<cell>     all;
    std::function<void()> at_find   = [] {};
    std::function<void()> after_use = [] {}; ///< called after the uses of a reserved cell were read
    unsigned              queries   = 0;
    bool                  repeat    = false; ///< the result of `query`

    template <class Price>
    place find(Price const& price) {
        at_find();
        place best;
        for (cell& c : all) {
            availability const cost = price(c.held);
            if (c.now == cell::state::free && cost < best.cost) { best = {&c, cost}; }
        }
        return best;
    }
    bool query() {
        ++queries;
        if (repeat) { arbiter.timelines().poll(); }
        return repeat;
    }
    static tags  uses(place const& p) { return p.where->held; }
    static cell* take(place const& p, bool) {
        p.where->now = cell::state::live;
        return p.where;
    }
    static cell* reserve(place const& p) {
        p.where->now = cell::state::reserved;
        return p.where;
    }
    tags uses_of(cell const* c) const {
        tags const now = c->held;
        after_use();
        return now;
    }
    static cell* accept(cell* c) {
        c->now = cell::state::live;
        return c;
    }
    static cell* put_back(cell* c) {
        c->now = cell::state::free;
        return c;
    }
    static void retain(cell* c, sim_arbiter::timeline const&) { c->now = cell::state::retained; }
};

/// An arbiter with a lock and some cells.
struct court {
    sim_arbiter                 arbiter;
    cells                       memory;
    platform_lock<sim_platform> lock;

    explicit court(std::size_t count, event_policy events = event_policy::lazy, bool graphs = false)
        : arbiter{events, graphs}, memory{.arbiter = arbiter, .all = std::vector<cell>(count)} {}

    cell* take(sim_stream const* s, bool* must_wait = nullptr) {
        auto                  held = lock.hold();
        sim_stream_view const on   = s != nullptr ? s->view() : sim_stream_view{};
        return arbiter.acquire(memory, arbiter.asker_for(s != nullptr ? &on : nullptr), held,
                               must_wait);
    }
    sim_arbiter::freed give(std::size_t i, sim_stream const& s) {
        auto const held = lock.hold();
        return arbiter.record_free(s, at(0x1000), 256, recording(i));
    }
    std::function<void(std::size_t, std::uint64_t)> recording(std::size_t i) {
        return [this, i](std::size_t slot, std::uint64_t epoch) {
            memory.all[i].held = tags{tag{0, 0, epoch, slot}};
            memory.all[i].now  = cell::state::free;
        };
    }
    cell* at_index(std::size_t i) { return &memory.all[i]; }
};

} // namespace

TEST_CASE("stream_arbiter: ready memory is allocated first, other memory after one wait") {
    sim_node   node{{.compute_slots = 4}};
    court      it{2};
    sim_stream a, b;
    keep_busy(a, 50ms);
    CHECK(it.give(0, a) == sim_arbiter::freed::recorded);
    CHECK(it.give(1, b) == sim_arbiter::freed::recorded);
    CHECK(it.take(&b) == it.at_index(1));
    CHECK(it.memory.queries == 0);
    CHECK(it.arbiter.timelines().waits() == 0);
    CHECK(it.take(&b) == it.at_index(0));
    CHECK(it.memory.queries == 1);
    CHECK(it.arbiter.timelines().waits() == 1);
    CHECK(node.now() < 50ms);
    CHECK(it.take(&b) == nullptr);
}

TEST_CASE("stream_arbiter: streams are queried once before a wait, if the heap queries them") {
    sim_node   node;
    court      it{1, event_policy::eager};
    sim_stream a, b;
    it.memory.repeat = true;
    keep_busy(a);
    CHECK(it.give(0, a) == sim_arbiter::freed::recorded);
    CHECK(it.arbiter.timelines().events() == 1);
    a.synchronize();
    CHECK(it.take(&b) == it.at_index(0));
    CHECK(it.memory.queries == 1);
    CHECK(it.arbiter.timelines().waits() == 0);
}

TEST_CASE("stream_arbiter: the host also waits for uses that are added during its wait") {
    sim_node   node{{.compute_slots = 4}};
    court      it{2};
    sim_stream a, b;
    keep_busy(a, 2ms);
    keep_busy(b, 50ms);
    CHECK(it.give(1, b) == sim_arbiter::freed::recorded);
    CHECK(it.give(0, a) == sim_arbiter::freed::recorded);
    unsigned reads      = 0;
    it.memory.after_use = [&] {
        if (++reads == 1) { it.at_index(0)->held = it.at_index(1)->held; }
    };
    CHECK(it.take(nullptr) == it.at_index(0));
    CHECK(node.now() >= 50ms);
}

TEST_CASE("stream_arbiter: memory is put back if the wait of the host fails") {
    sim_node   node;
    court      it{1};
    sim_stream a;
    keep_busy(a);
    CHECK(it.give(0, a) == sim_arbiter::freed::recorded);
    node.faults().at(sim_call_kind::synchronize, 1);
    CHECK_THROWS((void)it.take(nullptr));
    CHECK(it.at_index(0)->now == cell::state::free);
    CHECK(it.take(nullptr) == it.at_index(0));
}

TEST_CASE("stream_arbiter: a request that must not wait queries the use and then returns null") {
    sim_node   node;
    court      it{1};
    sim_stream a, b;
    keep_busy(a);
    CHECK(it.give(0, a) == sim_arbiter::freed::recorded);
    bool must_wait = false;
    CHECK(it.take(&b, &must_wait) == nullptr);
    CHECK(must_wait);
    CHECK(it.arbiter.timelines().events() == 1);
    a.synchronize();
    must_wait = false;
    CHECK(it.take(&b, &must_wait) == it.at_index(0)); // after a query
    CHECK(it.arbiter.timelines().waits() == 0);
}

TEST_CASE("stream_arbiter: a stream that is captured during the search does not wait") {
    sim_node   node;
    court      it{1};
    sim_stream a, b;
    keep_busy(a);
    CHECK(it.give(0, a) == sim_arbiter::freed::recorded);
    bool begun        = false;
    it.memory.at_find = [&] {
        if (!std::exchange(begun, true)) { sim_graph::begin(b); }
    };
    CHECK(it.take(&b) == nullptr);
    CHECK(it.arbiter.timelines().waits() == 0);
    CHECK(it.arbiter.timelines().events() == 0);
    (void)sim_graph::end(b);
}

TEST_CASE("stream_arbiter: memory freed before a tracked capture is unavailable until its end") {
    for (bool const host : {false, true}) {
        CAPTURE(host);
        sim_node   node;
        court      it{1, event_policy::lazy, true};
        sim_stream a, b;
        keep_busy(a);
        CHECK(it.give(0, a) == sim_arbiter::freed::recorded);
        sim_graph::begin(a);
        CHECK(it.take(host ? nullptr : &b) == nullptr);
        bool must_wait = false;
        if (!host) {
            CHECK(it.take(&b, &must_wait) == nullptr);
            CHECK_FALSE(must_wait); // no wait would help
        }
        CHECK(it.at_index(0)->now == cell::state::free);
        (void)sim_graph::end(a);
        CHECK(it.take(host ? nullptr : &b) == it.at_index(0));
    }
}

TEST_CASE("stream_arbiter: memory freed before or in an untracked capture is graph-retained") {
    for (bool const host : {false, true}) {
        CAPTURE(host);
        sim_node   node;
        court      it{1};
        sim_stream a, b;
        sim_graph::begin(a);
        CHECK(it.give(0, a) == sim_arbiter::freed::recorded);
        CHECK(it.at_index(0)->held.begin()->epoch != tag::captured); // not queried at the free
        CHECK(it.take(host ? nullptr : &b) == nullptr);
        CHECK(it.at_index(0)->now == cell::state::retained);
        (void)sim_graph::end(a);
    }
}

TEST_CASE("stream_arbiter: a free in a tracked capture belongs to the graph") {
    for (auto const events : {event_policy::lazy, event_policy::eager}) {
        sim_node   node;
        court      it{2, events, events == event_policy::lazy};
        sim_stream a;
        CHECK(it.give(0, a) == sim_arbiter::freed::recorded);
        CHECK(it.at_index(0)->held.begin()->epoch != tag::captured);
        sim_graph::begin(a);
        CHECK(it.give(1, a) == sim_arbiter::freed::recorded);
        CHECK(it.at_index(1)->held.begin()->epoch == tag::captured);
        (void)sim_graph::end(a);
    }
}

TEST_CASE("stream_arbiter: a free that cannot be recorded waits for its stream, or is lost") {
    sim_node               node;
    doubles::mishaps const told;
    court                  it{1};
    sim_stream             a;
    keep_busy(a);
    {
        doubles::bombing armed{1};
        CHECK(it.give(0, a) == sim_arbiter::freed::idle);
    }
    CHECK(told.count(error_kind::platform_error) == 1);
    CHECK(node.now() >= 1ms);
    sim_graph::begin(a);
    {
        doubles::bombing armed{1};
        CHECK(it.give(0, a) == sim_arbiter::freed::lost); // a wait would invalidate the capture
    }
    CHECK(told.count(error_kind::leak) == 1);
    (void)sim_graph::end(a);
}

TEST_CASE("stream_arbiter: a free from another thread is recorded without a query of its stream") {
    sim_node   node;
    court      it{1, event_policy::eager, true};
    sim_stream a;
    keep_busy(a);
    (void)sim_platform::id(a);
    sim_graph::begin(a);
    {
        auto const held = it.lock.hold();
        CHECK(it.arbiter.record_remote_free(a, at(0x1000), 256, it.recording(0)) ==
              sim_arbiter::freed::recorded);
    }
    CHECK(it.at_index(0)->held.begin()->epoch != tag::captured);
    CHECK(it.arbiter.timelines().events() == 0);
    (void)sim_graph::end(a);
}
