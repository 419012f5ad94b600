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
/// is called once, before the next event.
struct overtaken_platform : sim_platform {
    static void record(event& e, stream s, at where = at::current()) {
        if (auto const once = std::exchange(meanwhile, nullptr)) { once(); }
        sim_platform::record(e, s, where);
    }
    static inline std::function<void()> meanwhile;
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
