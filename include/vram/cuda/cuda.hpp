// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda` is the whole CUDA platform: devices, streams, events, copies, and the kinds of memory.

#include <vram/cuda/cuda_async_resource.hpp>
#include <vram/cuda/cuda_copy.hpp>
#include <vram/cuda/cuda_device.hpp>
#include <vram/cuda/cuda_device_guard.hpp>
#include <vram/cuda/cuda_error.hpp>
#include <vram/cuda/cuda_event.hpp>
#include <vram/cuda/cuda_fill.hpp>
#include <vram/cuda/cuda_memory_info.hpp>
#include <vram/cuda/cuda_platform.hpp>
#include <vram/cuda/cuda_pool.hpp>
#include <vram/cuda/cuda_resource.hpp>
#include <vram/cuda/cuda_stream.hpp>
#include <vram/cuda/cuda_stream_view.hpp>
#include <vram/cuda/cuda_thread.hpp>
#include <vram/cuda/managed_resource.hpp>
#include <vram/cuda/pinned_resource.hpp>
#include <vram/cuda/registered_resource.hpp>
#include <vram/cuda/virtual_resource.hpp>
