// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/slab_base.hpp> // first: the header stands alone

#include <vram/base/bytes.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/sim/sim.hpp>

#include "../../doubles/mishaps.hpp"
#include "../../doubles/streams_at_work.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <utility>

using namespace vram;
using namespace vram::detail;
using namespace vram::literals;

template class vram::detail::slab_base<stream_ordered<sim_resource>>;

namespace {

/// Two heaps, and the bare functions of the base.
struct two_heaps : slab_base<sim_resource> {
    using base = slab_base<sim_resource>;

    explicit two_heaps(std::size_t max_size)
        : base{"slab", sim_resource{}, max_size, event_policy::lazy, false} {
        heaps_.push(std::size_t{64_KiB});
        heaps_.push(std::size_t{1_MiB});
    }
    void* take_from(std::size_t index, sim_stream const& s) {
        sim_stream_view const on    = s;
        std::size_t const     block = heaps_[index].stride();
        return get<false>(heaps_[index], {block, block, 256, &on});
    }
    bool give_to(std::size_t index, void* p, sim_stream const& s) {
        sim_stream_view const on   = s;
        auto const            held = lock_.hold();
        return put(heaps_[index], p, heaps_[index].stride(), 256, &on);
    }
};

} // namespace

TEST_CASE("slab_base: a class at the limit gets a chunk that another class does not need") {
    // `two_heaps` notifies of its chunks, but not of its blocks.
    sim_node   node{{.checks = {.bounds = false}, .on_report = sim_on_report::collect}};
    two_heaps  both{2_MiB};
    sim_stream s;
    void*      tiles[32];
    for (auto& p : tiles) {
        p = both.take_from(0, s);
        REQUIRE(p != nullptr);
        doubles::busy(s, p, 64_KiB);
    }
    CHECK(both.usage().reserved == 2_MiB);
    CHECK(both.take_from(1, s) == nullptr);
    CHECK(both.take_from(0, s) == nullptr);
    for (auto* const p : tiles) { CHECK(both.give_to(0, p, s)); }
    void* const p = both.take_from(1, s); // idle memory was freed, once complete
    REQUIRE(p != nullptr);
    CHECK(both.owns(p));
    CHECK(both.usage().live == 1_MiB);
    CHECK(both.usage().largest_free <= 1_MiB);
    CHECK(both.give_to(1, p, s));
    CHECK_FALSE(both.give_to(1, p, s));
    CHECK(both.trim() != 0);
    CHECK(both.usage().reserved == 0);
    CHECK(node.reports().empty());
}
