// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `trim_upstream` answers a refusal by giving back what the stack holds unused.

#include <vram/concepts/powers.hpp>      // trimmable_resource
#include <vram/concepts/retry.hpp>       // retry, failed_attempt
#include <vram/source/null_resource.hpp> // the stand-in of the proofs below

namespace vram {

/// Trims the resource under `retrying` to nothing unused, and asks again if that gave something
/// back.
///
///     retrying mr{fallback{pool{cuda_resource{}}, pool{managed_resource{}}}, trim_upstream{}};
///
/// Two pools on one device hold memory from each other; trimming one may be what the other needs.
/// A resource that cannot be trimmed is not asked again.
///
/// Failure   what `trim` throws
/// Threads   as the resource
/// Cost      one `trim(0)`; what is given back has to be taken again later
struct trim_upstream {
    static constexpr unsigned max_tries = 1;

    template <class R>
    bool operator()(R& resource, failed_attempt const&) const {
        if constexpr (trimmable_resource<R>) {
            return resource.trim(0) != 0;
        } else {
            return false;
        }
    }
};

static_assert(retry<trim_upstream, null_resource<>>);

} // namespace vram
