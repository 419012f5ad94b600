// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `current_resource_guard` sets a device's current resource for a scope.

#include <vram/handle/current.hpp>

#include <utility>

namespace vram {

/// Sets the current resource of a device for a scope, and restores the previous one at its end.
/// Guards of one device must be destroyed in reverse order.
///
///     current_resource_guard<cuda_platform> const scope{device, shared_pool};
///
/// Memory allocated from the resource must be freed by the end of the scope, unless the caller
/// keeps another handle. If `current::forget` was called for the device meanwhile, the destructor
/// restores nothing.
///
/// Failure   Throws as `current::set`, and sets nothing then.
/// Threads   Other threads see the setting too.
/// Cost      Two locks of a mutex.
template <platform Platform>
class current_resource_guard {
public:
    using device   = typename current<Platform>::device;
    using resource = typename current<Platform>::resource;

    /// Makes `mr` the current resource of the device `d`. The destructor restores the previous one.
    [[nodiscard]] current_resource_guard(device d, resource mr)
        : device_{d}, before_{current<Platform>::set(d, std::move(mr))} {}
    /// Makes `mr` the current resource of the calling thread's current device. The destructor
    /// restores the earlier resource of this device.
    [[nodiscard]] explicit current_resource_guard(resource mr)
        : current_resource_guard{Platform::current_device(), std::move(mr)} {}
    current_resource_guard(current_resource_guard&&) = delete;
    ~current_resource_guard() { current<Platform>::put_back(device_, std::move(before_)); }

private:
    device   device_;
    resource before_;
};

} // namespace vram
