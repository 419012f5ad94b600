// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `await_flag` polls the completion flag of a copy.

#include <vram/base/core/durations.hpp>       // microseconds
#include <vram/transfer/core/pinned_slot.hpp> // pinned_slot
#include <vram/transfer/platform_clock.hpp>   // platform_clock

#include <cstdint> // uint32_t, uint64_t
#include <thread>  // this_thread

namespace vram {
namespace detail {

/// Polls the completion flag of the last copy of the pinned slot `p` (a word in pinned memory that
/// the device writes after the copy). The lock `held` is released during the polls. If `awake` is
/// true, it first polls for up to 30 us without sleeping. Then it sleeps once, until `ready()`
/// returns true, but at most 20 us. Returns true if the flag shows that the copy is complete.
///
/// Threads   One thread polls for each slot.
/// Cost      No call of the platform. With `awake`, the thread occupies a core for up to 30 us.
template <class Platform, class Guard, class Ready>
[[nodiscard]] bool await_flag(typename Platform::gate& gate, Guard& held,
                              pinned_slot<Platform> const& p, bool awake, Ready const& ready) {
    using clock                   = platform_clock<Platform>;
    constexpr std::uint64_t eager = 30'000; // ns of polling without sleep
    constexpr auto          nap   = std::chrono::microseconds{20};
    // Copied, because other threads may change `p` while the lock is released.
    std::uint32_t* const flag  = p.flag;
    std::uint64_t const  which = p.copy_number;
    auto const           over  = [&] { return pinned_slot<Platform>::flag_reached(flag, which); };
    held.unlock();
    auto const begun = clock::now();
    while (awake && !over() && clock::now() - begun < eager) { std::this_thread::yield(); }
    held = gate.hold();
    if (!over()) { gate.wait_for(held, nap, ready); }
    return over();
}

} // namespace detail
} // namespace vram
