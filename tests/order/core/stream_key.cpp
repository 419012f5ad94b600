// SPDX-License-Identifier: Apache-2.0
#include <vram/order/core/stream_key.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

template struct vram::detail::stream_key<sim_platform>;

namespace {

struct platform_with_ids {
    struct stream {
        std::uint64_t number;
    };
    static std::uint64_t id(stream s) { return s.number; }
};
struct platform_with_names : platform_with_ids {
    static std::uint64_t name(stream s) { return s.number < 10 ? 0 : s.number; }
};

} // namespace

TEST_CASE("stream_key: a handle if there is one, else the id, and the two never collide") {
    using ids   = stream_key<platform_with_ids>;
    using names = stream_key<platform_with_names>;
    CHECK(ids::lasting({7}) == 15);
    CHECK(ids::named({7}) == 15);
    CHECK(names::named({7}) == 15); // it has none
    CHECK(names::named({16}) == 16);
    CHECK(names::lasting({16}) == 33);
    CHECK(ids::lasting({0}) != 0);
}
