// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_pinned_resource` is page-locked host memory, as cudaHostAlloc gives it.

#include <vram/sim/sim_platform.hpp>      // sim_platform
#include <vram/sim/sim_resource_base.hpp> // sim_resource_base

namespace vram {

/// Host memory that the devices reach too; copies from and to it leave the host free.
///
/// Failure   `out_of_memory` where pinning is refused
/// Threads   any
/// Streams   none: giving back waits for the whole device
/// Cost      O(log blocks); contents are committed when they are written
class sim_pinned_resource
    : public sim_resource_base<sim_kind::pinned, sim_call_kind::allocate_host,
                               property_set<device_accessible, host_accessible>> {
public:
    explicit sim_pinned_resource(sim_device device = sim_device::current())
        : sim_resource_base{device} {}
};

static_assert(synchronous_resource<sim_pinned_resource> && fallible_resource<sim_pinned_resource>);

} // namespace vram
