// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_async_resource` is the driver's own stream-ordered memory: cudaMallocAsync from a separate
/// pool.

#include <vram/base/call_site.hpp>
#include <vram/base/contract.hpp> // expects
#include <vram/concepts/core/name_of_stream.hpp>
#include <vram/concepts/core/refused_free.hpp> // note_refused
#include <vram/cuda/core/cuda_freed_streams.hpp>
#include <vram/cuda/core/over_aligned.hpp>
#include <vram/cuda/cuda_platform.hpp>
#include <vram/cuda/cuda_pool.hpp>
#include <vram/order/core/try_wait.hpp>

#include <cuda_runtime_api.h> // cudaMallocFromPoolAsync, cudaFreeAsync

#include <cstddef>
#include <new> // bad_alloc

namespace vram {

/// Device memory that is allocated and freed in stream order and pooled by the driver.
///
///     cuda_async_resource mr{{.initial_size = 1_GiB, .maximum_size = 8_GiB}};
///
/// Failure   Throws `out_of_memory` or `cuda_error`; `deallocate` reports errors to the error sink.
/// Threads   Any thread may call.
/// Streams   Memory allocated during a capture belongs to the graph, and must be freed on a stream
///           of that capture.
/// Cost      About 0.4 us a call if the pool has reserved enough memory.
class cuda_async_resource {
public:
    using platform   = cuda_platform;
    using stream     = cuda_stream_view;
    using properties = property_set<device_accessible>;

    /// Makes a resource with a separate pool of the driver on the current device, with `options`.
    explicit cuda_async_resource(cuda_pool_options const& options = {})
        : cuda_async_resource{cuda_device::current(), options} {}
    /// Makes a resource with a separate pool of the driver on `device`, with `options`.
    explicit cuda_async_resource(cuda_device device, cuda_pool_options const& options = {})
        : pool_{device, options}, own_{device} {}

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment) {
        void*             p      = nullptr;
        cudaError_t const status = attempt(p, s, bytes, alignment);
        if (status != cudaSuccess) [[unlikely]] { refuse(status, s, bytes, alignment); }
        return p;
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
        void*             p      = nullptr;
        cudaError_t const status = attempt_now(p, bytes, alignment);
        if (status != cudaSuccess) [[unlikely]] { refuse(status, own_.view(), bytes, alignment); }
        return p;
    }

    /// Allocates in the order of the stream `s`. Returns null if `bytes` is 0 or the allocation
    /// fails. After a failure, `cudaGetLastError` returns no error, unless the context is broken.
    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment) noexcept {
        void*             p      = nullptr;
        cudaError_t const status = attempt(p, s, bytes, alignment);
        if (status != cudaSuccess) { cuda_error::clear(status); }
        return p;
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment) noexcept {
        void*             p      = nullptr;
        cudaError_t const status = attempt_now(p, bytes, alignment);
        if (status != cudaSuccess) { cuda_error::clear(status); }
        return p;
    }

    /// Frees a block, allocated with these `bytes` and `alignment`, in the order of `s`. If `s` no
    /// longer exists, waits for the device.
    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept {
        if (p == nullptr || detail::cuda_exit::began()) { return; }
        void* const block = detail::over_aligned::take_back(p, bytes, alignment, at);
        if (pool_.lost()) { return; } // nothing to do: a device reset has freed all blocks
        detail::cuda_capture_guard const relaxed;
        error                            e{.kind      = error_kind::platform_error,
                                           .pointer   = p,
                                           .bytes     = bytes,
                                           .caller    = at,
                                           .alignment = alignment,
                                           .stream    = detail::name_of_stream<platform>(s),
                                           .resource  = "cuda_async_resource",
                                           .call      = "cudaFreeAsync"};
        // If the `cuda_stream` of `s` was destroyed, but vram still keeps its handle valid, the
        // block is freed on the stream. The reference keeps the handle valid during this free.
        detail::cuda_stream_hold held;
        if (s.ended()) [[unlikely]] {
            held = detail::cuda_stream_ids::hold_ended(s.get());
            if (held.get() == nullptr) { return give_after_device(block, e); }
        }
        cudaError_t const status = give(block, s);
        if (status != cudaErrorInvalidResourceHandle) [[likely]] {
            cuda_error::report(status, e) ? freed_.note(s) : detail::note_refused(p);
            return;
        }
        // The program has destroyed this raw stream, so CUDA does not know its handle. Reports a
        // `dead_stream`, and waits for the device before it frees the block.
        cuda_error::clear(status);
        freed_.forget(s);
        error dead = e;
        dead.kind  = error_kind::dead_stream;
        dead.call  = nullptr;
        report_error(dead);
        give_after_device(block, e);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        deallocate(own_.view(), p, bytes, alignment, at);
    }

    /// Returns the size that the driver allocates: `bytes` and the padding for an alignment above
    /// 256, rounded up to a multiple of 512.
    [[nodiscard]] static constexpr std::size_t rounded_size(std::size_t bytes,
                                                            std::size_t alignment) noexcept {
        return bytes == 0 ? 0 : align(detail::over_aligned::size(bytes, alignment), unit);
    }

    /// Returns unused memory above `keep` bytes to the device, after a wait for frees if necessary.
    /// Returns the number of bytes returned.
    std::size_t trim(std::size_t keep = 0) {
        std::size_t const back = pool_.trim(keep);
        if (pool_.usage().reserved <= keep || freed_.empty()) { return back; }
        // CUDA's pool returns freed memory to the device only after the host has waited for the
        // free. `freed_` lists streams on which memory was freed. The host waits for these streams,
        // but not for a stream that is being captured or was destroyed.
        freed_.synchronize();
        return back + pool_.trim(keep);
    }
    /// Returns unused memory above `keep` bytes to the device, as `trim` does, but never waits.
    /// Memory stays reserved if the host has not yet waited for its free. The result is the number
    /// of bytes that the device got back.
    std::size_t trim_no_wait(std::size_t keep = 0) { return pool_.trim(keep); }
    /// Must be called before the program destroys a raw stream `s` on which memory was freed, so
    /// that a later `trim` can wait for these frees.
    void                       retire(stream s) noexcept { freed_.retire(s); }
    [[nodiscard]] memory_usage usage() const { return pool_.usage(); }

    [[nodiscard]] cuda_device device() const noexcept { return pool_.device(); }
    /// Returns the driver's memory pool from which this resource allocates, for example to give
    /// other devices access to its memory.
    [[nodiscard]] cuda_pool&       pool() noexcept { return pool_; }
    [[nodiscard]] cuda_pool const& pool() const noexcept { return pool_; }

    friend bool operator==(cuda_async_resource const& a, cuda_async_resource const& b) noexcept {
        return a.pool_.get() == b.pool_.get();
    }

