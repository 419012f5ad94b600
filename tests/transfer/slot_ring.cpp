// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/slot_ring.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <stdexcept>

using namespace vram;

namespace {
/// A ring that is filled by hand.
struct by_hand final : slot_ring<host_platform> {
    using ring = slot_ring<host_platform>;

    explicit by_hand(std::size_t slots) {
        slots_.reserve(slots);
        for (std::size_t i = 0; i < slots; ++i) {
            give(slots_.emplace_back(host_platform::device{}, false));
        }
    }
    void produce_inline() override {}
    void fill(std::size_t size) {
        slot* const s = await_free();
        REQUIRE(s != nullptr);
        s->size = size;
        post(*s);
    }
    void fail() {
        slot* const s = await_free();
        s->error      = std::make_exception_ptr(std::runtime_error{"broken"});
        post(*s);
    }
    using ring::free_now;
    using ring::stop;
};
} // namespace

TEST_CASE("slot_ring: slots come in the order in which they were filled, and go round") {
    by_hand ring{2};
    for (std::size_t round = 1; round < 5; ++round) {
        ring.fill(round);
        auto* const s = ring.take({});
        REQUIRE(s != nullptr);
        CHECK(s->size == round);
        ring.release(*s, {});
    }
    CHECK(ring.statistics().batches == 4);
    CHECK(ring.statistics().bytes == 1 + 2 + 3 + 4);
}

TEST_CASE("slot_ring: the end and an error end it for good") {
    by_hand ended{2};
    ended.fill(0);
    CHECK(ended.take({}) == nullptr);
    CHECK(ended.take({}) == nullptr);
    by_hand broken{2};
    broken.fill(1);
    broken.fail();
    CHECK(broken.take({}) != nullptr);
    CHECK_THROWS_AS((void)broken.take({}), std::runtime_error);
    CHECK(broken.take({}) == nullptr);
}

TEST_CASE("slot_ring: when it stops nobody gets a slot any more") {
    by_hand ring{1};
    ring.stop();
    CHECK(ring.take({}) == nullptr);
}

TEST_CASE("slot_ring: without a free slot there is none to be had at once") {
    by_hand ring{1};
    CHECK(ring.free_now() != nullptr);
    CHECK(ring.free_now() == nullptr);
}
