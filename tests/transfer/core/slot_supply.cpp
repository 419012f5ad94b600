// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/slot_supply.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <optional>

using namespace vram;
using namespace vram::detail;

namespace supplying {
/// A supply whose copies the test makes.
struct slot_supply_by_hand final : slot_supply<host_platform> {
    using supply = slot_supply<host_platform>;

    slot_supply_by_hand() : slot_supply{{.pinned_depth = 2, .device_depth = 1}, {}, std::nullopt} {}

    void copy_all() noexcept override { ++asked; }
    using supply::await_pinned;
    using supply::claim;
    using supply::copied;
    using supply::filled;
    using supply::pinned;
    using supply::slot;

    std::atomic<int> asked = 0;
};
} // namespace supplying
using supplying::slot_supply_by_hand;

TEST_CASE("slot_supply: a filled slot requests its copy, and one thread at a time copies") {
    slot_supply_by_hand all;
    auto*               p = all.await_pinned();
    REQUIRE(p != nullptr);
    CHECK(all.states().filling == 1);
    all.filled(*p, 7);
    CHECK(all.asked == 1);
    slot_supply_by_hand::pinned* from = nullptr;
    slot_supply_by_hand::slot*   to   = nullptr;
    CHECK(all.claim(from, to));
    CHECK(from == p);
    CHECK_FALSE(all.claim(from, to));
    CHECK_FALSE(all.copied(from, to, nullptr)); // and there is no more
    CHECK(all.states() == slot_states{.empty = 1, .copying = 1, .ready = 1});
}
