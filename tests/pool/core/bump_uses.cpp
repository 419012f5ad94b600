// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/bump_uses.hpp> // first: the header stands alone

#include <vram/concepts/core/platform_lock.hpp>
#include <vram/sim/sim.hpp>

#include "../../doubles/at.hpp"
#include "../../doubles/streams_at_work.hpp"

#include <doctest/doctest.h>

// Captures, and streams that end, are tested in stream_bump.cpp and monotonic.cpp.

using namespace vram;
using namespace vram::detail;
using doubles::at;

template class vram::detail::bump_uses<sim_platform>;

TEST_CASE("bump_uses: unwound memory is pending until the work of the stream is complete") {
    sim_node                node;
    sim_stream              s, other;
    bump_uses<sim_platform> uses{event_policy::lazy, false};
    uses.stack().add({at(0x1000), 0x1000, 256});
    auto& c    = uses.stack().current();
    auto& mine = uses.timelines().of(s);
    c.reserve();
    bump_uses<sim_platform>::user const by{s, mine.id(), mine.slot()};
    c.take(c.begin(), 0x400, &by, false);
    doubles::keep_busy(s);
    c.unwind(c.begin(), [&](auto const& u) { return uses.unwound(u); });
    CHECK(uses.pending() == 0x400);
    tags costly;
    CHECK(uses.price_of(c, c.begin() + 0x100, &mine, false, costly) == availability::ready);
    auto& theirs = uses.timelines().of(other);
    CHECK(uses.price_of(c, c.begin() + 0x100, &theirs, false, costly) == availability::needs_wait);
    CHECK_FALSE(costly.empty());
    platform_lock<sim_platform> lock;
    auto                        held = lock.hold();
    CHECK(uses.timelines().finish(costly, held) == nullptr);
    CHECK(uses.pending() == 0);
}
