// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda` is the whole CUDA platform: devices, streams, events, copies, and the kinds of memory.

#include <vram/cuda/cuda_async_resource.hpp> // cudaMallocAsync, from a pool of its own
#include <vram/cuda/cuda_copy.hpp>           // copies in one, two and three dimensions
#include <vram/cuda/cuda_device.hpp>         // a device's number
#include <vram/cuda/cuda_device_guard.hpp>   // another device for a scope
#include <vram/cuda/cuda_error.hpp>          // what the parts throw
#include <vram/cuda/cuda_event.hpp>          // a place in a stream's order
#include <vram/cuda/cuda_fill.hpp>           // one byte everywhere
#include <vram/cuda/cuda_memory_info.hpp>    // free and total memory
#include <vram/cuda/cuda_platform.hpp>       // CUDA as the rest of vram sees it
#include <vram/cuda/cuda_pool.hpp>           // a memory pool of the driver
#include <vram/cuda/cuda_resource.hpp>       // cudaMalloc
#include <vram/cuda/cuda_stream.hpp>         // a stream that ends with its owner
#include <vram/cuda/cuda_stream_view.hpp>    // a stream that is somebody else's
#include <vram/cuda/cuda_thread.hpp>         // a host thread that works with a device
#include <vram/cuda/managed_resource.hpp>    // cudaMallocManaged
#include <vram/cuda/pinned_resource.hpp>     // cudaHostAlloc
#include <vram/cuda/registered_resource.hpp> // pages found by many threads, and pinned
#include <vram/cuda/virtual_resource.hpp>    // blocks that grow where they lie
