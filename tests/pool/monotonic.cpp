// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/monotonic.hpp> // first: the header stands alone

#include <vram/base/core/biased_lock.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/device_share_growth.hpp>
#include <vram/pool/exact_growth.hpp>
#include <vram/pool/fixed_growth.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include "../doubles/bombing.hpp"
#include "../doubles/contracts_throw.hpp"
#include "../doubles/minimal_resource.hpp"
#include "../doubles/resetting.hpp"
#include "../doubles/streams_at_work.hpp"
#include "../laws/captures_go_on.hpp"
#include "../laws/effort.hpp"
#include "../laws/every_interleaving.hpp"
#include "../laws/platform_faults.hpp"
#include "../laws/resource.hpp"

#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <random>
#include <utility>
#include <vector>

using namespace vram;
using namespace std::chrono_literals;
using doubles::busy;

template class vram::monotonic<doubles::archetype<>>;
template class vram::monotonic<doubles::minimal_resource<>>;
template class vram::monotonic<sim_resource>;
template class vram::monotonic<stream_ordered<sim_resource>, exact_growth>;
template class vram::monotonic<sim_async_resource, device_share_growth>;
template class vram::monotonic<doubles::archetype<sim_platform>, fixed_growth>;

namespace {

/// Allocates exactly the needed size.
template <class Upstream>
monotonic<Upstream, exact_growth> exactly(Upstream upstream, pool_options options = {}) {
    return monotonic<Upstream, exact_growth>{std::move(upstream), options};
}

/// Before a thread acquires a lock, `once` runs in place of another thread.
struct overtaken_platform : host_platform {
    struct stream {
        using platform = overtaken_platform;

        operator host_platform::stream() const noexcept { return {}; }
        friend bool operator==(stream, stream) = default;
    };
    struct lock : detail::biased_lock {
        [[nodiscard]] guard hold() const {
            if (auto const other = std::exchange(once, nullptr)) { other(); }
            return biased_lock::hold();
        }
    };
    static inline std::function<void()> once;
};

} // namespace

TEST_CASE("monotonic: it keeps the laws of a resource") {
    laws::resource([](auto up) { return monotonic{std::move(up)}; });
    laws::resource([](auto up) { return exactly(std::move(up)); });
    laws::resource([](auto up) { return monotonic{std::move(up), {.initial_size = 1_MiB}}; });
    laws::resource(
        [](auto up) { return monotonic{std::move(up), {.events = event_policy::eager}}; });
    laws::resource<doubles::minimal_resource<>>(
        [](auto up) { return std::move(up) | with::monotonic; });
    laws::resource([](auto up) { return std::move(up) | with::pool | with::monotonic; });
    laws::resource([](auto up) { return doubles::resetting{monotonic{std::move(up)}}; });
    laws::resource_of_many_threads([](auto up) { return std::move(up) | with::monotonic; });
    laws::resource_of_many_threads([](auto up) { return exactly(std::move(up)); });
}

TEST_CASE("monotonic: it keeps the laws on a device, and every order between streams") {
    for (event_policy const events : {event_policy::lazy, event_policy::eager}) {
        sim_node           node{{.capacity = 1_GiB, .on_report = sim_on_report::collect}};
        pool_options const options{.events = events};
        laws::resource<sim_resource>([&](auto up) { return monotonic{std::move(up), options}; },
                                     {.room = 4_MiB, .largest_alignment = 2_MiB});
        laws::resource<sim_resource>(
            [&](auto up) { return doubles::resetting{exactly(std::move(up), options)}; },
            {.operations = 5000, .streams = 8, .seed = 2});
        laws::resource<sim_async_resource>([&](auto up) { return exactly(std::move(up), options); },
                                           {.streams = 5, .seed = 3});
        laws::resource_of_many_threads<sim_resource>(
            [&](auto up) { return monotonic{std::move(up), options}; }, {.operations = 300});
        for (auto const& r : node.reports()) { MESSAGE(r.text()); }
        CHECK(node.reports().empty());
    }
}

TEST_CASE("monotonic: no failure loses memory") {
    laws::survives_every_failure([](auto up) { return monotonic{std::move(up)}; },
                                 [](auto& mr) { laws::block const first{mr, 10}, second{mr, 990}; },
                                 [](auto& mr) { return mr.usage().live; });
    laws::survives_every_failure([](auto up) { return exactly(std::move(up)); },
                                 [](auto& mr) {
                                     auto const        start = mr.mark();
                                     laws::block const first{mr, 10}, second{mr, 9990};
                                     mr.unwind_sync(mr.mark());
                                     (void)start;
                                 },
                                 [](auto& mr) { return mr.usage().live; });
}

TEST_CASE("monotonic: blocks are consecutive, each with its alignment") {
    monotonic mr{host_resource{}, {.initial_size = 64_KiB}};
    auto*     p = static_cast<std::byte*>(mr.allocate_sync(100, 1));
    CHECK(mr.allocate_sync(28, 1) == p + 100);
    CHECK(mr.allocate_sync(1) == p + 256);
    CHECK(mr.allocate_sync(1, 4_KiB) != nullptr);
    CHECK(mr.usage().live == 130);
    CHECK(mr.usage().reserved == 64_KiB);
    CHECK(mr.usage().upstream == 1);
    mr.reset_sync();
    CHECK(mr.usage().live == 0);
    CHECK(mr.usage().peak_live == 130);
    CHECK(mr.allocate_sync(1) == p);
    mr.reset_sync();
}

TEST_CASE("monotonic: after reset a repeated step allocates nothing from upstream or host") {
    sim_node   node{{.checks    = {.races = false, .bounds = false}, // they need host memory
                     .on_report = sim_on_report::collect}};
    sim_stream s;
    monotonic  mr{sim_resource{}};
    auto const step = [&] {
        for (std::size_t const bytes : {1_KiB, 3_MiB, 17_KiB}) {
            busy(s, mr.allocate(s, bytes), bytes, 1us);
        }
        mr.reset(s);
    };
    step();
    step();
    auto const upstream    = mr.usage().upstream;
    void*      first       = nullptr;
    auto const allocations = doubles::host_allocations();
    for (int i = 0; i < 100; ++i) {
        for (std::size_t const bytes : {1_KiB, 3_MiB, 17_KiB}) {
            void* const p = mr.allocate(s, bytes);
            first         = first == nullptr ? p : first;
        }
        mr.reset(s);
    }
    CHECK(doubles::host_allocations() == allocations);
    CHECK(mr.usage().upstream == upstream);
    CHECK(mr.usage().events == 0);
    CHECK(mr.usage().waits == 0);
    CHECK(mr.allocate(s, 1) == first);
    CHECK(node.reports().empty());
}

