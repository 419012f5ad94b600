// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_resource` is the memory of a device, straight from the driver: cudaMalloc and cudaFree.

#include <vram/cuda/core/cuda_direct.hpp>

#include <cuda_runtime_api.h> // cudaMalloc, cudaFree

#include <cstddef>

namespace vram {

/// Device memory by cudaMalloc and cudaFree, for use as the upstream of pools and layers. The
/// device need not be the caller's current device.
///
///     pool<stream_ordered<cuda_resource>> memory;
///
/// Failure   Throws `out_of_memory` or `cuda_error`; `deallocate_sync` reports errors to the error
///           sink.
/// Threads   Any thread may call.
/// Streams   `deallocate_sync` waits for the whole device, as cudaFree does.
/// Cost      Tens to hundreds of microseconds a call.
class cuda_resource : public detail::cuda_direct<cuda_resource> {
public:
    using properties = property_set<device_accessible>;

    /// Makes a resource that calls cudaMalloc with `device` as the current device. Allocates
    /// nothing yet.
    explicit cuda_resource(cuda_device device = cuda_device::current()) noexcept
        : cuda_direct{device} {}

private:
    friend cuda_direct;

    static constexpr char const* own_name  = "cuda_resource";
    static constexpr char const* free_call = "cudaFree";

    static cudaError_t take(void** p, std::size_t bytes) noexcept { return cudaMalloc(p, bytes); }
    static cudaError_t give(void* p) noexcept { return cudaFree(p); }
};

} // namespace vram
