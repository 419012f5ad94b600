// SPDX-License-Identifier: Apache-2.0
// Another thread may begin to capture a stream at any time, also while a pool queries that stream.
#include <vram/sim/sim.hpp>

#include "../doubles/mishaps.hpp"
#include "../doubles/streams_at_work.hpp"
#include "pools_of_one_chunk.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <utility>

using namespace vram;
using namespace std::chrono_literals;

namespace proofs {

/// Simulates another thread between the check for a capture and the record of an event: `meanwhile`
/// is called once, before the next event, and `afterwards` once, after the next one.
struct overtaken_platform : sim_platform {
    static void record(event& e, stream s, at where = at::current()) {
        if (auto const once = std::exchange(meanwhile, nullptr)) { once(); }
        sim_platform::record(e, s, where);
        if (auto const once = std::exchange(afterwards, nullptr)) { once(); }
    }
    /// Another thread captures `s` while the next event is recorded, and ends the capture at once.
    static void capture_briefly(sim_stream& s) {
        meanwhile = [&s] {
            sim_graph::begin(s, sim_capture_mode::relaxed);
            afterwards = [&s] { (void)sim_graph::end(s); };
        };
    }
    static inline std::function<void()> meanwhile, afterwards;
};

/// Its device memory.
struct overtaken_memory {
    using platform   = overtaken_platform;
    using properties = sim_resource::properties;

    [[nodiscard]] void* allocate_sync(std::size_t n, std::size_t a = default_alignment) {
        return memory.allocate_sync(n, a);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t n,
                                          std::size_t a = default_alignment) noexcept {
        return memory.try_allocate_sync(n, a);
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = default_alignment) noexcept {
        memory.deallocate_sync(p, n, a);
    }
    friend bool operator==(overtaken_memory const&, overtaken_memory const&) = default;

    sim_resource memory{};
};

} // namespace proofs

TEST_CASE("every pool: a capture that begins during an event record keeps the event, and the pool "
          "does without") {
    proofs::for_pools_over_any([](std::string const&, auto make) {
        for (bool const graphs : {false, true}) {
            for (int const how : {0, 1, 2}) { // the caller: a stream, the host, a trim
                CAPTURE(graphs);
                CAPTURE(how);
                doubles::mishaps const told;
                sim_node   node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
                sim_stream s, other;
                {
                    auto  mr = make(stream_ordered{proofs::overtaken_memory{}}, {.graphs = graphs});
                    void* p  = mr.allocate(s, 1_MiB);
                    doubles::busy(s, p, 1_MiB, 5ms);
                    mr.deallocate(s, p, 1_MiB);
                    bool began                            = false;
                    proofs::overtaken_platform::meanwhile = [&] {
                        sim_graph::begin(s, sim_capture_mode::relaxed);
                        began = true;
                    };
                    p = nullptr;
                    if (how == 0) { CHECK_NOTHROW(p = mr.try_allocate(other, 1_MiB)); }
                    if (how == 1) { CHECK_NOTHROW(p = mr.try_allocate_sync(1_MiB)); }
                    if (how == 2) { CHECK(mr.trim() == 0); }
                    CHECK(began);
                    CHECK(p == nullptr); // the graph may have it now
                    CHECK_NOTHROW((void)sim_graph::end(s));
                    // Without `graphs` the pool does not know when the capture ended.
                    if (!graphs) { mr.forget_captures(); }
                    p = how == 1 ? mr.allocate_sync(1_MiB) : mr.allocate(other, 1_MiB);
                    doubles::busy(other, p, 1_MiB);
                    mr.deallocate(other, p, 1_MiB);
                    other.synchronize();
                    p = mr.allocate(s, 1_MiB);
                    mr.deallocate(s, p, 1_MiB);
                    CHECK(mr.usage().live == 0);
                    CHECK(mr.trim() == 1_MiB);
                }
                CHECK(told.count() == 0);
                CHECK(node.figures().used == 0);
                for (auto const& r : node.reports()) { MESSAGE(r.text()); }
                CHECK(node.reports().empty());
            }
        }
    });
}

