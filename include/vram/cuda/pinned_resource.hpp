// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pinned_resource` is host memory that devices copy from and to at full speed: cudaHostAlloc.

#include <vram/cuda/core/cuda_direct.hpp>

#include <cuda_runtime_api.h> // cudaHostAlloc, cudaFreeHost

#include <cstddef>

namespace vram {

/// Options of pinned memory.
struct pinned_options {
    /// If true, every device can use the memory as pinned memory, not only the resource's device.
    bool portable = true;
    /// If true, kernels may access the memory by its host address.
    bool mapped = true;
    /// If true, the CPU does not cache the memory: devices read it faster, the host reads it very
    /// slowly.
    bool write_combined = false;
};

/// Page-locked host memory, for copies that run at the same time as host code and kernels.
///
///     ring slots{pinned_resource{cuda_device::current(), {.write_combined = true}}};
///
/// Failure   Throws `out_of_memory`, also if the system locks no more pages, or `cuda_error`.
/// Threads   Any thread may call.
/// Streams   `deallocate_sync` waits for the whole device, as cudaFreeHost does.
/// Cost      An allocation takes about 0.45 s for each GiB.
class pinned_resource : public detail::cuda_direct<pinned_resource> {
public:
    using properties = property_set<device_accessible, host_accessible>;

    /// Makes a resource that calls cudaHostAlloc with `device` as the current device, with the
    /// flags of `options`. Allocates nothing yet.
    explicit pinned_resource(cuda_device    device  = cuda_device::current(),
                             pinned_options options = {}) noexcept
        : cuda_direct{device},
          flags_{(options.portable ? cudaHostAllocPortable : 0U) |
                 (options.mapped ? cudaHostAllocMapped : 0U) |
                 (options.write_combined ? cudaHostAllocWriteCombined : 0U)} {}

private:
    friend cuda_direct;

    static constexpr char const* own_name  = "pinned_resource";
    static constexpr char const* free_call = "cudaFreeHost";

    cudaError_t take(void** p, std::size_t bytes) const noexcept {
        return cudaHostAlloc(p, bytes, flags_);
    }
    static cudaError_t give(void* p) noexcept { return cudaFreeHost(p); }

    unsigned flags_;
};

} // namespace vram
