// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_virtual_resource` allocates blocks of simulated device memory that grow in place.

#include <vram/sim/machine/sim_virtual_memory.hpp>
#include <vram/source/virtual_source.hpp>

namespace vram {

/// Allocates blocks of simulated device memory that can grow in place. It is a `virtual_source`,
/// which maps virtual memory page by page, for a simulated device.
///
///     sim_virtual_resource memory{{.handle_size = 2_MiB}};
class sim_virtual_resource : public virtual_source<detail::sim_virtual_memory> {
public:
    explicit sim_virtual_resource(virtual_options const& options = {},
                                  sim_device             device  = sim_device::current())
        : virtual_source{detail::sim_virtual_memory{device}, options} {}

    [[nodiscard]] sim_device device() const noexcept { return memory().device(); }
};

static_assert(synchronous_resource<sim_virtual_resource>);
static_assert(fallible_resource<sim_virtual_resource> && owning_resource<sim_virtual_resource>);
static_assert(trimmable_resource<sim_virtual_resource> && measured_resource<sim_virtual_resource>);
static_assert(remappable_resource<sim_virtual_resource> && !resource<sim_virtual_resource>);

} // namespace vram
