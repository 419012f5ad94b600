// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/slot_supply.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <optional>

using namespace vram;
using namespace vram::detail;

namespace supplying {
/// A host platform that calls the test during each copy.
struct supplied_platform : host_platform {
    static void copy(stream, void*, void const*, std::size_t) { during(); }

    static inline std::function<void()> during;
};

struct slot_supply_by_hand final : slot_supply<supplied_platform> {
    using supply = slot_supply<supplied_platform>;

    slot_supply_by_hand() : slot_supply{{.pinned_depth = 2, .device_depth = 2}, {}, std::nullopt} {}

    using supply::await_pinned;
    using supply::copy_all;
    using supply::ended;
    using supply::filled;
};
} // namespace supplying
using supplying::supplied_platform;
using supplying::slot_supply_by_hand;

TEST_CASE("slot_supply: the thread that filled a slot copies it, and one thread at a time copies") {
    slot_supply_by_hand all;
    slot_states         during;
    int                 copies = 0;
    supplied_platform::during  = [&] {
        if (++copies == 1) {
            auto* const second = all.await_pinned();
            second->size       = 1;
            all.filled(*second, 0); // leaves the copy to the thread that is copying
            CHECK(copies == 1);
            during = all.states();
        }
    };
    auto* const p = all.await_pinned();
    REQUIRE(p != nullptr);
    CHECK(all.states().filling == 1);
    p->size = 1;
    all.filled(*p, 7);
    CHECK(during == slot_states{.filled = 1, .copying = 1, .unused = 1});
    CHECK(copies == 2);
    CHECK(all.states() == slot_states{.empty = 2, .ready = 2});
    all.copy_all();
    CHECK(copies == 2);
}

TEST_CASE("slot_supply: after the end of the source no batch is assigned") {
    slot_supply_by_hand all;
    all.ended(*all.await_pinned(), nullptr);
    CHECK(all.await_pinned() == nullptr);
}
