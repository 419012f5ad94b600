// SPDX-License-Identifier: Apache-2.0
// refuse: write geometric_growth or fixed_growth in place of device_share_growth
// A share of the device's free memory is no size for chunks of pinned memory.
#include <vram/pool/device_share_growth.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

using namespace vram;

pool<sim_pinned_resource, device_share_growth> memory;
