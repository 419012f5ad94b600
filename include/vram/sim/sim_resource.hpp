// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_resource` allocates memory of a simulated device, as cudaMalloc does.

#include <vram/sim/machine/sim_resource_base.hpp>
#include <vram/sim/sim_platform.hpp>

namespace vram {

/// Allocates device memory. The host must not dereference the pointers; `sim_view` converts them to
/// host addresses of the contents.
///
///     pool<stream_ordered<sim_resource>> memory;
///
/// Failure   Throws `out_of_memory` (device full, or an injected fault), `sim_error` or `sim_race`.
/// Threads   Any thread may use the resource.
/// Streams   Not stream-ordered. The caller must wait for work that uses the memory before the
///           free.
/// Cost      O(log blocks).
class sim_resource
    : public detail::sim_resource_base<detail::sim_kind::device, sim_call_kind::allocate,
                                       property_set<device_accessible>> {
public:
    explicit sim_resource(sim_device device = sim_device::current()) : sim_resource_base{device} {}
};

static_assert(synchronous_resource<sim_resource> && fallible_resource<sim_resource>);
static_assert(owning_resource<sim_resource> && !resource<sim_resource>);

} // namespace vram
