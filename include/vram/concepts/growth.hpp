// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `growth` is a policy that chooses the size of the next chunk of a pool.

#include <vram/base/requirements.hpp>

#include <concepts> // same_as
#include <cstddef>

namespace vram {

/// The numbers that a pool passes to its growth policy, in bytes.
struct growth_request {
    /// The smallest chunk, or extension of one, that serves the request, rounded as the pool rounds
    /// sizes.
    std::size_t needed = 0;
    /// Bytes that the pool has reserved so far; for `pool`, only those in chunks of the request's
    /// kind (for small or for large blocks).
    std::size_t held = 0;
    /// Free bytes of the device; 0 if the policy's `asks_device` is false, so that the pool makes
    /// no query.
    std::size_t device_free = 0;
};

/// A function object that returns the size of a pool's next chunk, at least `needed` bytes. If the
/// upstream refuses that size, the pool requests smaller ones, down to `needed`. If
/// `P::asks_device` is true, the pool queries the device's free memory before each call.
template <class P>
concept growth = requires(P const& policy, growth_request const& request) {
    { policy(request) } -> std::same_as<std::size_t>;
    { P::asks_device } -> std::convertible_to<bool>;
};

} // namespace vram
