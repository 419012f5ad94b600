// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `drain` waits for the work of the device after a refusal.

#include <vram/concepts/powers.hpp>      // device_of_resource
#include <vram/concepts/retry.hpp>       // retry, failed_attempt
#include <vram/source/null_resource.hpp> // the stand-in of the proofs below

namespace vram {

/// Waits for all work of the device of the resource (of the current device, if the resource has
/// none), once for each request: what was freed in stream order
/// is free then.
///
///     retrying mr{cuda_async_resource{}, drain{}};
///
/// `stream_ordered` and `pool` wait for their own memory by themselves, and for no more than they
/// need.
///
/// Failure   what the platform throws, a failed kernel's error among it
/// Threads   any
/// Cost      the host waits for every stream of the device
struct drain {
    static constexpr unsigned max_tries = 1;

    template <class R>
    bool operator()(R& resource, failed_attempt const&) const {
        R::platform::synchronize(detail::device_of_resource(resource));
        return true;
    }
};

static_assert(retry<drain, null_resource<>>);

} // namespace vram
