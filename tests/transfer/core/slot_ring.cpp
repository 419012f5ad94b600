// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/slot_ring.hpp> // first: the header stands alone

#include <vram/base/core/worker.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include "../../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

namespace {
/// A host platform that calls the test during each copy.
struct observed_platform : host_platform {
    static void copy(stream, void*, void const*, std::size_t) { during(); }

    static inline std::function<void()> during;
};

/// A ring that the test fills, with copies that transfer nothing.
struct slot_ring_by_hand final : slot_ring<observed_platform> {
    using ring = slot_ring<observed_platform>;

    explicit slot_ring_by_hand(std::size_t slots, loader_options o = {})
        : slot_ring{(o.pinned_depth = o.device_depth = slots, o), {}, std::nullopt} {
        observed_platform::during = [this] {
            copies_here += std::this_thread::get_id() == here;
            if (meanwhile) { meanwhile(); }
        };
    }

    void produce_inline() override {}
    void fill(std::size_t size) {
        pinned* const p = await_pinned();
        REQUIRE(p != nullptr);
        p->size = size;
        filled(*p, 0);
    }
    /// When the consumer has so many batches, and waits for the next.
    void await_who_waits(std::size_t batches) {
        for (bool waits = false; !waits; std::this_thread::yield()) {
            auto const held = threads_.hold();
            waits           = rules_.consumer_waits() && figures_.batches == batches;
        }
    }
    void fill_for_who_waits(std::size_t size) {
        await_who_waits(size - 1);
        fill(size);
    }
    void end(std::exception_ptr why) { ended(*await_pinned(), std::move(why)); }

    static constexpr auto spin = staged_wait<observed_platform>::spin;

    std::thread::id const here        = std::this_thread::get_id();
    int                   copies_here = 0;
    std::function<void()> meanwhile; ///< a copy is at it

    using ring::await_pinned;
    using ring::begin;
    using ring::ended;
    using ring::filled;
    using ring::none;
    using ring::note;
    using ring::pinned;
    using ring::stop;
};
} // namespace

TEST_CASE("slot_ring: slots come in the order of their fills, and are reused") {
    slot_ring_by_hand ring{2};
    for (std::size_t round = 1; round < 5; ++round) {
        ring.fill(round);
        auto* const s = ring.take({});
        REQUIRE(s != nullptr);
        CHECK(s->size == round);
        CHECK(s->index == round - 1);
        ring.release(*s, {});
    }
    ring.note([](auto& f) {
        CHECK(f.batches == 4);
        CHECK(f.bytes == 1 + 2 + 3 + 4);
    });
}

TEST_CASE("slot_ring: the end or an error ends the range until a restart") {
    slot_ring_by_hand ended{2};
    ended.end(nullptr);
    CHECK(ended.take({}) == nullptr);
    CHECK(ended.take({}) == nullptr);
    slot_ring_by_hand broken{2};
    broken.fill(1);
    broken.end(std::make_exception_ptr(std::runtime_error{"broken"}));
    auto* const s = broken.take({});
    REQUIRE(s != nullptr);
    CHECK_THROWS_AS((void)broken.take({}), std::runtime_error);
    CHECK(broken.take({}) == nullptr);
    broken.release(*s, {});
    broken.begin(slot_ring_by_hand::none, {});
    broken.fill(7);
    CHECK(broken.take({})->size == 7);
}

TEST_CASE("slot_ring: a batch beyond the end is dropped, and a missing one before it is awaited") {
    for (bool ordered : {true, false}) {
        slot_ring_by_hand          ring{4, {.ordered = ordered}};
        slot_ring_by_hand::pinned* p[4];
        for (auto& each : p) { each = ring.await_pinned(); }
        ring.filled(*p[3], 0);
        ring.ended(*p[2], nullptr);
        ring.filled(*p[1], 0);
        ring.filled(*p[0], 0);
        CHECK(ring.states().ready == (ordered ? 2 : 3)); // in no order, the fourth was gone at once
        std::size_t seen = 0;
        while (auto* const s = ring.take({})) {
            ++seen;
            ring.release(*s, {});
        }
        CHECK(seen == (ordered ? 2 : 3));
    }
}

TEST_CASE("slot_ring: after a stop no thread gets a slot") {
    slot_ring_by_hand ring{1};
    ring.stop();
    CHECK(ring.take({}) == nullptr);
    CHECK(ring.await_pinned() == nullptr);
}

TEST_CASE("slot_ring: if the loop holds every slot while a batch is ready, that is an error") {
    slot_ring_by_hand ring{1};
    ring.fill(1);
    auto* const s = ring.take({});
    ring.fill(2);
    for (int again = 0; again < 2; ++again) {
        try {
            (void)ring.take({});
            FAIL("the only slot is held");
        } catch (loader_error const& e) {
            CHECK(e.why() == loader_error::reason::all_held);
            CHECK(e.index() == 1);
        }
    }
    CHECK(ring.states() == slot_states{.filled = 1, .held = 1});
    ring.release(*s, {}); // the releasing thread copies, as the only thread
    CHECK(ring.take({})->size == 2);
}

TEST_CASE("slot_ring: a thread that waits for a batch copies it, and leaves no copy undone") {
    slot_ring_by_hand ring{2};
    {
        worker const producer{0, [&] {
                                  ring.fill_for_who_waits(1);
                                  ring.fill_for_who_waits(2);
                              }};
        for (std::size_t size : {1U, 2U}) {
            auto* const s = ring.take({});
            REQUIRE(s != nullptr);
            CHECK(s->size == size);
            CHECK(ring.states().filled == 0);
            ring.release(*s, {});
        }
    }
    CHECK(ring.copies_here == 2);
    ring.fill(3); // no thread waits: the filling thread copies
    CHECK(ring.states().ready == 1);
    CHECK(ring.copies_here == 3);
}

