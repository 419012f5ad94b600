// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_managed_resource` is memory that host and devices share, as cudaMallocManaged gives it.

#include <vram/sim/sim_platform.hpp>      // sim_platform
#include <vram/sim/sim_resource_base.hpp> // sim_resource_base

namespace vram {

/// Memory of both sides. It takes nothing of a device's capacity: pages that do not fit stay on the
/// host.
///
/// Failure   `out_of_memory`
/// Threads   any
/// Streams   none: giving back waits for the whole device
/// Cost      O(log blocks)
class sim_managed_resource
    : public sim_resource_base<sim_kind::managed, sim_call_kind::allocate_host,
                               property_set<device_accessible, host_accessible>> {
public:
    explicit sim_managed_resource(sim_device device = sim_device::current())
        : sim_resource_base{device} {}
};

static_assert(synchronous_resource<sim_managed_resource> &&
              fallible_resource<sim_managed_resource>);

} // namespace vram
