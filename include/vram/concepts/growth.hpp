// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `growth` is a policy that chooses the size of the next chunk of a pool.

#include <vram/base/requirements.hpp> // C++20

#include <concepts> // same_as
#include <cstddef>  // size_t

namespace vram {

/// The numbers that a pool passes to its growth policy, in bytes.
struct growth_request {
    std::size_t needed      = 0; ///< smallest chunk that suffices for the request, rounded up
    std::size_t held        = 0; ///< bytes already reserved for blocks of such sizes
    std::size_t device_free = 0; ///< free bytes of the device; 0 unless `asks_device`
};

/// Returns the size of the next chunk, at least `needed`. The pool requests that size first. If the
/// upstream refuses it, the pool requests smaller ones, down to `needed`. If `asks_device` is true,
/// the pool fills in `device_free`, which costs a call to the platform.
template <class P>
concept growth = requires(P const& policy, growth_request const& request) {
    { policy(request) } -> std::same_as<std::size_t>;
    { P::asks_device } -> std::convertible_to<bool>;
};

} // namespace vram
