// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_async_resource` is the driver's own stream-ordered memory: cudaMallocAsync from a separate
/// pool.

#include <vram/base/call_site.hpp>
#include <vram/base/contract.hpp> // expects
#include <vram/concepts/core/name_of_stream.hpp>
#include <vram/cuda/core/cuda_freed_streams.hpp>
#include <vram/cuda/core/over_aligned.hpp>
#include <vram/cuda/cuda_platform.hpp>
#include <vram/cuda/cuda_pool.hpp>

#include <cuda_runtime_api.h> // cudaMallocFromPoolAsync, cudaFreeAsync

#include <cstddef> // size_t
#include <new>     // bad_alloc

namespace vram {

/// Device memory that is allocated and freed in stream order and pooled by the driver.
///
///     cuda_async_resource mr{{.initial_size = 1_GiB, .maximum_size = 8_GiB}};
///
/// Failure   Throws `out_of_memory` with the figures of the pool and the device, or `cuda_error`.
///           `deallocate` reports errors to the error sink.
/// Threads   Any thread may call.
/// Streams   The stream may belong to any device that has access (`pool().allow_access`). Memory
///           that is allocated on a stream during its capture belongs to the graph: it must be
///           freed on a stream of that capture. `allocate_sync` and `deallocate_sync` use a stream
///           of the resource. If the stream of a free was destroyed, the block is freed after a
///           wait for the device; for a raw `cudaStream_t` this is reported to the error sink. If
///           `trim` is used, a raw stream on which memory was freed must be retired before it is
///           destroyed.
/// Cost      About 0.4 us a call from memory that the pool has reserved. `allocate_sync` also waits
///           for the resource's stream.
class cuda_async_resource {
public:
    using platform   = cuda_platform;
    using stream     = cuda_stream_view;
    using properties = property_set<device_accessible>;

    /// Makes a pool with `options` on the current device.
    explicit cuda_async_resource(cuda_pool_options const& options = {})
        : cuda_async_resource{cuda_device::current(), options} {}
    /// Makes a pool with `options` on `device`.
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

    /// Returns null if the allocation fails for any reason, and clears CUDA's latched error (unless
    /// the context is broken). `allocate` throws the reason instead.
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

