// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_resource` is the memory of a simulated device, as cudaMalloc gives it.

#include <vram/sim/sim_platform.hpp>      // sim_platform
#include <vram/sim/sim_resource_base.hpp> // sim_resource_base

namespace vram {

/// Device memory. The host may not dereference it (see `sim_view`).
///
///     pool<stream_ordered<sim_resource>> memory;
///
/// Failure   `out_of_memory` at the device's capacity; `sim_error{device_lost}`
/// Threads   any
/// Streams   none: giving back waits for the whole device, and what used the memory must have been
///           waited for
/// Cost      O(log blocks)
class sim_resource : public sim_resource_base<sim_kind::device, sim_call_kind::allocate,
                                              property_set<device_accessible>> {
public:
    explicit sim_resource(sim_device device = sim_device::current()) : sim_resource_base{device} {}
};

static_assert(synchronous_resource<sim_resource> && fallible_resource<sim_resource>);
static_assert(owning_resource<sim_resource> && !resource<sim_resource>);

} // namespace vram