private:
    static constexpr std::size_t unit = 512;

    /// Waits for the device and then frees `block`. Called if the stream of a free was destroyed.
    /// If the wait fails, reports the block as a leak instead. `e`: details for the reports.
    void give_after_device(void* block, error e) noexcept {
        // Not by cudaDeviceSynchronize, which would end the captures of other streams.
        if (detail::try_wait<platform>(device())) {
            bool const freed = cuda_error::report(give(block, own_.view()), e);
            freed ? freed_.note(own_.view()) : detail::note_refused(e.pointer);
            return;
        }
        // The block is not freed, because the device may still use it.
        e.kind = error_kind::leak;
        e.call = nullptr;
        report_error(e);
        detail::note_refused(e.pointer);
    }
    static cudaError_t give(void* block, stream s) noexcept {
        return detail::cuda_exit::or_done([&] { return cudaFreeAsync(block, s.get()); });
    }

    // Allocates a block in the order of `s`, and sets `p` to the block's address. Does nothing if
    // `bytes` is 0. No device is made current, because CUDA uses the device of the stream and of
    // the pool.
    cudaError_t attempt(void*& p, stream s, std::size_t bytes, std::size_t alignment) {
        expects(valid_alignment(alignment), "the alignment must be a power of two");
        if (bytes == 0) { return cudaSuccess; }
        // The stream that vram knows by this handle was destroyed, so `s` is a new stream with the
        // same handle. Removes the data of the old stream.
        if (s.ended()) [[unlikely]] { detail::cuda_stream_ids::forget(s.get()); }
        detail::cuda_capture_guard const relaxed;
        std::size_t const                size   = detail::over_aligned::size(bytes, alignment);
        void*                            block  = nullptr;
        cudaError_t const                status = detail::cuda_exit::or_refused(
            [&] { return cudaMallocFromPoolAsync(&block, size, pool_.get(), s.get()); });
        if (status != cudaSuccess) { return status; }
        p = detail::over_aligned::hand_out(block, alignment);
        if (p != nullptr) [[likely]] { return status; }
        // There is no host memory to store the block's address, so the block is freed again.
        cuda_error::report(give(block, s), block, bytes);
        return cudaErrorMemoryAllocation;
    }

    cudaError_t attempt_now(void*& p, std::size_t bytes, std::size_t alignment) {
        cudaError_t status = attempt(p, own_.view(), bytes, alignment);
        if (status != cudaSuccess || p == nullptr) { return status; }
        detail::cuda_capture_guard const relaxed;
        status = detail::cuda_exit::or_done([&] { return cudaStreamSynchronize(own_.get()); });
        if (status != cudaSuccess) {
            cuda_error::clear(status);
            deallocate_sync(p, bytes, alignment);
            p = nullptr;
        }
        return status;
    }

    [[noreturn]] void refuse(cudaError_t status, stream s, std::size_t bytes,
                             std::size_t alignment) const {
        cuda_error::clear(status);
        if (status != cudaErrorMemoryAllocation) { throw cuda_error{status}; }
        shortage numbers{.asked     = bytes,
                         .rounded   = rounded_size(bytes, alignment),
                         .alignment = alignment,
                         .limit     = pool_.limit()};
        // Adds the stream's id and the pool's usage to the exception's `numbers`. If a query fails,
        // the numbers that are not yet set stay 0.
        try {
            numbers.stream   = s.id();
            auto const held  = pool_.usage();
            numbers.live     = held.live;
            numbers.reserved = held.reserved;
        } catch (...) {}
        memory_info const device = cuda_memory_info(pool_.device(), std::nothrow);
        numbers.device_free      = device.free;
        numbers.device_total     = device.total;
        throw out_of_memory{numbers};
    }

    cuda_pool                  pool_;
    cuda_stream                own_; ///< the stream for `allocate_sync` and `deallocate_sync`
    detail::cuda_freed_streams freed_;
};

} // namespace vram
