// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `await_mark` polls the completion flag of a copy.

#include <vram/base/durations.hpp>          // microseconds
#include <vram/transfer/pinned_slot.hpp>    // pinned_slot
#include <vram/transfer/platform_clock.hpp> // platform_clock

#include <cstdint> // uint32_t, uint64_t
#include <thread>  // this_thread

namespace vram {

/// Polls the completion flag of the copy of the pinned slot `p`, with the lock released. If `awake`
/// is true, it first polls without sleeping for up to 30 us. It then sleeps for 20 us, or until
/// `ready()` is true. Returns true if the flag shows that the copy is complete.
///
/// Threads   One thread polls for each slot.
/// Cost      No call of the platform. With `awake`, up to 30 us of a thread that has nothing else
///           to do.
template <class Platform, class Guard, class Ready>
[[nodiscard]] bool await_mark(typename Platform::gate& gate, Guard& held,
                              pinned_slot<Platform> const& p, bool awake, Ready const& ready) {
    using clock                   = platform_clock<Platform>;
    constexpr std::uint64_t eager = 30'000; // ns of polling without sleep
    constexpr auto          nap   = std::chrono::microseconds{20};
    std::uint32_t* const    flag  = p.flag; // both may change while the lock is released
    std::uint64_t const     which = p.copy_number;
    auto const              over = [&] { return pinned_slot<Platform>::flag_reached(flag, which); };
    held.unlock();
    auto const begun = clock::now();
    while (awake && !over() && clock::now() - begun < eager) { std::this_thread::yield(); }
    held = gate.hold();
    if (!over()) { gate.wait_for(held, nap, ready); }
    return over();
}

} // namespace vram
