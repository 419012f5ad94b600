// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/brief_lock.hpp> // first: the header stands alone

#include "../../laws/effort.hpp"

#include <doctest/doctest.h>

#include <thread>

TEST_CASE("brief_lock: one thread at a time holds it") {
    vram::detail::brief_lock lock;
    unsigned                 count = 0;
    unsigned const           times = laws::of_many(20'000);
    auto const               add   = [&] {
        for (unsigned i = 0; i < times; ++i) {
            auto const held = lock.hold();
            ++count;
        }
    };
    std::thread a{add}, b{add}, c{add};
    a.join(), b.join(), c.join();
    CHECK(count == 3 * times);
}
