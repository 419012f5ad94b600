// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `drain` is a retry policy that waits for the work of the device.

#include <vram/concepts/powers.hpp> // device_of_resource
#include <vram/concepts/retry.hpp>  // retry, failed_attempt

namespace vram {

/// A retry policy for `retrying`: after a refusal, waits until the device of the resource has
/// finished all work, so that memory freed in stream order is free.
///
///     retrying mr{cuda_async_resource{}, drain{}};
///
/// `stream_ordered` and `pool` do not need this policy. They wait for their own memory only.
///
/// Failure   Throws errors of the platform, including the error of a failed kernel. If a stream of
///           the device is being captured, the wait invalidates the capture and throws.
/// Threads   Any thread may call.
/// Cost      The host waits for every stream of the device.
struct drain {
    /// Largest number of times that `retrying` calls this retry policy for one request.
    static constexpr unsigned max_tries = 1;

    /// Waits until the device of `resource` has finished all work. Returns true, so that the
    /// request is tried again.
    template <class R>
    bool operator()(R& resource, failed_attempt const&) const {
        R::platform::synchronize(detail::device_of_resource(resource));
        return true;
    }
};

} // namespace vram
