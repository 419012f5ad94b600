// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `growth` is how much a pool asks its upstream for when it must ask.

#include <concepts> // same_as
#include <cstddef>  // size_t

namespace vram {

/// What a pool knows when it must grow, in bytes.
struct growth_request {
    std::size_t needed      = 0; ///< the smallest block that would do, rounded
    std::size_t held        = 0; ///< reserved so far, for blocks of such sizes
    std::size_t device_free = 0; ///< free on the device; 0 where the policy did not ask for it
};

/// A policy says the size of the next block, at least `needed`; the pool tries that size first and,
/// where the upstream refuses, smaller ones down to `needed`. `asks_device` says whether the policy
/// wants `device_free`, which costs a call.
template <class P>
concept growth = requires(P const& policy, growth_request const& request) {
    { policy(request) } -> std::same_as<std::size_t>;
    { P::asks_device } -> std::convertible_to<bool>;
};

} // namespace vram