TEST_CASE("monotonic: a free only counts; the memory is reused after a reset") {
    monotonic   mr{host_resource{}, {.initial_size = 64_KiB}};
    void* const a = mr.allocate_sync(1_KiB);
    void* const b = mr.allocate_sync(1_KiB);
    mr.deallocate_sync(b, 1_KiB);
    mr.deallocate_sync(a, 1_KiB);
    CHECK(mr.usage().live == 0);
    CHECK(mr.usage().largest_free == 62_KiB);
    CHECK(mr.trim() == 0);
    CHECK(mr.allocate_sync(1_KiB) == static_cast<std::byte*>(b) + 1_KiB);
    mr.reset_sync();
    CHECK(mr.usage().largest_free == 64_KiB);
    CHECK(mr.allocate_sync(1_KiB) == a);
    CHECK(mr.release() == 64_KiB);
    CHECK(mr.usage().live == 0);
}

TEST_CASE("monotonic: unwinding counts the live blocks above the mark, in any order of frees") {
    auto  mr = exactly(host_resource{}, {.initial_size = 4_KiB});
    void* blocks[6];
    for (int i = 0; i < 2; ++i) { blocks[i] = mr.allocate_sync(1_KiB); }
    auto const first = mr.mark();
    for (int i = 2; i < 4; ++i) { blocks[i] = mr.allocate_sync(1_KiB); }
    auto const second = mr.mark();
    for (int i = 4; i < 6; ++i) { blocks[i] = mr.allocate_sync(1_KiB); } // in chunks of their own
    for (int const i : {0, 3, 5}) { mr.deallocate_sync(blocks[i], 1_KiB); }
    CHECK(mr.usage().live == 3_KiB);
    mr.unwind_sync(second);
    CHECK(mr.usage().live == 2_KiB);
    (void)mr.allocate_sync(1_KiB);
    mr.unwind_sync(first);
    CHECK(mr.usage().live == 1_KiB);
    mr.reset_sync();
    CHECK(mr.usage().live == 0);
}

TEST_CASE("monotonic: unwind frees the memory since a mark, and earlier memory stays") {
    auto        mr    = exactly(host_resource{}, {.initial_size = 4_KiB});
    auto const  start = mr.mark();
    void* const a     = mr.allocate_sync(1_KiB);
    auto const  here  = mr.mark();
    void* const b     = mr.allocate_sync(1_KiB);
    for (int i = 0; i < 10; ++i) { (void)mr.allocate_sync(3_KiB); } // in chunks of their own
    CHECK(mr.usage().reserved == 34_KiB);
    mr.unwind_sync(here);
    CHECK(mr.usage().live == 1_KiB);
    CHECK(mr.allocate_sync(1_KiB) == b);
    mr.unwind_sync(here); // it stays good
    mr.deallocate_sync(a, 1_KiB);
    CHECK(mr.usage().live == 0);
    CHECK(mr.allocate_sync(1_KiB) == b); // a lies below the mark
    auto const later = mr.mark();
    CHECK(later != here);
    mr.unwind_sync(start);
    CHECK(mr.allocate_sync(1_KiB) == a);
    CHECK(mr.usage().reserved == 34_KiB);
    mr.reset_sync();
    CHECK(mr.trim(20_KiB) == 15_KiB);
    CHECK(mr.release() == 19_KiB);
    CHECK(mr.usage().reserved == 0);
}

TEST_CASE("monotonic: marks that two threads make at the same time can all be unwound") {
    monotonic                     mr{doubles::archetype<overtaken_platform>{}};
    std::optional<monotonic_mark> earlier;
    overtaken_platform::once = [&] { // another thread is faster, and allocates behind its mark
        earlier = mr.mark();
        (void)mr.allocate_sync(1_KiB);
    };
    monotonic_mark const later = mr.mark();
    REQUIRE(earlier.has_value());
    CHECK(later != *earlier);
    (void)mr.allocate_sync(2_KiB);
    mr.unwind_sync(later);
    CHECK(mr.usage().live == 1_KiB);
    mr.unwind_sync(*earlier);
    CHECK(mr.usage().live == 0);
}

TEST_CASE("monotonic: a mark before the first chunk unwinds to the beginning") {
    monotonic   mr{host_resource{}};
    auto const  start = mr.mark();
    void* const p     = mr.allocate_sync(100);
    mr.unwind_sync(start);
    CHECK(mr.usage().live == 0);
    CHECK(mr.allocate_sync(100) == p);
    mr.unwind_sync(start);
    CHECK(mr.trim() == 0); // the mark stands in it
    mr.reset_sync();
    CHECK(mr.trim() != 0);
}

TEST_CASE("monotonic: two marks without an allocation between them are equal") {
    auto       mr    = exactly(host_resource{}, {.initial_size = 4_KiB});
    auto const start = mr.mark();
    CHECK(mr.mark() == start);
    mr.deallocate_sync(mr.allocate_sync(1_KiB), 1_KiB);
    auto const later = mr.mark();
    CHECK(later != start);
    mr.unwind_sync(start);
    CHECK(mr.mark() == start);
    mr.reset_sync();
    CHECK(mr.mark() != start);
}

TEST_CASE("monotonic: a mark protects the chunks before it from trim, even if nothing is live") {
    auto       mr    = exactly(host_resource{});
    auto const start = mr.mark();
    for (int i = 0; i < 3; ++i) { (void)mr.allocate_sync(1_KiB); }
    CHECK(mr.trim() == 0);
    mr.unwind_sync(start);
    CHECK(mr.trim() == 2_KiB); // the mark stands in the first
    mr.reset_sync();
    CHECK(mr.trim() == 1_KiB);
}

TEST_CASE("monotonic: a second unwind of a mark, or one of another object, is a broken contract") {
    monotonic                      mr{host_resource{}};
    monotonic                      other{host_resource{}};
    doubles::contracts_throw const here;
    auto const                     first  = mr.mark();
    void* const                    p      = mr.allocate_sync(100);
    auto const                     second = mr.mark();
    auto const                     mine   = other.mark();
    mr.unwind_sync(first);
    CHECK_THROWS_AS(mr.unwind_sync(second), doubles::broken_contract);
    CHECK_THROWS_AS(mr.unwind_sync(mine), doubles::broken_contract);
    CHECK_THROWS_AS(other.unwind_sync(first), doubles::broken_contract);
    mr.unwind_sync(first);
    mr.reset_sync();
    CHECK_THROWS_AS(mr.unwind_sync(first), doubles::broken_contract);
    CHECK(mr.allocate_sync(100) == p); // and it is whole
    CHECK_THROWS_AS((void)mr.allocate_sync(1, 3), doubles::broken_contract);
}

