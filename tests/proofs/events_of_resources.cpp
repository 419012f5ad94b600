// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/observer.hpp>

#include "../doubles/mishaps.hpp"
#include "../doubles/recorder.hpp"
#include "../doubles/streams_at_work.hpp"
#include "pools_of_one_chunk.hpp"

#include <vram/layer/limiting.hpp>
#include <vram/layer/observed.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace events_of_resources {

using namespace vram;
using namespace std::chrono_literals;

using kind = memory_event_kind;
using log  = doubles::recorder<sim_stream_view>;

/// Returns the number of waits of streams, or of the host, in the events of the resource `name`.
std::size_t waits(log const& in, std::string const& name, bool of_streams) {
    std::size_t n = 0;
    for (auto const& e : in.events) {
        n += e.kind == kind::stream_waited && name == e.name && e.stream.has_value() == of_streams;
    }
    return n;
}

TEST_CASE("every pool: blocks, chunks, waits and refusals are notified") {
    proofs::for_pools_over_any([](std::string const& name, auto make) {
        doubles::mishaps const told;
        sim_node               node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
        sim_stream             s, t;
        log                    seen;
        {
            auto  mr = make(observed{stream_ordered{sim_resource{}}, std::ref(seen)}, {});
            void* p  = mr.allocate(s, 1_MiB);
            CHECK(seen.count(kind::chunk_added, name) == 1);
            CHECK(seen.count(kind::allocated, name) == 1);
            CHECK(mr.try_allocate(s, 1_MiB) == nullptr);
            CHECK(seen.count(kind::refused, name) == 1);
            if (name != "monotonic") { // `resetting` counts each free
                mr.deallocate(s, &seen, 1_MiB);
                CHECK(seen.count(kind::free_refused, name) == 1);
            }
            doubles::busy(s, p, 1_MiB, 5ms);
            mr.deallocate(s, p, 1_MiB);
            CHECK(waits(seen, name, true) == 0);
            p = mr.allocate(t, 1_MiB);
            CHECK(waits(seen, name, true) == 1);
            CHECK(waits(seen, name, false) == 0);
            doubles::busy(t, p, 1_MiB, 5ms);
            mr.deallocate(t, p, 1_MiB);
            CHECK(seen.count(kind::chunk_removed, name) == 0);
            CHECK(mr.trim() == 1_MiB);
            CHECK(waits(seen, name, false) == 1);
            CHECK(seen.count(kind::chunk_removed, name) == 1);
            p = mr.allocate(s, 1_MiB);
            doubles::busy(s, p, 1_MiB, 5ms);
            mr.deallocate(s, p, 1_MiB);
        }
        CHECK(waits(seen, name, false) == 2); // the second one at the end
        CHECK(seen.count(kind::chunk_removed, name) == 2);
        CHECK(seen.wrong == std::vector<std::string>{});
        for (sim_report const& r : node.take_reports()) {
            CHECK_MESSAGE(r.kind == sim_mistake::foreign_free, r.text());
        }
    });
}

TEST_CASE("stream_ordered: blocks, waits, completed frees and refusals are notified") {
    doubles::mishaps const told;
    sim_node               node{{.capacity = 1_MiB, .on_report = sim_on_report::collect}};
    sim_stream             s, t;
    log                    seen;
    std::string const      name = "stream_ordered";
    {
        stream_ordered mr{observed{sim_resource{}, std::ref(seen)}};
        void*          p = mr.allocate(s, 1_MiB);
        CHECK(mr.try_allocate(t, 1_MiB) == nullptr);
        CHECK(seen.count(kind::refused, name) == 1);
        doubles::busy(s, p, 1_MiB, 5ms);
        mr.deallocate(s, p, 1_MiB);
        CHECK(seen.count(kind::free_completed, name) == 0);
        mr.deallocate(s, p, 1_MiB);
        CHECK(seen.count(kind::free_refused, name) == 1);
        p = mr.allocate(t, 1_MiB); // the host waits for the kernel
        CHECK(waits(seen, name, false) == 1);
        CHECK(waits(seen, name, true) == 0);
        CHECK(seen.count(kind::free_completed, name) == 1);
        CHECK(seen.count(kind::chunk_removed, name) == 1);
        mr.deallocate_sync(p, 1_MiB);
        CHECK(seen.count(kind::free_completed, name) == 2);
        p = mr.allocate(s, 1_MiB);
        doubles::busy(s, p, 1_MiB, 5ms);
        mr.deallocate(s, p, 1_MiB);
    }
    CHECK(waits(seen, name, false) == 2);
    CHECK(seen.count(kind::free_completed, name) == 3);
    CHECK(seen.count(kind::allocated, name) == 3);
    CHECK(seen.wrong == std::vector<std::string>{});
    for (sim_report const& r : node.take_reports()) {
        CHECK_MESSAGE(r.kind == sim_mistake::double_free, r.text());
    }
}

TEST_CASE("limiting: a refusal by the limit is notified, one by the upstream is not") {
    sim_node const node{{.capacity = 1_MiB}};
    sim_stream     s;
    log            seen;
    limiting       mr{observed{stream_ordered{sim_resource{}}, std::ref(seen)}, 2_MiB};
    CHECK(mr.try_allocate(s, 3_MiB) == nullptr);
    CHECK(mr.try_allocate_sync(3_MiB) == nullptr);
    CHECK_THROWS_AS((void)mr.allocate(s, 3_MiB), over_limit);
    CHECK_THROWS_AS((void)mr.allocate_sync(3_MiB), over_limit);
    CHECK(seen.count(kind::refused, "limiting") == 4);
    CHECK(seen.events.front().bytes == 3_MiB);
    CHECK(seen.events.front().stream == s.view());
    CHECK(mr.try_allocate(s, 2_MiB) == nullptr);
    CHECK(seen.count(kind::refused) == 4);
}

} // namespace events_of_resources
