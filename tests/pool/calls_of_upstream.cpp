// SPDX-License-Identifier: Apache-2.0
// The calls of pools that also concern the upstream: `retire` and `forget_captures`.
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>
#include <vram/sim/sim.hpp>

#include "../doubles/archetype.hpp"
#include "../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <cstdint> // uint64_t
#include <string>  // string

using namespace vram;

namespace {

/// A machine on which all calls for streams and devices fail while `broken` is true.
struct breaking_platform : sim_platform {
    static void check() {
        if (broken) { throw sim_error{sim_status::launch_failed}; }
    }
    [[nodiscard]] static std::uint64_t id(stream s) {
        check();
        return sim_platform::id(s);
    }
    [[nodiscard]] static bool done(event const& e, at where = at::current()) {
        check();
        return sim_platform::done(e, where);
    }
    using sim_platform::done;
    static void record(event& e, stream s, at where = at::current()) {
        check();
        sim_platform::record(e, s, where);
    }
    static void await_all(device d, at where = at::current()) {
        check();
        sim_platform::await_all(d, where);
    }

    static inline bool broken = false;
};
using upstream_of_broken = doubles::archetype<breaking_platform>;

/// Frees a block on a stream, and one during a capture. Then makes the calls of `retire` and
/// `forget_captures` fail.
template <class R, class Upstream>
void calls_upstream(char const* name, R memory, Upstream upstream) {
    CAPTURE(std::string{name});
    doubles::mishaps const told;
    sim_stream const       s;
    void* const            p     = memory.allocate(s, 1000);
    void* const            q     = memory.allocate(s, 1000);
    auto const             tries = [&](char const* called, auto call) {
        CAPTURE(std::string{called});
        breaking_platform::broken = true;
        bool threw                = false;
        try {
            call();
        } catch (sim_error const&) { threw = true; }
        breaking_platform::broken = false;
        CHECK(threw);
    };
    memory.deallocate(s, p, 1000);
    tries("retire", [&] { memory.retire(s); });
    CHECK(upstream(memory).retired() == 1);
    memory.retire(s);
    sim_graph::begin(s, sim_capture_mode::relaxed);
    memory.deallocate(s, q, 1000);
    { sim_graph const graph = sim_graph::end(s); }
    tries("forget_captures", [&] { memory.forget_captures(); });
    CHECK(upstream(memory).forgotten() == 1);
    memory.forget_captures();
}

} // namespace

TEST_CASE("pools: retire and forget_captures call the upstream also if the pool's own work fails") {
    sim_node const node;
    auto const     below = [](auto& memory) -> auto& { return memory.upstream(); };
    calls_upstream("stream_ordered", stream_ordered{upstream_of_broken{}}, below);
    calls_upstream("pool", pool{upstream_of_broken{}, {.graphs = true}}, below);
    calls_upstream("slab", slab{upstream_of_broken{}, 1000, {.graphs = true}}, below);
    calls_upstream("binned", binned{upstream_of_broken{}, {.graphs = true}}, below);
    calls_upstream("arena", arena{upstream_of_broken{}, {.graphs = true}}, below);
    calls_upstream("monotonic", monotonic{upstream_of_broken{}, {.graphs = true}}, below);
}