TEST_CASE("monotonic: another stream waits for the previous user, once, and for no other") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream a, b, c, d;
    auto       mr = exactly(sim_resource{}, {.initial_size = 4_MiB, .max_size = 4_MiB});
    busy(a, mr.allocate(a, 1_MiB), 1_MiB);
    busy(a, mr.allocate(a, 1_MiB), 1_MiB);
    busy(b, mr.allocate(b, 1_MiB), 1_MiB, 50ms);
    mr.reset_sync();
    CHECK(mr.usage().pending == 3_MiB);
    CHECK(mr.usage().events == 0);
    auto const before = node.now();
    busy(c, mr.allocate(c, 1_MiB), 1_MiB);
    busy(c, mr.allocate(c, 1_MiB), 1_MiB); // the memory of a
    CHECK(mr.usage().waits == 1);
    CHECK(mr.usage().events == 1);
    void* const own = mr.allocate(b, 1_MiB); // b's own
    CHECK(mr.usage().waits == 1);
    busy(b, own, 1_MiB);
    busy(d, mr.allocate(d, 1_MiB), 1_MiB); // without a previous use
    CHECK(mr.usage().waits == 1);
    CHECK(node.now() - before < 1ms);
    mr.reset_sync();
    void* const all = mr.allocate_sync(4_MiB); // for at once: the host waits for all
    CHECK(mr.usage().pending == 0);
    a.synchronize();
    busy(a, all, 4_MiB);
    a.synchronize();
    mr.deallocate_sync(all, 4_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("monotonic: a stream that freed a block of another stream is waited for after a reset") {
    sim_node   node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
    sim_stream a, b, c;
    auto       mr = exactly(sim_resource{}, {.initial_size = 2_MiB, .max_size = 2_MiB});
    for (std::uint64_t waits = 1; waits < 3; ++waits) { // b, then b again: a and c are idle
        void* const p = mr.allocate(a, 1_MiB);
        (void)mr.allocate(a, 1_MiB);
        laws::stream_set<sim_platform>::order(a, b);
        busy(b, p, 1_MiB, 50ms);
        mr.deallocate(b, p, 1_MiB);
        a.synchronize();
        mr.reset(a);
        CHECK(mr.usage().live == 0);
        void* const t = mr.allocate(c, 2_MiB);
        busy(c, t, 2_MiB);
        CHECK(mr.usage().waits >= waits);
        mr.reset(c);
    }
    for (auto const& report : node.reports()) { MESSAGE(report.text()); }
    CHECK(node.reports().empty());
}

TEST_CASE("monotonic: a stream waits for one event of each other stream, however many blocks") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream a, b, c, d;
    auto       mr = exactly(sim_resource{}, {.initial_size = 1_MiB, .max_size = 1_MiB});
    for (int i = 0; i < 16; ++i) {
        for (sim_stream const* const s : {&a, &b, &c}) {
            busy(*s, mr.allocate(*s, 16_KiB), 16_KiB, 10us);
        }
    }
    CHECK(mr.usage().events == 0);
    mr.reset(a);
    CHECK(mr.usage().events == 0);
    for (int i = 0; i < 16; ++i) { busy(a, mr.allocate(a, 16_KiB), 16_KiB); }
    CHECK(mr.usage().events == 2); // of b and c
    CHECK(mr.usage().waits == 2);
    busy(d, mr.allocate(d, 16_KiB), 16_KiB); // that memory of a, b and c
    CHECK(mr.usage().events == 3);
    CHECK(mr.usage().waits == 5);
    mr.reset(d);
    CHECK(node.reports().empty());
}

