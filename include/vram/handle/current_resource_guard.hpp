// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `current_resource_guard` sets a device's current resource for a scope.

#include <vram/handle/current.hpp> // current

#include <utility> // move

namespace vram {

/// Sets it when made, and sets back what was before when it ends. Guards of one device end in the
/// reverse order.
///
///     current_resource_guard<cuda_platform> const scope{device, shared_pool};
///
/// The resource set is held until the scope ends, and by nobody after it unless the caller keeps a
/// handle: memory from it is back by then.
///
/// Failure   as `current::set`; nothing is set then
/// Threads   the setting is the process's, so other threads see it, too
/// Cost      two locks of a mutex
template <platform Platform>
class current_resource_guard {
public:
    using device   = typename current<Platform>::device;
    using resource = typename current<Platform>::resource;

    current_resource_guard(device d, resource mr)
        : device_{d}, before_{current<Platform>::set(d, std::move(mr))} {}
    explicit current_resource_guard(resource mr)
        : current_resource_guard{Platform::current_device(), std::move(mr)} {}
    current_resource_guard(current_resource_guard&&) = delete;
    ~current_resource_guard() { current<Platform>::set(device_, std::move(before_)); }

private:
    device   device_;
    resource before_;
};

} // namespace vram
