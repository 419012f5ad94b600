// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_pinned_resource` allocates page-locked host memory, as cudaHostAlloc does.

#include <vram/sim/machine/sim_resource_base.hpp>
#include <vram/sim/sim_platform.hpp>

namespace vram {

/// Allocates pinned host memory, which devices can access. `sim_copy` between it and a device
/// does not block.
///
/// Failure   Throws `out_of_memory` (limit `sim_options::pinned_capacity`, or an injected fault),
///           `sim_error` or `sim_race`.
/// Threads   Any thread may use the resource.
/// Streams   Not stream-ordered. A free waits for all work of the device.
/// Cost      O(log blocks).
class sim_pinned_resource
    : public detail::sim_resource_base<detail::sim_kind::pinned, sim_call_kind::allocate_host,
                                       property_set<device_accessible, host_accessible>> {
public:
    explicit sim_pinned_resource(sim_device device = sim_device::current())
        : sim_resource_base{device} {}
};

static_assert(synchronous_resource<sim_pinned_resource> && fallible_resource<sim_pinned_resource>);

} // namespace vram