    /// Frees a block in the order of the stream `s`; `bytes` and `alignment` are the values of the
    /// allocation. Makes no call of CUDA if the process is ending or a child of `fork`, or if a
    /// reset of the device is known to have freed the block.
    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept {
        if (p == nullptr || detail::cuda_exit::began()) { return; }
        void* const block = detail::over_aligned::take_back(p, bytes, alignment, at);
        if (pool_.lost()) { return; } // a reset of the device has freed the block
        detail::cuda_capture_guard const relaxed;
        error                            e{.kind      = error_kind::platform_error,
                                           .pointer   = p,
                                           .bytes     = bytes,
                                           .caller    = at,
                                           .alignment = alignment,
                                           .stream    = detail::name_of_stream<platform>(s),
                                           .resource  = "cuda_async_resource",
                                           .call      = "cudaFreeAsync"};
        // True if vram created the stream and has not destroyed it yet. The program may have ended
        // its `cuda_stream`: vram keeps the stream as long as a resource refers to it.
        bool const held = detail::cuda_stream_ids::announced(s.get()) != 0;
        if (s.ended() && !held) { return give_after_device(block, e); }
        cudaError_t const status = give(block, s);
        if (status != cudaErrorInvalidResourceHandle) [[likely]] {
            if (cuda_error::report(status, e)) { freed_.note(s); }
            return;
        }
        // CUDA does not know the handle, because the raw stream was destroyed.
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

    /// Returns the bytes that the driver allocates for a request: `bytes` rounded up to a multiple
    /// of 512, more for a large alignment.
    [[nodiscard]] static constexpr std::size_t rounded_size(std::size_t bytes,
                                                            std::size_t alignment) noexcept {
        return bytes == 0 ? 0 : align(detail::over_aligned::size(bytes, alignment), unit);
    }

    /// Returns unused memory to the device until the pool has at most `keep` unused bytes. If the
    /// pool still has more than `keep` bytes reserved, and memory was freed since the last trim,
    /// the host waits for the streams on which it was freed, and trims again: CUDA returns memory
    /// only if the host has seen that its free is complete. Returns the bytes returned to the
    /// device.
    std::size_t trim(std::size_t keep = 0) {
        std::size_t const back = pool_.trim(keep);
        if (pool_.usage().reserved <= keep || freed_.empty()) { return back; }
        freed_.synchronize();
        return back + pool_.trim(keep);
    }
    /// Returns unused memory to the device without a wait, until the pool has at most `keep` unused
    /// bytes. Returns the number of bytes returned to the device.
    std::size_t trim_no_wait(std::size_t keep = 0) { return pool_.trim(keep); }
    /// Must be called before the raw stream `s` is destroyed. A later `trim` waits for an event
    /// behind the frees on `s`.
    void                       retire(stream s) noexcept { freed_.retire(s); }
    [[nodiscard]] memory_usage usage() const { return pool_.usage(); }

    [[nodiscard]] cuda_device device() const noexcept { return pool_.device(); }
    /// Returns the driver's memory pool of this resource.
    [[nodiscard]] cuda_pool&       pool() noexcept { return pool_; }
    [[nodiscard]] cuda_pool const& pool() const noexcept { return pool_; }

    friend bool operator==(cuda_async_resource const& a, cuda_async_resource const& b) noexcept {
        return a.pool_.get() == b.pool_.get();
    }

private:
    static constexpr std::size_t unit = 512;

    /// Frees a block of a destroyed stream, which may still have work: the host waits for the
    /// device, and the block is freed on the resource's stream. If the wait fails, the block is
    /// reported as a leak.
    void give_after_device(void* block, error e) noexcept {
        cuda_device_guard const on{device(), std::nothrow};
        cudaError_t             status = on.status();
        if (status == cudaSuccess) {
            status = detail::cuda_exit::or_done([] { return cudaDeviceSynchronize(); });
        }
        if (status == cudaSuccess) {
            if (cuda_error::report(give(block, own_.view()), e)) { freed_.note(own_.view()); }
            return;
        }
        e.call = "cudaDeviceSynchronize";
        cuda_error::report(status, e);
        e.kind = error_kind::leak; // the block is not freed, because the device may still use it
        e.call = nullptr;
        report_error(e);
    }
    static cudaError_t give(void* block, stream s) noexcept {
        return detail::cuda_exit::or_done([&] { return cudaFreeAsync(block, s.get()); });
    }

    // CUDA uses the device of the stream, not the current one, so no device is made current.
    cudaError_t attempt(void*& p, stream s, std::size_t bytes, std::size_t alignment) {
        expects(valid_alignment(alignment), "the alignment must be a power of two");
        if (bytes == 0) { return cudaSuccess; }
        // The caller may only pass an existing stream. If the last known stream with this handle
        // has ended, CUDA has reused the handle for a new one.
        if (s.ended()) [[unlikely]] { detail::cuda_stream_ids::forget(s.get()); }
        detail::cuda_capture_guard const relaxed;
        std::size_t const                size   = detail::over_aligned::size(bytes, alignment);
        void*                            block  = nullptr;
        cudaError_t const                status = detail::cuda_exit::or_refused(
            [&] { return cudaMallocFromPoolAsync(&block, size, pool_.get(), s.get()); });
        if (status != cudaSuccess) { return status; }
        p = detail::over_aligned::hand_out(block, alignment);
        if (p != nullptr) [[likely]] { return status; }
        cuda_error::report(give(block, s), block, bytes);
        return cudaErrorMemoryAllocation; // there is no host memory to store the block's address
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
        // The stream's id and the pool's usage stay zero if CUDA cannot return them.
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