TEST_CASE("every pool, eager: a capture that begins while a free records its event keeps the "
          "event, and the pool does without") {
    proofs::for_pools_over_any([](std::string const&, auto make) {
        for (bool const fresh : {false, true}) { // the event of a free, or of a new chunk
            CAPTURE(fresh);
            doubles::mishaps const told;
            sim_node               node{{.on_report = sim_on_report::collect}};
            sim_stream             s, other;
            {
                auto       mr    = make(stream_ordered{proofs::overtaken_memory{}},
                                        {.events = event_policy::eager});
                auto const begin = [&] { sim_graph::begin(s, sim_capture_mode::relaxed); };
                if (fresh) { proofs::overtaken_platform::meanwhile = begin; }
                void* p = mr.allocate(s, 1_MiB);
                if (!fresh) {
                    doubles::busy(s, p, 1_MiB);
                    proofs::overtaken_platform::meanwhile = begin;
                    mr.deallocate(s, p, 1_MiB);
                }
                REQUIRE_FALSE(proofs::overtaken_platform::meanwhile);
                CHECK_NOTHROW((void)mr.try_allocate(other, 1_MiB));
                CHECK_NOTHROW((void)sim_graph::end(s));
                if (fresh) { mr.deallocate(s, p, 1_MiB); }
                CHECK_NOTHROW(p = mr.allocate(other, 1_MiB));
                doubles::busy(other, p, 1_MiB);
                mr.deallocate(other, p, 1_MiB);
                mr.forget_captures();
                CHECK(mr.trim() == 1_MiB);
            }
            CHECK(told.count() == 0);
            CHECK(node.figures().used == 0);
            for (auto const& r : node.reports()) { MESSAGE(r.text()); }
            CHECK(node.reports().empty());
        }
    });
}

TEST_CASE(
    "every pool, eager: an event that became part of a graph is recorded again after the next "
    "capture of the stream") {
    proofs::for_pools_over_any([](std::string const& name, auto make) {
        for (int const how : {0, 1, 2}) { // during that capture: an allocation, a trim, the end
            CAPTURE(how);
            doubles::mishaps const told;
            sim_node               node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
            sim_stream             s, other;
            {
                auto  mr = make(stream_ordered{proofs::overtaken_memory{}},
                                {.events = event_policy::eager});
                void* p  = mr.allocate(s, 1_MiB);
                doubles::busy(s, p, 1_MiB, 5ms);
                proofs::overtaken_platform::capture_briefly(s);
                mr.deallocate(s, p, 1_MiB);
                REQUIRE_FALSE(proofs::overtaken_platform::afterwards);
                sim_graph::begin(s, sim_capture_mode::relaxed);
                if (how == 0) {
                    CHECK_NOTHROW(p = mr.try_allocate(other, 1_MiB));
                    // The reset of a monotonic records another event, after the capture.
                    CHECK((p == nullptr || name == "monotonic"));
                    if (p != nullptr) { mr.deallocate(other, p, 1_MiB); }
                }
                if (how == 1) { CHECK((mr.trim() == 0 || name == "monotonic")); }
                if (how == 2) {
                    if constexpr (promptly_trimmable_resource<decltype(mr)>) {
                        (void)mr.trim_no_wait();
                    }
                    auto const ends = std::move(mr); // waits for the device
                }
                CHECK_NOTHROW((void)sim_graph::end(s));
                if (how != 2) {
                    mr.forget_captures();
                    p = mr.allocate(other, 1_MiB);
                    doubles::busy(other, p, 1_MiB);
                    mr.deallocate(other, p, 1_MiB);
                    other.synchronize();
                    CHECK(mr.trim() == 1_MiB);
                }
            }
            // At the end, the wait for the event of a graph fails, and the device is waited for.
            CHECK(told.count() <= (how == 2 ? 1 : 0));
            CHECK(node.figures().used == 0);
            for (auto const& r : node.reports()) { MESSAGE(r.text()); }
            CHECK(node.reports().empty());
        }
    });
}

TEST_CASE("stream_ordered: a free whose event became part of a graph is returned after the next "
          "capture of the stream") {
    doubles::mishaps const told;
    sim_node               node{{.on_report = sim_on_report::collect}};
    sim_stream             s;
    stream_ordered         mr{proofs::overtaken_memory{}};
    void* const            p = mr.allocate(s, 1_MiB);
    doubles::busy(s, p, 1_MiB);
    proofs::overtaken_platform::capture_briefly(s);
    mr.deallocate(s, p, 1_MiB);
    sim_graph::begin(s, sim_capture_mode::relaxed);
    void* q = mr.allocate_sync(4_KiB); // its collection finds the event in the graph
    (void)sim_graph::end(s);
    s.synchronize();
    for (int i = 0; i != 3; ++i) {
        mr.deallocate_sync(q, 4_KiB);
        q = mr.allocate_sync(4_KiB);
    }
    CHECK(mr.usage().pending == 0);
    mr.deallocate_sync(q, 4_KiB);
    CHECK(told.count() == 0);
    CHECK(node.reports().empty());
}