TEST_CASE("slot_ring: a thread that waits is woken for a batch that another thread copied") {
    slot_ring_by_hand ring{2};
    std::atomic<int>  begun = 0;
    worker const      producer{0, [&] {
                              ring.fill_for_who_waits(1); // the consumer has copied itself before
                              while (begun == 0) { std::this_thread::yield(); }
                              ring.meanwhile = [&] {
                                  begun = 2;
                                  ring.await_who_waits(1);
                                  std::this_thread::sleep_for(5 * ring.spin); // it sleeps by now
                              };
                              ring.fill(2);
                          }};
    CHECK(ring.take({})->size == 1);
    begun = 1;
    while (begun != 2) { std::this_thread::yield(); }
    CHECK(ring.take({})->size == 2);
    CHECK(ring.copies_here == 1);
}

TEST_CASE("slot_ring: a released batch leaves the copy to a producer that polls") {
    slot_ring_by_hand ring{1};
    ring.fill(1);
    auto* const  s = ring.take({});
    worker const producer{0, [&] {
                              ring.fill(2); // there is no place for it on the device
                              (void)ring.await_pinned();
                          }};
    for (slot_states now; now.filled + now.waiting != 2; now = ring.states()) {
        std::this_thread::yield();
    }
    std::this_thread::sleep_for(5 * ring.spin); // it does not stay awake for so long
    int const before = ring.copies_here;
    ring.release(*s, {});
    CHECK(ring.copies_here == before);
    while (ring.states().ready == 0) { std::this_thread::yield(); }
    CHECK(ring.copies_here == before);
    CHECK(ring.take({})->size == 2);
    ring.stop();
}

namespace {
/// One slot, filled on the device by the consumer itself; released after the consumer found none.
struct slot_ring_inline final : slot_ring<host_platform> {
    slot_ring_inline()
        : slot_ring{{.depth = 0, .pinned_depth = 0, .device_depth = 1}, {}, std::nullopt} {}

    void produce_inline() override {
        if (slot* const s = slot_now()) { return posted(*s, 0); }
        if (kept != nullptr) { release(*std::exchange(kept, nullptr), {}); }
    }

    slot* kept = nullptr;
};
} // namespace

TEST_CASE("slot_ring: an inline producer uses a slot that was released after its check") {
    slot_ring_inline ring;
    for (std::size_t i = 0; i < 3; ++i) {
        ring.kept = ring.take({}); // the kept batch is released in between, as on another thread
        REQUIRE(ring.kept != nullptr);
        CHECK(ring.kept->index == i);
    }
}

namespace slots_in_a_ring {
/// One pinned slot and two on the device, filled by hand.
struct simulated_ring final : slot_ring<sim_platform> {
    explicit simulated_ring(loader_options o = {})
        : slot_ring{(o.batch_bytes = 1000, o.pinned_depth = 1, o.device_depth = 2, o),
                    sim_device::current(), std::nullopt} {
        for (auto& p : pinned_) { p.memory = static_cast<std::byte*>(host.allocate_sync(1000)); }
        for (auto& s : slots_) { s.memory = static_cast<std::byte*>(memory.allocate_sync(1000)); }
    }
    ~simulated_ring() {
        CHECK(channel_.drain(false));
        sim_platform::synchronize(sim_device{});
        for (auto& p : pinned_) { host.deallocate_sync(p.memory, 1000); }
        for (auto& s : slots_) { memory.deallocate_sync(s.memory, 1000); }
    }
    void produce_inline() override {}
    void fill() {
        pinned* const p = await_pinned();
        REQUIRE(p != nullptr);
        clear(*p);
        sim_touch({p->memory, 1000}, sim_access::write);
        p->size = 1000;
        filled(*p, 0);
    }

    sim_resource        memory;
    sim_pinned_resource host;
};
} // namespace slots_in_a_ring
using slots_in_a_ring::simulated_ring;

TEST_CASE("slot_ring: the end of a copy calls back, and the slot can be filled again") {
    sim_node   node{{.host_bandwidth = 1_GB, .copy_latency = sim_time{0}}};
    sim_stream stream;
    {
        simulated_ring ring;
        ring.fill();
        CHECK(ring.states() == slot_states{.copying = 1, .unused = 1, .ready = 1});
        auto* const s = ring.take(stream);
        sim_platform::synchronize(sim_device{}); // the copy is over, and its call-back came
        CHECK(ring.states().empty == 1);
        CHECK(node.now() == 1us);
        ring.fill(); // the checker would see a write beside the copy
        ring.release(*s, stream);
    }
    CHECK(node.reports().empty());
}

TEST_CASE("slot_ring: without callbacks, the next fill waits for the event") {
    sim_node   node;
    sim_stream stream;
    {
        simulated_ring         ring;
        doubles::mishaps const errors;
        node.faults().at(sim_call_kind::launch, 1, {.status = sim_status::refused});
        ring.fill();
        CHECK(errors.count() == 1);
        CHECK(ring.states().empty == 1); // though the copy is not over
        ring.fill();
        CHECK(ring.statistics().host_waits == 1);
    }
    CHECK(node.reports().empty());
}
