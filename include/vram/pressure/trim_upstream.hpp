// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `trim_upstream` is a retry policy that trims the resource.

#include <vram/concepts/powers.hpp> // trimmable_resource
#include <vram/concepts/retry.hpp>  // retry, failed_attempt

namespace vram {

/// A retry policy for `retrying`: after a refusal, calls `trim(0)` of the resource under
/// `retrying`. If that released memory, `retrying` tries the request again.
///
///     retrying mr{fallback{pool{cuda_resource{}}, pool{managed_resource{}}}, trim_upstream{}};
///
/// Two pools on one device compete for its memory: if one is trimmed, the other may succeed.
///
/// Failure   Throws the exceptions of `trim`.
/// Threads   The rules are those of the resource.
/// Cost      One `trim(0)`. Later allocations have to obtain the released memory again.
struct trim_upstream {
    /// Largest number of times that `retrying` calls this retry policy for one request.
    static constexpr unsigned max_tries = 1;

    /// Called by `retrying` after a refusal. Makes `resource` return its unused memory (`trim(0)`).
    /// Returns true if the resource returned memory.
    template <class R>
    bool operator()(R& resource, failed_attempt const&) const {
        if constexpr (trimmable_resource<R>) {
            return resource.trim(0) != 0;
        } else {
            return false;
        }
    }
};

} // namespace vram
