// SPDX-License-Identifier: Apache-2.0
#include <vram/source/host_platform.hpp> // first: the header stands alone

#include <vram/base/core/gate.hpp>
#include <vram/base/core/worker.hpp>
#include <vram/concepts/platform.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <numeric>

using namespace vram;

static_assert(platform<host_platform>);

TEST_CASE("host_platform: all work is complete when the call returns") {
    host_platform::own_stream const owner;
    host_platform::stream const     s = owner.view();
    host_platform::event            e{host_platform::current_device()};
    host_platform::record(e, s);
    host_platform::wait(s, e);
    CHECK(host_platform::done(e));
    host_platform::synchronize(e);
    host_platform::synchronize(s);
    host_platform::synchronize(host_platform::current_device());
    int called = 0;
    host_platform::call(s, [](void* p) { ++*static_cast<int*>(p); }, &called);
    CHECK(called == 1);
    CHECK_FALSE(host_platform::capturing(s));
    CHECK(host_platform::device_of(s) == host_platform::current_device());
    CHECK(host_platform::id(s) == host_platform::id({}));
    host_platform::device_guard const guard{host_platform::current_device()};
}

TEST_CASE("host_platform: bytes are copied and filled, and zero bytes are no work") {
    std::array<unsigned char, 4> from{1, 2, 3, 4}, to{};
    host_platform::copy({}, to.data(), from.data(), 3);
    CHECK(to == std::array<unsigned char, 4>{1, 2, 3, 0});
    host_platform::fill({}, to.data(), std::byte{7}, 2);
    CHECK(to == std::array<unsigned char, 4>{7, 7, 3, 0});
    host_platform::copy({}, nullptr, nullptr, 0);
    host_platform::fill({}, nullptr, std::byte{}, 0);
}

TEST_CASE("host_platform: a box is copied from one layout into another") {
    std::array<unsigned char, 2 * 3 * 8> from{};
    std::iota(from.begin(), from.end(), static_cast<unsigned char>(0));
    std::array<unsigned char, 64> to{};
    // two slices of two rows of three bytes, out of 3 x 8 and into 2 x 4
    host_platform::copy({}, {.to         = to.data(),
                             .to_pitch   = 4,
                             .to_slice   = 16,
                             .from       = from.data(),
                             .from_pitch = 8,
                             .from_slice = 24,
                             .width      = 3,
                             .height     = 2,
                             .depth      = 2});
    CHECK(to[0] == 0);
    CHECK(to[2] == 2);
    CHECK(to[3] == 0); // not of the row
    CHECK(to[4] == 8);
    CHECK(to[6] == 10);
    CHECK(to[16] == 24);
    CHECK(to[20 + 2] == 34);
}
