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
    /// Size of the smallest chunk, or smallest extension of a chunk, in which the request fits. The
    /// size is rounded as the pool rounds sizes.
    std::size_t needed = 0;
    /// Bytes that the pool has allocated from its upstream and still holds. The class `pool` has
    /// different chunks for small and for large blocks. For a small block, it counts only the
    /// chunks for small blocks; for a large block, only those for large blocks.
    std::size_t held = 0;
    /// Free bytes of the device. The pool queries this number only if the growth policy has a true
    /// `asks_device`; otherwise it is 0.
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
