// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/unloader_ring.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <array>

using namespace vram;
using namespace vram::detail;

namespace unloading_by_hand {
/// A ring with the test as its sink, on the host, where a copy is complete when it is enqueued.
struct unloader_ring_by_hand final : unloader_ring<host_platform> {
    using ring = unloader_ring<host_platform>;

    unloader_ring_by_hand()
        : unloader_ring{{.batch_bytes = 8, .pinned_depth = 1, .device_depth = 2}, {}} {
        for (std::size_t i = 0; i < 2; ++i) { slots_[i].memory = memory[i].data(); }
        pinned_[0].memory = memory[2].data();
    }
    void send_one(std::byte value) {
        slot* s      = &take({});
        s->memory[0] = value;
        send(s, 1, {});
    }

    using ring::await_copied;
    using ring::stop;
    using ring::written;

    std::array<std::array<std::byte, 8>, 3> memory{};
};
} // namespace unloading_by_hand
using unloading_by_hand::unloader_ring_by_hand;

TEST_CASE("unloader_ring: results wait on the device while the sink has every pinned slot") {
    unloader_ring_by_hand ring;
    ring.send_one(std::byte{1});
    ring.send_one(std::byte{2});
    for (std::size_t i = 0; i < 2; ++i) {
        auto* const p = ring.await_copied();
        REQUIRE(p != nullptr);
        CHECK(p->index == i);
        CHECK(p->memory[0] == std::byte(i + 1));
        ring.written(*p, nullptr); // the next one is copied by this thread
    }
    CHECK(ring.sent() == 2);
    ring.finish();
    ring.stop();
    CHECK(ring.await_copied() == nullptr);
}

TEST_CASE("unloader_ring: an error is thrown by all later calls, and nothing more is copied") {
    unloader_ring_by_hand ring;
    ring.send_one(std::byte{1});
    ring.send_one(std::byte{2});
    ring.written(*ring.await_copied(), std::make_exception_ptr(7));
    CHECK_THROWS_AS(ring.finish(), int);
    CHECK_THROWS_AS((void)ring.take({}), int);
    ring.stop();
    CHECK(ring.await_copied() == nullptr);
}
