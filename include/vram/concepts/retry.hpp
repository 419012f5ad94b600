// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `retry` is a policy that tries to make room after a refused allocation.

#include <vram/base/out_of_memory.hpp> // shortage

#include <concepts> // same_as
#include <cstddef>

namespace vram {

/// Describes a refused allocation to a retry policy, which is called after each refusal.
struct failed_attempt {
    std::size_t bytes = 0; ///< size of the refused request in bytes, before any rounding
    /// Requested alignment.
    std::size_t alignment = 0;
    /// Number of calls of this policy for this allocation. The present call counts too.
    unsigned tries = 0;
    /// Numbers of the exception `out_of_memory` from the refused allocation. If `try_allocate`
    /// returned null, there was no exception, and only `asked` and `alignment` are set.
    shortage numbers = {};
};

/// A retry policy for resource `R`: a function object that the layer `retrying` calls after a
/// refused allocation. The policy tries to free memory, and returns true to repeat the allocation.
/// It is called at most `max_tries` times for one allocation, without a lock, and may use the
/// resource and the layer.
template <class P, class R>
concept retry = requires(P& policy, R& resource, failed_attempt const& failed) {
    { policy(resource, failed) } -> std::same_as<bool>;
    { P::max_tries } -> std::convertible_to<unsigned>;
};

} // namespace vram
