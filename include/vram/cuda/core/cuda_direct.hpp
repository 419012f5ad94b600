// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_direct` is the common base of resources that call the driver for every block.

#include <vram/base/align.hpp> // align, default_alignment
#include <vram/base/call_site.hpp>
#include <vram/base/contract.hpp>              // expects
#include <vram/concepts/core/diagnosed.hpp>    // synchronous_only
#include <vram/concepts/core/refused_free.hpp> // note_refused
#include <vram/concepts/property.hpp>          // has_property, host_accessible
#include <vram/cuda/core/cuda_capture_guard.hpp>
#include <vram/cuda/core/cuda_context.hpp>
#include <vram/cuda/core/over_aligned.hpp>
#include <vram/cuda/cuda_platform.hpp>

#include <atomic> // atomic_ref
#include <cstddef>
#include <new> // nothrow

namespace vram {
namespace detail {

/// Base of the resources that call CUDA for each block. The derived class `Resource` has two
/// private members: `take(void** p, bytes)` allocates, and `give(p)` frees.
///
/// Failure   Throws `out_of_memory` or `cuda_error`. `deallocate_sync` reports errors to the error
///           sink.
/// Threads   Any thread may call.
template <class Resource>
class cuda_direct : public detail::synchronous_only<Resource> {
public:
    using platform = cuda_platform;
    using stream   = cuda_stream_view;

    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
        void*             p      = nullptr;
        cudaError_t const status = attempt(p, bytes, alignment);
        if (status != cudaSuccess) [[unlikely]] { refuse(status, bytes, alignment); }
        return p;
    }

    /// Returns a block, or null if `bytes` is 0 or the allocation fails. After a failure,
    /// `cudaGetLastError` returns no error, unless the context is broken.
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment) noexcept {
        void*             p      = nullptr;
        cudaError_t const status = attempt(p, bytes, alignment);
        if (status != cudaSuccess) { cuda_error::clear(status); }
        return p;
    }

    /// Frees a block allocated with these `bytes` and `alignment`. Skips CUDA's free if the device
    /// was reset or the process is ending.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        if (p == nullptr || cuda_exit::began()) { return; }
        void* const block = over_aligned::take_back(p, bytes, alignment, at);
        // A reset of the device has already freed the block, so CUDA is not called. If the resource
        // has a function `forget`, this function removes the resource's record of the block.
        if (life() != none && cuda_context::ended({device_.ordinal(), life()})) {
            if constexpr (requires(Resource const& r) { r.forget(block); }) {
                self().forget(block);
            }
            return;
        }
        cuda_device_guard const  on{device_, std::nothrow};
        cuda_capture_guard const relaxed;
        cuda_error::report("cudaSetDevice",
                           // If the device cannot be made current, this is reported only: CUDA can
                           // free the memory with any current device.
                           on.status());
        bool const freed =
            cuda_error::report(cuda_exit::or_done([&] { return self().give(block); }),
                               {.kind      = error_kind::platform_error,
                                .pointer   = p,
                                .bytes     = bytes,
                                .caller    = at,
                                .alignment = alignment,
                                .resource  = Resource::own_name,
                                .call      = Resource::free_call});
        if (!freed) [[unlikely]] { detail::note_refused(p); }
    }

    [[nodiscard]] cuda_device device() const noexcept { return device_; }

    /// Returns true if `a` and `b` allocate on the same device. Each of them can then free the
    /// blocks of the other.
    friend bool operator==(cuda_direct const& a, cuda_direct const& b) noexcept {
        return a.device_ == b.device_;
    }

protected:
    explicit cuda_direct(cuda_device device) noexcept : device_{device} { cuda_exit::watch(); }

private:
    /// The value of `life_` before the first allocation. A copy has the value of the original.
    static constexpr unsigned none = ~0U;

    Resource const& self() const noexcept { return static_cast<Resource const&>(*this); }

    cudaError_t attempt(void*& p, std::size_t bytes, std::size_t alignment) {
        expects(valid_alignment(alignment), "the alignment must be a power of two");
        if (bytes == 0) { return cudaSuccess; }
        cuda_device_guard const on{device_, std::nothrow};
        if (on.status() != cudaSuccess) { return on.status(); }
        cuda_capture_guard const relaxed;
        void*                    block  = nullptr;
        cudaError_t const        status = cuda_exit::or_refused(
            [&] { return self().take(&block, over_aligned::size(bytes, alignment)); });
        if (status != cudaSuccess) { return status; }
        std::atomic_ref{life_}.store(cuda_context::now(device_).number, std::memory_order_relaxed);
        p = over_aligned::hand_out(block, alignment);
        if (p != nullptr) [[likely]] { return status; }
        // There is no host memory to store the block's address, so the block is freed again.
        cuda_error::report(self().give(block), block, bytes);
        return cudaErrorMemoryAllocation;
    }

    [[noreturn]] void refuse(cudaError_t status, std::size_t bytes, std::size_t alignment) const {
        cuda_error::clear(status);
        if (status != cudaErrorMemoryAllocation) { throw cuda_error{status}; }
        // The device's free memory does not explain why pinned or managed memory was refused. For
        // such memory, it is not queried, and its numbers in the exception are 0.
        memory_info device{};
        if constexpr (!has_property<Resource, host_accessible>) {
            device = cuda_memory_info(device_, std::nothrow);
        }
        throw out_of_memory{{.asked        = bytes,
                             .rounded      = over_aligned::size(bytes, alignment),
                             .alignment    = alignment,
                             .device_free  = device.free,
                             .device_total = device.total}};
    }

    [[nodiscard]] unsigned life() const noexcept {
        return std::atomic_ref{life_}.load(std::memory_order_relaxed);
    }

    cuda_device device_;
    /// Number of resets of the device that were known at the last allocation of a block. It is
    /// `none` before the first allocation. A copy has the value of the original. A later reset has
    /// freed all blocks.
    mutable unsigned life_ = none;
};

} // namespace detail
} // namespace vram
