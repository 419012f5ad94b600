// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/await_flag.hpp> // first: the header stands alone

#include <vram/base/core/gate.hpp>
#include <vram/base/core/worker.hpp>
#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <atomic>

using namespace vram;
using namespace vram::detail;

TEST_CASE("await_flag: it sees the written flag and then holds the gate again") {
    gate                       g;
    std::uint32_t              mark = 0;
    pinned_slot<host_platform> p{{}, false};
    p.flag        = &mark;
    p.copy_number = 7;
    worker const device{0, [&] {
                            auto const held = g.hold(); // released during the wait
                            std::atomic_ref{mark}.store(7, std::memory_order_release);
                        }};
    auto         held = g.hold();
    for (bool awake = true; !await_flag<host_platform>(g, held, p, awake, [] { return false; });) {
        awake = false;
    }
    CHECK(held.owns_lock());
    CHECK(mark == 7);
}

TEST_CASE("await_flag: it returns without the flag after a nap, or if another condition is true") {
    gate                       g;
    std::uint32_t              mark = 6; // of the copy before
    pinned_slot<host_platform> p{{}, false};
    p.flag        = &mark;
    p.copy_number = 7;
    auto held     = g.hold();
    for (bool const awake : {true, false}) {
        CHECK_FALSE(await_flag<host_platform>(g, held, p, awake, [] { return false; }));
        CHECK_FALSE(await_flag<host_platform>(g, held, p, awake, [] { return true; }));
    }
    CHECK(held.owns_lock());
}
