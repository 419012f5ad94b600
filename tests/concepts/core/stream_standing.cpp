// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/core/stream_standing.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>

using namespace vram;
using namespace vram::detail;

namespace {

/// Streams are numbers; the handle 1 means stream `meaning`, and no stream if that is 0.
struct numbered_platform {
    using stream = int;
    using device = int;
    static std::uint64_t id(int) {
        if (meaning == 0) { throw meaning; }
        return static_cast<std::uint64_t>(meaning);
    }
    static int        device_of(int) { return 3; }
    static inline int meaning = 7;
};

} // namespace

TEST_CASE("stream_standing: a handle means the same stream, another one, or none") {
    numbered_platform::meaning = 7;
    CHECK(standing_of<numbered_platform>(1, 7) == stream_standing::there);
    numbered_platform::meaning = 8;
    CHECK(standing_of<numbered_platform>(1, 7) == stream_standing::another);
    numbered_platform::meaning = 0;
    CHECK(standing_of<numbered_platform>(1, 7) == stream_standing::ended);
}

TEST_CASE("stream_standing: the identity is the id and the device") {
    numbered_platform::meaning = 7;
    auto const its             = recall<numbered_platform>(1);
    REQUIRE(its.has_value());
    CHECK(its->id == 7);
    CHECK(its->where == 3);
    sim_node         node;
    sim_stream const s;
    CHECK(identify<sim_platform>(s.view()).id == s.id());
    CHECK(standing_of<sim_platform>(s.view(), s.id()) == stream_standing::there);
}
