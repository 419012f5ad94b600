// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `chunk_sizes` calculates the sizes of chunks from a growth policy and a limit.

#include <vram/concepts/growth.hpp>   // growth, growth_request
#include <vram/concepts/property.hpp> // has_property

#include <cstddef>
#include <utility>

namespace vram {
namespace detail {

/// Calls `attempt(bytes)` with `size`, half of it, and so on down to `least`, until the result
/// converts to true (success). Returns the last result.
template <class Attempt>
auto stepping_down(std::size_t size, std::size_t least, Attempt const& attempt) {
    for (;; size = size / 2 > least ? size / 2 : least) {
        auto const got = attempt(size);
        if (got || size <= least) { return got; }
    }
}

/// Calculates the sizes of a pool's new chunks by a growth policy.
///
/// Failure   Exceptions of the policy and of the query of the device's free memory are rethrown.
template <class Upstream, growth Policy>
class chunk_sizes {
    static_assert(!(Policy::asks_device && has_property<Upstream, host_accessible>),
                  "the free memory of the device does not limit host memory: write "
                  "geometric_growth or fixed_growth in place of device_share_growth");

public:
    explicit chunk_sizes(Policy policy) : policy_{std::move(policy)} {}

    /// Returns the size for a new chunk: the size that the growth policy chooses. If the limit has
    /// less room, returns this room, rounded down to a multiple of `unit`. Returns `wish.needed` if
    /// the result would be less than `wish.needed` or more than `largest`.
    template <class Core, class Stream>
    [[nodiscard]] std::size_t wanted(Core const& core, Stream const* on, growth_request wish,
                                     std::size_t unit, std::size_t largest) const {
        if constexpr (Policy::asks_device) { wish.device_free = core.device_memory(on).free; }
        std::size_t const room = core.room();
        std::size_t const size = policy_(wish);
        std::size_t const most = size <= room ? size : room - room % unit;
        return most > wish.needed && most <= largest ? most : wish.needed;
    }

private:
    [[no_unique_address]] Policy policy_;
};

} // namespace detail
} // namespace vram
