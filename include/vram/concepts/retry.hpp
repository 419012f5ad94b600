// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `retry` is a policy that tries to make room after a refused allocation.

#include <vram/base/out_of_memory.hpp> // shortage

#include <concepts> // same_as
#include <cstddef>  // size_t

namespace vram {

/// A refused attempt, as it is passed to a retry policy.
struct failed_attempt {
    std::size_t bytes = 0; ///< the requested size
    /// Requested alignment.
    std::size_t alignment = 0;
    unsigned    tries     = 0;  ///< number of calls of this policy for this request, starting at 1
    shortage    numbers   = {}; ///< the numbers of the refusal, if it carried any
};

/// A policy over resource `R`. It tries to make room and returns true if the allocation should be
/// attempted again. It is called until it returns false, but at most `max_tries` times per request.
/// The layer holds no lock during the call, so the policy may use the resource, and may allocate
/// through the layer: the layer does not call its policies for requests that a policy makes.
template <class P, class R>
concept retry = requires(P& policy, R& resource, failed_attempt const& failed) {
    { policy(resource, failed) } -> std::same_as<bool>;
    { P::max_tries } -> std::convertible_to<unsigned>;
};

} // namespace vram