TEST_CASE(
    "monotonic: after unwinding no stream is waited for that used only memory below the mark") {
    sim_node   node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
    sim_stream a, b, c;
    auto       mr = exactly(sim_resource{}, {.initial_size = 4_MiB, .max_size = 4_MiB});
    busy(a, mr.allocate(a, 1_MiB), 1_MiB, 50ms);
    auto const here = mr.mark();
    busy(b, mr.allocate(b, 1_MiB), 1_MiB);
    mr.unwind(here, b);
    busy(c, mr.allocate(c, 1_MiB), 1_MiB);
    CHECK(mr.usage().waits == 1);
    mr.unwind(here, c);
    busy(a, mr.allocate(a, 1_MiB), 1_MiB); // waits for c, which waits for b
    CHECK(mr.usage().waits == 2);
    c.synchronize();
    CHECK(node.now() < 50ms);
    mr.reset(a);
    CHECK(mr.usage().pending == 2_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("monotonic: a use that the resource did not see is ordered by the stream of the reset") {
    for (bool const ordered : {true, false}) {
        sim_node   node{{.compute_slots = 4, .on_report = sim_on_report::collect}};
        sim_stream a, unseen, last, next;
        auto       mr = exactly(sim_resource{}, {.initial_size = 2_MiB, .max_size = 2_MiB});
        for (bool const partly : {true, false}) {
            auto const  here = mr.mark();
            void* const p    = mr.allocate(a, 1_MiB);
            laws::stream_set<sim_platform>::order(a, unseen);
            busy(unseen, p, 1_MiB, 50ms);
            laws::stream_set<sim_platform>::order(unseen, last);
            if (partly) {
                ordered ? mr.unwind(here, last) : mr.unwind_sync(here);
            } else {
                ordered ? mr.reset(last) : mr.reset_sync();
            }
            busy(next, mr.allocate(next, 1_MiB), 1_MiB);
            mr.reset(next);
        }
        sim_platform::synchronize(sim_device{});
        CHECK(node.reports().empty() == ordered); // the checker sees the missing order
    }
}

TEST_CASE("monotonic: a reset on a stream that cannot be recorded waits for the device instead") {
    sim_node         node{{.on_report = sim_on_report::collect}};
    sim_stream       a;
    doubles::mishaps told;
    auto             mr = exactly(sim_resource{}, {.initial_size = 1_MiB, .max_size = 1_MiB});
    sim_stream_view  dead;
    {
        sim_stream const s = doubles::raw_stream();
        dead               = s.view();
    }
    busy(a, mr.allocate(a, 1_MiB), 1_MiB, 5ms);
    mr.reset(dead);
    CHECK(told.count(error_kind::platform_error) != 0);
    CHECK(told.count(error_kind::leak) == 0);
    CHECK(node.now() >= 5ms);
    CHECK(mr.usage().live == 0);
    CHECK(mr.allocate(a, 1_MiB) != nullptr);
    mr.reset(a);
    CHECK(node.reports().empty());
}

TEST_CASE("monotonic: a reset frees nothing if its stream is neither recorded nor waited for") {
    sim_node         node{{.on_report = sim_on_report::collect}};
    sim_stream       a;
    doubles::mishaps told;
    auto             mr = exactly(sim_resource{}, {.initial_size = 1_MiB});
    sim_stream_view  dead;
    {
        sim_stream const s = doubles::raw_stream();
        dead               = s.view();
    }
    auto const  before = mr.mark();
    void* const p      = mr.allocate(a, 1_KiB);
    node.faults().at(sim_call_kind::synchronize, 1, {.status = sim_status::refused}, 100);
    mr.reset(dead);
    CHECK(told.count(error_kind::leak) == 1);
    mr.unwind(before, dead);
    CHECK(told.count(error_kind::leak) == 2);
    CHECK(mr.usage().live == 1_KiB);
    node.faults().clear();
    mr.unwind(before, a); // the mark stays valid
    CHECK(mr.usage().live == 0);
    CHECK(mr.allocate(a, 1_KiB) == p);
    mr.reset(a);
    CHECK(node.reports().empty());
}

TEST_CASE("monotonic: other streams wait for a chunk that was allocated in one stream's order") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream a, b;
    monotonic  mr{sim_async_resource{}};
    busy(a, mr.allocate(a, 1_KiB), 1_KiB);
    busy(b, mr.allocate(b, 1_KiB), 1_KiB);
    CHECK(mr.usage().waits == 1);
    busy(b, mr.allocate(b, 1_KiB), 1_KiB);
    CHECK(mr.usage().waits == 1);
    mr.reset_sync();
    CHECK(node.reports().empty());
}

TEST_CASE(
    "monotonic: a retired stream may be destroyed, and one destroyed without retire is reported") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    auto                   mr = exactly(sim_resource{}, {.initial_size = 1_MiB, .max_size = 1_MiB});
    for (int i = 0; i < 50; ++i) {
        {
            sim_stream s;
            busy(s, mr.allocate(s, 1_MiB), 1_MiB);
            mr.retire(s);
        }
        mr.reset_sync();
    }
    CHECK(told.count() == 0);
    {
        sim_stream const s = doubles::raw_stream();
        busy(s, mr.allocate(s, 1_MiB), 1_MiB);
    }
    mr.reset_sync();
    sim_stream other;
    busy(other, mr.allocate(other, 1_MiB), 1_MiB);
    mr.reset_sync();
    CHECK(told.count(error_kind::dead_stream) == 1);
    CHECK(node.reports().empty());
}

TEST_CASE(
    "monotonic: a stream with a failed retire stays registered, and is waited for as before") {
    sim_node               node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    sim_stream             s, other;
    monotonic              mr{sim_resource{}, {.initial_size = 4_MiB, .max_size = 4_MiB}};
    void* const            a = mr.allocate(s, 1_MiB);
    (void)mr.allocate(other, 1_MiB);
    mr.deallocate(s, mr.allocate(s, 1_MiB), 1_MiB);
    node.faults().at(sim_call_kind::create_event, 1, {}, 2);
    CHECK_THROWS_AS(mr.retire(s), sim_error);
    node.faults().clear();
    (void)mr.allocate(other, 1_MiB);
    busy(s, a, 1_MiB, 5ms); // it has more to do
    mr.reset_sync();
    void* const p = mr.allocate(other, 4_MiB);
    busy(other, p, 4_MiB);
    mr.deallocate(other, p, 4_MiB);
    other.synchronize();
    CHECK(node.now() > 5ms);
    for (auto const& r : node.reports()) { MESSAGE(r.text()); }
    CHECK(node.reports().empty());
    mr.retire(s);
}

TEST_CASE("monotonic: more streams than initial timelines may have live memory") {
    sim_node                node{{.on_report = sim_on_report::collect}};
    monotonic               mr{sim_resource{}, {.initial_size = 1_MiB}};
    std::vector<sim_stream> streams(40);
    for (int round = 0; round < 3; ++round) {
        for (auto& s : streams) { busy(s, mr.allocate(s, 1_KiB), 1_KiB); }
        mr.reset_sync();
        std::rotate(streams.begin(), streams.begin() + 7, streams.end());
    }
    CHECK(node.reports().empty());
}

TEST_CASE("monotonic: a raw stream whose timeline serves another stream is waited for") {
    for (bool const capturing : {false, true}) {
        sim_node                node{{.compute_slots = 4, .on_report = sim_on_report::collect}};
        doubles::mishaps const  told;
        sim_stream const        s = doubles::raw_stream();
        std::vector<sim_stream> others;
        sim_stream              other;
        auto                    mr = exactly(sim_resource{}, {.initial_size = 1_MiB});
        void* const             p  = mr.allocate(s, 4_KiB);
        for (int i = 0; i < 40; ++i) { // only 16 timelines are kept for streams without uses
            others.push_back(doubles::raw_stream());
            (void)mr.allocate(others.back(), 4_KiB);
        }
        busy(s, p, 4_KiB, 50ms);
        if (capturing) { sim_graph::begin(s, sim_capture_mode::relaxed); }
        mr.reset_sync();
        if (capturing) {
            CHECK(mr.allocate(other, 4_KiB) != p);
            CHECK_NOTHROW((void)sim_graph::end(s));
            sim_platform::synchronize(s.view());
            mr.forget_captures();
            mr.reset_sync();
        }
        void* const q = mr.allocate(other, 4_KiB);
        CHECK(q == p);
        busy(other, q, 4_KiB);
        mr.reset(other);
        for (sim_stream const& each : others) { mr.retire(each); }
        mr.retire(s);
        CHECK(told.count() == 0);
        CHECK(node.reports().empty());
    }
}

