// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `await_mark` looks for what the device writes when a copy is over.

#include <vram/transfer/pinned_slot.hpp>    // pinned_slot
#include <vram/transfer/platform_clock.hpp> // platform_clock

#include <chrono>  // microseconds
#include <cstdint> // uint32_t, uint64_t
#include <thread>  // this_thread

namespace vram {

/// Looks for the mark of the copy that `p` is in: `awake`, for some microseconds, and then after a
/// nap, which ends when `ready()` is true; with the gate open meanwhile. Whether it is there.
///
/// Threads   one for each slot
/// Cost      no call of the platform; `awake` up to 30 us of a thread that has nothing else to do
template <class Platform, class Guard, class Ready>
[[nodiscard]] bool await_mark(typename Platform::gate& gate, Guard& held,
                              pinned_slot<Platform> const& p, bool awake, Ready const& ready) {
    using clock                   = platform_clock<Platform>;
    constexpr std::uint64_t eager = 30'000; // ns
    constexpr auto          nap   = std::chrono::microseconds{20};
    std::uint32_t* const    mark  = p.mark; // both may change when the gate is open
    std::uint64_t const     which = p.flight;
    auto const              over  = [&] { return pinned_slot<Platform>::is_marked(mark, which); };
    held.unlock();
    auto const begun = clock::now();
    while (awake && !over() && clock::now() - begun < eager) { std::this_thread::yield(); }
    held = gate.hold();
    if (!over()) { gate.wait_for(held, nap, ready); }
    return over();
}

} // namespace vram
