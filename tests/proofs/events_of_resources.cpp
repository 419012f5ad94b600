// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/observer.hpp>

#include "../doubles/mishaps.hpp"
#include "../doubles/recorder.hpp"
#include "../doubles/streams_at_work.hpp"
#include "pools_of_one_chunk.hpp"

#include <vram/layer/limiting.hpp>
#include <vram/layer/observed.hpp>
#include <vram/layer/retrying.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
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

/// Returns a letter for each kind of event that the resource `name` sent, and `-` for each other
/// kind: allocated, freed, free refused, all freed, chunk added and removed, pages mapped and
/// unmapped, stream waited, free completed, refused, retried, marked.
std::string kinds_of(log const& in, std::string const& name) {
    std::string found = "afxrcdmuwoRtM";
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (in.count(static_cast<kind>(i), name) == 0) { found[i] = '-'; }
    }
    return found;
}

/// Causes each kind of event that a resource can send.
template <class Resource>
void provoke(Resource& mr, log& seen) {
    sim_stream s, t;
    void*      p = mr.allocate(s, 1_MiB);
    CHECK(mr.try_allocate(s, 1_GiB) == nullptr);
    doubles::busy(s, p, 1_MiB, 5ms);
    mr.deallocate(s, p, 1_MiB);
    p = mr.allocate(t, 1_MiB);
    mr.deallocate(t, p, 1_MiB);
    (void)mr.trim();
    mr.deallocate(s, &seen, 1_MiB); // a foreign pointer
    if (auto* const large = mr.try_allocate(s, 4_MiB)) {
        void* const more = mr.allocate(s, 4_MiB);
        mr.deallocate(s, large, 4_MiB);
        (void)mr.trim(); // pages of the chunk are unmapped
        mr.deallocate(s, more, 4_MiB);
    }
}

/// A policy that asks for one more attempt.
struct once_more {
    static constexpr unsigned max_tries = 1;
    template <class Resource>
    bool operator()(Resource&, failed_attempt const&) const {
        return true;
    }
};

TEST_CASE("the table of the resources and the kinds of events that they send") {
    doubles::mishaps const told;
    sim_options const      options{
             .capacity = 64_MiB, .compute_slots = 2, .on_report = sim_on_report::collect};
    auto const kinds = [&](std::string const& name, auto upstream, auto make) {
        sim_node const node{options};
        log            seen;
        {
            auto mr = make(observed{upstream(), std::ref(seen)});
            provoke(mr, seen);
        }
        CHECK(seen.wrong == std::vector<std::string>{});
        return kinds_of(seen, name);
    };
    auto const plain  = [] { return stream_ordered{sim_resource{}}; };
    auto const paged  = [] { return sim_virtual_resource{{.handle_size = 2_MiB}}; };
    auto const shared = [] { return sim_resource{}; };
    proofs::for_pools_over_any([&](std::string const& name, auto make) {
        auto const made = [&](auto up) { return make(std::move(up), {}); };
        CHECK(kinds(name, plain, made) ==
              (name == "monotonic" ? "afxrcd--w-R--" : "afx-cd--w-R--"));
    });
    CHECK(kinds("pool", paged, [](auto up) { return pool{std::move(up)}; }) == "afx-cdmuw-R--");
    // The shards of an arena do not map pages of their own.
    CHECK(kinds("arena", paged, [](auto up) { return arena{std::move(up), {.count = 1}}; }) ==
          "afx-cd--w-R--");
    auto const over = [](auto up) { return stream_ordered{std::move(up)}; };
    CHECK(kinds("stream_ordered", shared, over) == "afx-cd--woR--");
    CHECK(kinds("limiting", plain, [](auto up) { return limiting{std::move(up), 2_MiB}; }) ==
          "----------R--");
    CHECK(kinds("retrying", plain, [](auto up) { return retrying{std::move(up), once_more{}}; }) ==
          "-----------t-");
    log            seen;
    sim_node const node;
    observed{sim_resource{}, std::ref(seen)}.mark("step");
    CHECK(kinds_of(seen, "step") == "------------M");
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
