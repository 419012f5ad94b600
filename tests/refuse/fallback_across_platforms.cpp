// SPDX-License-Identifier: Apache-2.0
// refuse-first: belong to one platform: write
// Both resources of a fallback must have the same platform.
#include <vram/layer/fallback.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/null_resource.hpp>

vram::fallback<vram::sim_resource, vram::null_resource<>> const memory{vram::sim_resource{},
                                                                       vram::null_resource<>{}};
