// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim` includes all public headers of the simulated platform.

#include <vram/sim/sim_async_resource.hpp>
#include <vram/sim/sim_copy.hpp>
#include <vram/sim/sim_device.hpp>
#include <vram/sim/sim_error.hpp>
#include <vram/sim/sim_event.hpp>
#include <vram/sim/sim_explore.hpp>
#include <vram/sim/sim_faults.hpp>
#include <vram/sim/sim_figures.hpp>
#include <vram/sim/sim_gate.hpp>
#include <vram/sim/sim_graph.hpp>
#include <vram/sim/sim_interrupt.hpp>
#include <vram/sim/sim_launch.hpp>
#include <vram/sim/sim_managed_resource.hpp>
#include <vram/sim/sim_node.hpp>
#include <vram/sim/sim_options.hpp>
#include <vram/sim/sim_pinned_resource.hpp>
#include <vram/sim/sim_platform.hpp>
#include <vram/sim/sim_range.hpp>
#include <vram/sim/sim_report.hpp>
#include <vram/sim/sim_resource.hpp>
#include <vram/sim/sim_stream.hpp>
#include <vram/sim/sim_stream_view.hpp>
#include <vram/sim/sim_thread.hpp>
#include <vram/sim/sim_time.hpp>
#include <vram/sim/sim_touch.hpp>
#include <vram/sim/sim_virtual_resource.hpp>
#include <vram/sim/sim_wait_value.hpp>
