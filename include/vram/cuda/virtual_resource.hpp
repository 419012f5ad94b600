// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `virtual_resource` is device memory with blocks that grow in place.

#include <vram/cuda/core/cuda_virtual_memory.hpp>
#include <vram/source/virtual_source.hpp>

namespace vram {

/// Virtual memory of a CUDA device, for use as the upstream of a pool: its blocks can grow in
/// place.
///
///     virtual_resource memory{{.handle_size = 2_MiB}};
///     virtual_resource shared{{}, cuda_device{0}, cudaMemHandleTypePosixFileDescriptor};
///     int const        file = shared.export_page(p);
///
/// Failure   Throws `cuda_error` if the driver has no virtual memory, and the exceptions of
///           `virtual_source`.
class virtual_resource : public virtual_source<detail::cuda_virtual_memory> {
public:
    /// Reserves a range of addresses on `device` and maps no memory yet. `export_handle` states how
    /// other processes can import the memory: not at all, or by file descriptor.
    explicit virtual_resource(virtual_options const&      options       = {},
                              cuda_device                 device        = cuda_device::current(),
                              cudaMemAllocationHandleType export_handle = cudaMemHandleTypeNone)
        : virtual_source{detail::cuda_virtual_memory{device, export_handle}, options} {}

    [[nodiscard]] cuda_device device() const noexcept { return memory().device(); }
};

} // namespace vram
