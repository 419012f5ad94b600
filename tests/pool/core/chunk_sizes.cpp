// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/chunk_sizes.hpp> // first: the header stands alone

#include <vram/base/bytes.hpp>
#include <vram/pool/device_share_growth.hpp>
#include <vram/pool/exact_growth.hpp>
#include <vram/pool/fixed_growth.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

using namespace vram;
using namespace vram::detail;
using namespace vram::literals;

template class vram::detail::chunk_sizes<sim_resource, exact_growth>;
template class vram::detail::chunk_sizes<sim_resource, device_share_growth>;

namespace {

/// An owner of chunks with room for `left` bytes.
struct core_with_room {
    std::size_t               left;
    [[nodiscard]] std::size_t room() const { return left; }
};

} // namespace

TEST_CASE("chunk_sizes: the policy's size is limited to whole units of the room and to the "
          "largest size, and is at least the need") {
    chunk_sizes<sim_resource, fixed_growth> const sizes{fixed_growth{.step = 4_MiB}};
    auto const wanted = [&](std::size_t room, std::size_t needed, std::size_t largest = 1_GiB) {
        sim_stream_view const* const none = nullptr;
        return sizes.wanted(core_with_room{room}, none, {.needed = needed}, 256, largest);
    };
    CHECK(wanted(1_GiB, 1_MiB) == 4_MiB);
    CHECK(wanted(3_MiB + 255, 1_MiB) == 3_MiB);
    CHECK(wanted(1_GiB, 5_MiB) == 5_MiB);
    CHECK(wanted(0, 1_MiB) == 1_MiB); // the limit refuses it later
    CHECK(wanted(1_GiB, 1_MiB, 2_MiB) == 1_MiB);
}

TEST_CASE("chunk_sizes: a growth that fails is tried with half the size, down to the need") {
    std::vector<std::size_t> tried;
    auto const               got = stepping_down(800, 150, [&](std::size_t n) {
        tried.push_back(n);
        return n <= 150 ? n : 0;
    });
    CHECK(got == 150);
    CHECK(tried == std::vector<std::size_t>{800, 400, 200, 150});
}
