// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim` includes all public headers of the simulated platform.

#include <vram/sim/sim_async_resource.hpp>   // sim_async_resource
#include <vram/sim/sim_explore.hpp>          // sim_explore
#include <vram/sim/sim_graph.hpp>            // sim_graph
#include <vram/sim/sim_managed_resource.hpp> // sim_managed_resource
#include <vram/sim/sim_pinned_resource.hpp>  // sim_pinned_resource
#include <vram/sim/sim_platform.hpp>         // sim_platform and its parts
#include <vram/sim/sim_refused.hpp>
#include <vram/sim/sim_register.hpp>         // sim_register
#include <vram/sim/sim_resource.hpp>         // sim_resource
#include <vram/sim/sim_touch.hpp>            // sim_touch
#include <vram/sim/sim_virtual_resource.hpp> // sim_virtual_resource
#include <vram/sim/sim_work.hpp>             // sim_work