TEST_CASE("monotonic: memory of a raw stream without a timeline is not reused by other captures") {
    sim_node                node{{.compute_slots = 4, .on_report = sim_on_report::collect}};
    doubles::mishaps const  told;
    sim_stream              first; // has the first timeline
    sim_stream const        s = doubles::raw_stream();
    std::vector<sim_stream> others;
    auto                    mr = exactly(sim_resource{}, {.initial_size = 1_MiB, .graphs = true});
    void* const             p  = mr.allocate(first, 4_KiB);
    mr.reset(first);
    CHECK(mr.allocate(s, 4_KiB) == p);
    for (int i = 0; i < 15; ++i) { // the last one gets the timeline of `s`
        others.push_back(doubles::raw_stream());
        (void)mr.allocate(others.back(), 4_KiB);
    }
    busy(s, p, 4_KiB, 50ms);
    sim_graph::begin(s, sim_capture_mode::relaxed);
    mr.reset_sync(); // cannot wait for `s`
    sim_graph::begin(first, sim_capture_mode::relaxed);
    void* const q = mr.allocate(first, 4_KiB);
    CHECK(q != p);
    busy(first, q, 4_KiB);
    sim_graph graph = sim_graph::end(first);
    (void)sim_graph::end(s);
    graph.launch(first);
    CHECK(mr.usage().pending >= 4_KiB);
    mr.forget_captures();
    mr.reset_sync();
    CHECK(mr.allocate(first, 4_KiB) == p);
    mr.reset_sync();
    for (sim_stream const& each : others) { mr.retire(each); }
    mr.retire(s);
    CHECK(told.count() == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("monotonic: live memory at its end is no leak, and is waited for") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    {
        sim_stream s;
        monotonic  mr{sim_resource{}};
        busy(s, mr.allocate(s, 1_MiB), 1_MiB);
        mr.retire(s);
    }
    CHECK(told.count() == 0);
    CHECK(node.figures().used == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("monotonic: foreign, stale and double frees are reported") {
    doubles::mishaps const told;
    monotonic              mr{host_resource{}};
    int                    foreign = 0;
    mr.deallocate_sync(&foreign, 4);
    CHECK(told.count(error_kind::foreign_pointer) == 1);
    CHECK(told.pointer() == &foreign);
    void* const p = mr.allocate_sync(1000);
    mr.deallocate_sync(p, 0);
    mr.deallocate_sync(p, 1001);
    CHECK(told.count(error_kind::wrong_size) == 2);
    CHECK(mr.usage().live == 1000);
    mr.deallocate_sync(p, 1000);
    mr.deallocate_sync(p, 1000);
    CHECK(told.count(error_kind::double_free) == 1);
    CHECK(mr.usage().live == 0);
    void* const q = mr.allocate_sync(500);
    (void)mr.mark();
    (void)mr.allocate_sync(700);
    mr.deallocate_sync(q, 600); // only 500 bytes are live below the mark
    CHECK(told.count(error_kind::double_free) == 2);
    CHECK(mr.usage().live == 1200);
    mr.reset_sync();
    mr.deallocate_sync(q, 500); // it was unwound
    CHECK(told.count(error_kind::double_free) == 3);
    CHECK(told.count() == 6);
    (void)mr.allocate_sync(1000);
    void* const last = mr.allocate_sync(1000);
    mr.deallocate_sync(last, 1500); // 2000 bytes are live, but it ends beyond the used memory
    CHECK(told.count(error_kind::wrong_size) == 3);
    CHECK(mr.usage().live == 2000);
}

TEST_CASE("monotonic: a refusal has every number, and chunks that are too small are freed first") {
    sim_node   node{{.capacity = 8_MiB}};
    sim_stream s;
    auto       mr = exactly(sim_resource{});
    for (int i = 0; i < 8; ++i) { (void)mr.allocate(s, 1_MiB); }
    mr.reset_sync();
    (void)mr.allocate(s, 5_MiB);
    try {
        (void)mr.allocate(s, 5_MiB + 1, 512);
        REQUIRE(false);
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == 5_MiB + 1);
        CHECK(e.numbers().rounded == 5_MiB + 256);
        CHECK(e.numbers().alignment == 512);
        CHECK(e.numbers().stream == s.id());
        CHECK(e.numbers().live == 5_MiB);
        CHECK(e.numbers().device_total == 8_MiB);
    }
    CHECK(mr.try_allocate(s, 6_MiB) == nullptr);
    CHECK(mr.try_allocate_sync(6_MiB) == nullptr);
    mr.reset(s);
    monotonic   small_one{limiting{host_resource{}, 3_MiB}}; // the policy asks for 20
    void* const q = small_one.allocate_sync(1_MiB);
    CHECK(small_one.usage().reserved <= 3_MiB);
    small_one.deallocate_sync(q, 1_MiB);
}

TEST_CASE("monotonic: a move takes its memory and its marks along") {
    monotonic   a{host_resource{}};
    auto const  here = a.mark();
    void* const p    = a.allocate_sync(1_KiB);
    monotonic   b{std::move(a)};
    CHECK(b.usage().live == 1_KiB);
    b.unwind_sync(here);
    CHECK(b.allocate_sync(1_KiB) == p);
    a             = monotonic{host_resource{}};
    void* const q = a.allocate_sync(2_KiB);
    b             = std::move(a);
    CHECK(b.usage().live == 2_KiB);
    b.deallocate_sync(q, 2_KiB);
}

TEST_CASE("monotonic: memory that a capture used is not reused until the graphs are forgotten") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream s, other;
    auto mr = exactly(sim_resource{}, {.initial_size = 1_MiB, .max_size = 1_MiB, .graphs = true});
    sim_graph::begin(s);
    void* const p = mr.allocate(s, 1_MiB);
    mr.reset(s);
    CHECK(mr.allocate(s, 1_MiB) == p); // the capture's own
    mr.reset(s);
    sim_graph const graph = sim_graph::end(s);
    CHECK(mr.try_allocate(other, 1_MiB) == nullptr);
    CHECK(mr.try_allocate_sync(1_MiB) == nullptr);
    CHECK(mr.trim() == 0);
    mr.forget_captures();
    CHECK(mr.allocate(other, 1_MiB) == p);
    mr.reset_sync();
}

TEST_CASE("monotonic: memory allocated in a capture belongs to the graph, whenever it is unwound") {
    for (bool const freed : {true, false}) {
        for (bool const retires : {true, false}) {
            sim_node   node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
            sim_stream s, other;
            auto       mr =
                exactly(sim_resource{}, {.initial_size = 2_MiB, .max_size = 2_MiB, .graphs = true});
            void* const before = mr.allocate(s, 1_MiB);
            sim_graph::begin(s);
            void* const p = mr.allocate(s, 1_MiB);
            busy(s, p, 1_MiB, 5ms);
            if (freed) { mr.deallocate(s, p, 1_MiB); }
            sim_graph const graph = sim_graph::end(s);
            graph.launch(s);
            if (retires) { mr.retire(s); }
            mr.reset(other);
            CHECK(mr.allocate(other, 1_MiB) == before);
            CHECK(mr.try_allocate(other, 1_MiB) == nullptr);
            CHECK(mr.try_allocate(s, 1_MiB) == nullptr);
            CHECK(mr.try_allocate_sync(1_MiB) == nullptr);
            mr.forget_captures();
            CHECK(mr.allocate(other, 1_MiB) == p);
            busy(other, p, 1_MiB);
            mr.reset(other);
            CHECK(node.reports().empty());
        }
    }
}

TEST_CASE("monotonic: a block of a capture that is live when captures are forgotten stays in use") {
    sim_node   node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
    sim_stream s, other;
    auto mr = exactly(sim_resource{}, {.initial_size = 1_MiB, .max_size = 1_MiB, .graphs = true});
    sim_graph::begin(s);
    void* const p = mr.allocate(s, 1_MiB);
    (void)sim_graph::end(s);
    mr.forget_captures();
    CHECK(mr.usage().waits == 1);
    busy(s, p, 1_MiB, 5ms);
    mr.reset_sync();
    busy(other, mr.allocate(other, 1_MiB), 1_MiB);
    CHECK(mr.usage().waits == 2);
    mr.reset(other);
    CHECK(node.reports().empty());
}

TEST_CASE("monotonic: with event_policy::eager a stream may be destroyed after the reset") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    pool_options const     one_event_each{
            .initial_size = 1_MiB, .max_size = 1_MiB, .events = event_policy::eager};
    sim_stream other;
    auto       mr = exactly(sim_resource{}, one_event_each);
    for (int i = 0; i < 3; ++i) {
        {
            sim_stream const s = doubles::raw_stream();
            for (std::size_t bytes = 4_KiB; bytes >= 1_KiB; bytes /= 2) {
                void* const p = mr.allocate(s, bytes);
                busy(s, p, bytes);
                mr.deallocate(s, p, bytes);
            }
            mr.reset(s);
        }
        busy(other, mr.allocate(other, 1_MiB), 1_MiB);
        mr.reset(other);
    }
    CHECK(mr.usage().events == 6);
    CHECK(told.count() == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("monotonic: frees on known streams and a reset without a stream need no host memory") {
    doubles::mishaps const told;
    sim_node               node{{.checks = {.races = false, .bounds = false}}};
    sim_stream             a, b, other;
    auto                   mr = exactly(sim_resource{}, {.initial_size = 1_MiB, .graphs = true});
    std::vector<void*>     blocks;
    auto const             user = [&](std::size_t i) { return (i / 2 % 2 == 0 ? a : b).view(); };
    for (std::size_t i = 0; i < 48; ++i) { blocks.push_back(mr.allocate(user(i), 256)); }
    mr.deallocate(other, blocks[44], 256);
    sim_graph::begin(a);
    {
        doubles::bombing armed{1};
        for (std::size_t i = 0; i < 47; ++i) {
            if (i != 44) { mr.deallocate(user(i), blocks[i], 256); }
        }
        mr.deallocate(other, blocks[47], 256);
        mr.reset_sync();
        CHECK_FALSE(armed.defuse());
    }
    (void)sim_graph::end(a);
    CHECK(mr.usage().live == 0);
    CHECK(mr.try_allocate_sync(256) != blocks[0]);
    mr.forget_captures();
    CHECK(mr.allocate_sync(256) != nullptr);
    mr.reset_sync();
    CHECK(told.count() == 0);
    CHECK(node.reports().empty());
}

TEST_CASE(
    "monotonic: memory that a capture used is retained, and earlier memory of its stream is not") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream s, other;
    auto mr = exactly(sim_resource{}, {.initial_size = 4_MiB, .max_size = 4_MiB, .graphs = true});
    void* const before = mr.allocate(s, 1_MiB);
    sim_graph::begin(s);
    void* const p = mr.allocate(s, 1_MiB);
    void* const q = mr.allocate(s, 1_MiB);
    mr.deallocate(s, p, 1_MiB); // with another above it
    mr.deallocate(s, q, 1_MiB);
    sim_graph const graph = sim_graph::end(s);
    mr.deallocate(s, before, 1_MiB);
    mr.reset(s);
    CHECK(mr.allocate(s, 1_MiB) == before);
    CHECK(mr.try_allocate(s, 1_MiB) == nullptr);
    CHECK(mr.try_allocate(other, 1_MiB) == nullptr);
    mr.forget_captures();
    CHECK(mr.allocate(other, 1_MiB) == p);
    mr.reset_sync();
    CHECK(node.reports().empty());
}

TEST_CASE(
    "monotonic: memory that a capture freed is retained, unwound before or after forget_captures") {
    for (bool const unwound_first : {true, false}) {
        sim_node   node{{.on_report = sim_on_report::collect}};
        sim_stream s, other;
        auto       mr =
            exactly(sim_resource{}, {.initial_size = 2_MiB, .max_size = 2_MiB, .graphs = true});
        auto const  start = mr.mark();
        void* const p     = mr.allocate(s, 1_MiB);
        (void)mr.allocate(s, 1_MiB);
        sim_graph::begin(s);
        mr.deallocate(s, p, 1_MiB);
        sim_graph const graph = sim_graph::end(s);
        if (unwound_first) {
            mr.unwind_sync(start);
            CHECK(mr.try_allocate(other, 1_MiB) == nullptr);
        }
        mr.forget_captures();
        mr.unwind_sync(start);
        CHECK(mr.allocate(other, 1_MiB) == p);
        mr.reset_sync();
    }
}

TEST_CASE("monotonic: a graph's memory stays retained if a later capture used or skipped it") {
    for (std::size_t const alignment : {std::size_t{256}, std::size_t{1_MiB}}) {
        sim_node   node{{.on_report = sim_on_report::collect}};
        sim_stream s, other;
        auto       mr =
            exactly(sim_resource{}, {.initial_size = 2_MiB, .max_size = 2_MiB, .graphs = true});
        (void)mr.allocate(s, 1_KiB);
        auto const here = mr.mark();
        sim_graph::begin(s);
        void* const     p     = mr.allocate(s, 1_KiB);
        sim_graph const first = sim_graph::end(s);
        mr.unwind_sync(here);
        sim_graph::begin(s);
        void* const q = mr.allocate(s, 1_KiB, alignment);
        CHECK((q == p) == (alignment == 256));
        sim_graph const second = sim_graph::end(s);
        mr.deallocate(s, q, 1_KiB);
        mr.reset_sync();
        CHECK(mr.allocate(other, 1_KiB) != nullptr);
        CHECK(mr.try_allocate(other, 1_KiB) == nullptr);
        mr.forget_captures();
        CHECK(mr.allocate(other, 1_KiB) == p);
        mr.reset_sync();
    }
}

TEST_CASE("monotonic: forget_captures waits for uses of a stream outside its graphs") {
    for (bool const lent : {true, false}) { // lent to `s`, or taken by it
        sim_node   node{{.on_report = sim_on_report::collect}};
        sim_stream s, other;
        auto       mr =
            exactly(sim_resource{}, {.initial_size = 3_MiB, .max_size = 3_MiB, .graphs = true});
        void* const a = mr.allocate(lent ? other : s, 1_MiB);
        void* const b = mr.allocate(lent ? other : s, 1_MiB);
        (void)mr.allocate(other, 1_MiB);
        sim_graph::begin(s);
        mr.deallocate(s, b, 1_MiB);
        sim_graph const graph = sim_graph::end(s);
        if (lent) { other.synchronize(); } // now each stream may use the blocks
        busy(s, a, 1_MiB);
        mr.deallocate(s, a, 1_MiB);
        mr.reset_sync();
        mr.forget_captures();
        void* const p = mr.allocate(other, 1_MiB);
        CHECK(p == a);
        busy(other, p, 1_MiB);
        mr.reset_sync();
        other.synchronize();
        CHECK(node.reports().empty());
    }
}

TEST_CASE("monotonic: no operation breaks a capture") {
    laws::captures_go_on([](event_policy events, bool graphs) {
        return doubles::resetting{exactly(sim_resource{} | with::stream_ordered,
                                          {.max_size = 8_MiB, .events = events, .graphs = graphs})};
    });
}

TEST_CASE("monotonic: it forwards forget_captures to the upstream") {
    monotonic mr{doubles::archetype<>{}};
    mr.forget_captures();
    CHECK(mr.upstream().forgotten() == 1);
}

TEST_CASE("monotonic: it forwards retire to the upstream") {
    monotonic mr{doubles::archetype<>{}};
    mr.retire({});
    CHECK(mr.upstream().retired() == 1);
}

TEST_CASE("monotonic: a captured stream without enough memory is refused, without a wait") {
    for (auto const mode : {sim_capture_mode::global, sim_capture_mode::thread_local_only,
                            sim_capture_mode::relaxed}) {
        sim_node   node{{.on_report = sim_on_report::collect}};
        sim_stream s, other;
        auto       mr = exactly(sim_resource{}, {.max_size = 2_MiB});
        busy(other, mr.allocate(other, 1_MiB), 1_MiB);
        mr.reset_sync();
        sim_graph::begin(s, mode);
        auto const before = node.now();
        CHECK(mr.try_allocate(s, 2_MiB) == nullptr); // idle memory would have to be freed first
        CHECK_THROWS_AS((void)mr.allocate(s, 2_MiB), out_of_memory);
        CHECK(mr.usage().reserved == 1_MiB);
        CHECK(node.now() == before);
        void* const p = mr.allocate(s, 1_MiB);
        CHECK(sim_graph::end(s).size() == 0);
        CHECK(p != nullptr);
        mr.reset_sync();
        CHECK(mr.try_allocate(s, 2_MiB) != nullptr); // it may wait again
        CHECK(node.reports().empty());
    }
}

TEST_CASE("monotonic: if the policy exceeds the limit, the rest of the limit is one chunk") {
    monotonic mr{host_resource{}, {.max_size = 1_MiB + 1}, fixed_growth{.step = 3_MiB}};
    (void)mr.allocate_sync(1);
    CHECK(mr.usage().reserved == 1_MiB);
    CHECK(mr.usage().upstream == 1);
    mr.reset_sync();
}

TEST_CASE("monotonic: a policy receives the free bytes of the device if it needs them") {
    sim_node   node{{.capacity = 64_MiB}};
    sim_stream s;
    monotonic  mr{sim_resource{}, {}, device_share_growth{.percent = 25}};
    (void)mr.allocate_sync(1_KiB);
    CHECK(mr.usage().reserved == 16_MiB);
    (void)mr.allocate(s, 16_MiB - 1_KiB);
    (void)mr.allocate(s, 1_KiB); // of 48 MiB that are left
    CHECK(mr.usage().reserved == 28_MiB);
}

TEST_CASE("monotonic: memory of a stream that is being captured is unavailable to others") {
    for (bool const graphs : {true, false}) {
        sim_node   node{{.on_report = sim_on_report::collect}};
        sim_stream s, other;
        auto       mr =
            exactly(sim_resource{}, {.initial_size = 1_MiB, .max_size = 1_MiB, .graphs = graphs});
        busy(s, mr.allocate(s, 1_MiB), 1_MiB);
        mr.reset_sync();
        sim_graph::begin(s);
        CHECK(mr.try_allocate(other, 1_MiB) == nullptr);
        CHECK(mr.try_allocate_sync(1_MiB) == nullptr);
        CHECK(mr.trim() == 0);
        sim_graph const graph = sim_graph::end(s);
        if (!graphs) { mr.forget_captures(); } // it could not tell
        CHECK(mr.allocate(other, 1_MiB) != nullptr);
        mr.reset_sync();
    }
}

TEST_CASE("monotonic: a chunk without live blocks may be freed although an earlier one is in use") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream s;
    auto       mr = exactly(sim_resource{}, {.max_size = 40_MiB});
    (void)mr.allocate(s, 1_MiB);
    auto const here = mr.mark();
    busy(s, mr.allocate(s, 30_MiB), 30_MiB);
    mr.unwind(here, s);
    CHECK(mr.free_memory().releasable == 30_MiB);
    (void)mr.allocate(s, 35_MiB); // which is why it goes
    CHECK(mr.usage().reserved == 36_MiB);
    mr.unwind(here, s);
    CHECK(mr.trim() == 35_MiB);
    CHECK(mr.trim() == 0);
    mr.reset(s);
    CHECK(mr.trim() == 1_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("monotonic: a chunk that a graph retains does not keep others from being freed") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream s;
    auto       mr = exactly(sim_resource{}, {.max_size = 6_MiB, .graphs = true});
    for (int i = 0; i < 2; ++i) { (void)mr.allocate(s, 2_MiB); }
    sim_graph::begin(s, sim_capture_mode::relaxed);
    mr.deallocate(s, mr.allocate(s, 2_MiB), 2_MiB);
    sim_graph const graph = sim_graph::end(s);
    mr.reset(s);
    CHECK(mr.free_memory().releasable == 4_MiB);
    void* const c = mr.try_allocate(s, 4_MiB);
    CHECK(c != nullptr);
    CHECK(mr.usage().reserved == 6_MiB);
    mr.reset(s);
    CHECK(mr.trim() == 4_MiB);
    mr.forget_captures();
    CHECK(mr.trim() == 2_MiB);
}

TEST_CASE("monotonic: a free whose stream is neither recorded nor waited for does not count") {
    sim_node         node{{.on_report = sim_on_report::collect}};
    sim_stream       a;
    doubles::mishaps told;
    auto             mr = exactly(sim_resource{}, {.initial_size = 1_MiB});
    sim_stream_view  dead;
    {
        sim_stream const s = doubles::raw_stream();
        dead               = s.view();
    }
    void* const p = mr.allocate(a, 1_KiB);
    node.faults().at(sim_call_kind::synchronize, 1, {.status = sim_status::refused}, 100);
    mr.deallocate(dead, p, 1_KiB);
    CHECK(told.count(error_kind::leak) == 1);
    CHECK(mr.usage().live == 1_KiB);
    node.faults().clear();
    mr.deallocate(a, p, 1_KiB);
    CHECK(mr.usage().live == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("monotonic: after any failed platform call nothing is lost") {
    laws::survives_platform_faults(
        [](event_policy events) { return exactly(sim_resource{}, {.events = events}); },
        [](auto& mr, sim_stream_view a, sim_stream_view b) {
            for (int i = 0; i < 4; ++i) {
                try {
                    for (sim_stream_view const s : {a, b, b}) {
                        void* const p = mr.allocate(s, 1_MiB);
                        busy(s, p, 1_MiB);
                        if (i == 1) { mr.deallocate(s, p, 1_MiB); }
                    }
                    (void)mr.allocate_sync(2_MiB);
                } catch (std::exception const&) {}
                i % 2 == 0 ? mr.reset(b) : mr.reset_sync();
                CHECK(mr.usage().live == 0);
            }
        });
}

TEST_CASE("monotonic: it passes ten thousand random steps with marks on sixteen streams") {
    struct piece {
        void*       p;
        std::size_t bytes;
        std::size_t user;
    };
    for (std::uint64_t const seed : {401U, 402U, 403U, 404U}) {
        CAPTURE(seed);
        bool const eager = seed % 2 == 0;
        sim_node   node{{.on_report = sim_on_report::collect}};
        {
            std::mt19937_64                random{seed};
            laws::stream_set<sim_platform> streams{16};
            auto                           mr = exactly(
                sim_resource{},
                {.max_size = 4_MiB, .events = eager ? event_policy::eager : event_policy::lazy});
            std::vector<piece>                                  out;
            std::vector<std::pair<monotonic_mark, std::size_t>> marks;
            std::size_t                                         live = 0;
            for (unsigned i = 0; i < laws::of_many(2500); ++i) {
                auto const dice = random() % 32;
                if (dice < 20) {
                    std::size_t const bytes = 1 + random() % (random() % 16 == 0 ? 65536 : 2048);
                    std::size_t const align = std::size_t{1} << random() % 13;
                    std::size_t const user  = random() % 3 == 0 ? random() % 16 : random() % 4;
                    bool const        sync  = random() % 16 == 0;
                    void* const       p     = sync ? mr.try_allocate_sync(bytes, align)
                                                   : mr.try_allocate(streams[user], bytes, align);
                    if (p == nullptr) {
                        random() % 2 == 0 ? mr.reset_sync() : mr.reset(streams[user]);
                        out.clear();
                        marks.clear();
                        live = 0;
                        continue;
                    }
                    if (!is_aligned(p, align)) { FAIL("not aligned"); }
                    busy(streams[user], p, bytes, 1us);
                    // No pending use, if unwound.
                    if (sync) { sim_platform::synchronize(streams[user]); }
                    out.push_back({p, bytes, user});
                    live += bytes;
                } else if (dice < 26 && !out.empty()) {
                    std::size_t const at =
                        random() % 2 == 0 ? out.size() - 1 : random() % out.size();
                    piece const b = out[at];
                    if (b.p == nullptr) { continue; }
                    std::size_t const to = random() % 2 == 0 ? b.user : random() % 16;
                    streams.order(streams[b.user], streams[to]);
                    if (random() % 8 == 0) {
                        sim_platform::synchronize(streams[to]);
                        mr.deallocate_sync(b.p, b.bytes);
                    } else {
                        mr.deallocate(streams[to], b.p, b.bytes);
                    }
                    out[at].p = nullptr;
                    live -= b.bytes;
                } else if (dice < 29) {
                    marks.emplace_back(mr.mark(), out.size());
                } else if (dice < 31 && !marks.empty()) {
                    std::size_t const at = marks.size() - 1 - random() % marks.size() / 2;
                    for (std::size_t k = marks[at].second; k < out.size(); ++k) {
                        if (out[k].p != nullptr) { live -= out[k].bytes; }
                    }
                    out.resize(marks[at].second);
                    if (random() % 2 == 0) {
                        mr.unwind_sync(marks[at].first);
                    } else {
                        mr.unwind(marks[at].first, streams[random() % 16]);
                    }
                    marks.resize(at + 1, marks[0]);
                }
                if (mr.usage().live != live) { FAIL("the figures do not agree"); }
            }
            mr.reset_sync();
            streams.retire_from(mr);
            streams.synchronize();
            mr.trim();
            CHECK(mr.usage().reserved == 0);
        }
        for (auto const& r : node.reports()) { MESSAGE(r.text()); }
        CHECK(node.reports().empty());
        CHECK(node.figures().used == 0);
    }
}

TEST_CASE("monotonic: it is correct for two streams with six operations each, in every order") {
    laws::every_interleaving([] { return doubles::resetting{exactly(sim_resource{})}; }, 8_MiB);
}

TEST_CASE("monotonic: a stream that has ended is not lost if another uses its slot") {
    sim_node               node;
    doubles::mishaps const told;
    {
        monotonic                 memory{sim_resource{}};
        std::optional<sim_stream> first{std::in_place};
        std::vector<sim_stream>   others(15);
        (void)memory.allocate(*first, 4096);
        for (sim_stream const& s : others) { (void)memory.allocate(s, 4096); }
        sim_stream const late;
        void* const      p = memory.allocate(others[0], 4096);
        first.reset();
        memory.deallocate(late, p, 4096); // which makes `late` known, without an allocation
        memory.reset_sync();
        (void)memory.allocate(late, 4096);
        memory.reset_sync();
    }
    CHECK(told.count() == 0);
    CHECK(node.reports().empty());
}
