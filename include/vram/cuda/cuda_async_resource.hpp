// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_async_resource` is the driver's own stream-ordered memory: cudaMallocAsync, from a pool of
/// its own.

#include <vram/base/call_site.hpp>          // call_site
#include <vram/base/contract.hpp>           // expects
#include <vram/concepts/name_of_stream.hpp> // name_of_stream
#include <vram/concepts/powers.hpp>         // the concepts that the proofs below check
#include <vram/cuda/cuda_freed_streams.hpp> // cuda_freed_streams
#include <vram/cuda/cuda_platform.hpp>      // cuda_platform
#include <vram/cuda/cuda_pool.hpp>          // cuda_pool
#include <vram/cuda/over_aligned.hpp>       // over_aligned

#include <cuda_runtime_api.h> // cudaMallocFromPoolAsync, cudaFreeAsync

#include <algorithm> // min
#include <cstddef>   // size_t
#include <new>       // bad_alloc

namespace vram {

/// Device memory in stream order, pooled by the driver.
///
///     cuda_async_resource mr{{.initial_size = 1_GiB, .maximum_size = 8_GiB}};
///
/// Failure   `out_of_memory` with the pool's and the device's figures, else `cuda_error`; in
///           `deallocate`, the error sink
/// Threads   any
/// Streams   of any device that has access (`pool().allow_access`). On a stream that is being
///           captured, the memory is the graph's: it is given back on a stream of the same capture.
///           The `_sync` pair runs on a stream of its own. A block whose stream was destroyed is
///           freed after a wait for the device; for a raw `cudaStream_t` that is reported. If
///           `trim` is called, a raw stream on which memory was freed is retired before it is
///           destroyed
/// Cost      about 0.4 us a call from memory that the pool holds; the `_sync` pair waits for its
///           own stream
class cuda_async_resource {
public:
    using platform   = cuda_platform;
    using stream     = cuda_stream_view;
    using properties = property_set<device_accessible>;

    explicit cuda_async_resource(cuda_pool_options const& options = {})
        : cuda_async_resource{cuda_device::current(), options} {}
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

    /// A refusal of any kind is `nullptr`: the next call that throws tells it.
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

    /// \param bytes, alignment  as they were asked with
    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept {
        if (p == nullptr || cuda_exit::began()) { return; }
        void* const              block = over_aligned::take_back(p, bytes, alignment, at);
        cuda_capture_guard const relaxed;
        error                    e{.kind      = error_kind::platform_error,
                                   .pointer   = p,
                                   .bytes     = bytes,
                                   .caller    = at,
                                   .alignment = alignment,
                                   .stream    = name_of_stream<platform>(s),
                                   .resource  = "cuda_async_resource",
                                   .call      = "cudaFreeAsync"};
        bool const held = cuda_stream_ids::announced(s.get()) != 0; // then its handle is valid
        if (s.ended() && !held) { return give_after_device(block, e); }
        freed_.note(s);
        cudaError_t const status = give(block, s);
        if (status != cudaErrorInvalidResourceHandle) [[likely]] {
            cuda_error::report(status, e);
            return;
        }
        cuda_error::clear(status); // a raw stream that was destroyed
        retire(s);
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

    /// The driver allocates in units of 512 bytes.
    [[nodiscard]] static constexpr std::size_t rounded_size(std::size_t bytes,
                                                            std::size_t alignment) noexcept {
        return bytes == 0 ? 0 : align(over_aligned::size(bytes, alignment), unit);
    }

    /// Gives unused memory back to the device until at most `keep` bytes of it are held. If the
    /// pool then holds more, the host waits for the streams on which memory was freed, and trims
    /// again. Returns the bytes that went.
    std::size_t trim(std::size_t keep = 0) {
        std::size_t const  back = pool_.trim(keep);
        memory_usage const now  = pool_.usage();
        if (now.reserved - std::min(now.reserved, now.live) <= keep) { return back; }
        freed_.synchronize(pool_.device());
        return back + pool_.trim(keep);
    }
    /// The same without a wait: what is unused now.
    std::size_t trim_no_wait(std::size_t keep = 0) { return pool_.trim(keep); }
    /// The stream is about to be destroyed: `trim` does not wait for it.
    void                       retire(stream s) noexcept { freed_.forget(s); }
    [[nodiscard]] memory_usage usage() const { return pool_.usage(); }

    [[nodiscard]] cuda_device      device() const noexcept { return pool_.device(); }
    [[nodiscard]] cuda_pool&       pool() noexcept { return pool_; }
    [[nodiscard]] cuda_pool const& pool() const noexcept { return pool_; }

    friend bool operator==(cuda_async_resource const& a, cuda_async_resource const& b) noexcept {
        return a.pool_.get() == b.pool_.get();
    }

private:
    static constexpr std::size_t unit = 512;

    /// The stream of a block has been destroyed, and its work may still run: the host waits for the
    /// device, and the block is freed on the resource's own stream.
    void give_after_device(void* block, error e) noexcept {
        cuda_device_guard const on{device(), std::nothrow};
        cudaError_t             status = on.status();
        if (status == cudaSuccess) {
            status = cuda_exit::or_done([] { return cudaDeviceSynchronize(); });
        }
        if (status == cudaSuccess) {
            freed_.note(own_.view());
            cuda_error::report(give(block, own_.view()), e);
            return;
        }
        e.call = "cudaDeviceSynchronize";
        cuda_error::report(status, e);
        e.kind = error_kind::leak; // it may still be in use
        e.call = nullptr;
        report_error(e);
    }
    static cudaError_t give(void* block, stream s) noexcept {
        return cuda_exit::or_done([&] { return cudaFreeAsync(block, s.get()); });
    }

    // The stream says on which device the call works, so no device is made current.
    cudaError_t attempt(void*& p, stream s, std::size_t bytes, std::size_t alignment) {
        expects(valid_alignment(alignment), "the alignment is a power of two");
        if (bytes == 0) { return cudaSuccess; }
        // A stream that is used is not the one that ended: another has its handle.
        if (s.ended()) [[unlikely]] { cuda_stream_ids::forget(s.get()); }
        cuda_capture_guard const relaxed;
        std::size_t const        size   = over_aligned::size(bytes, alignment);
        void*                    block  = nullptr;
        cudaError_t const        status = cuda_exit::or_refused(
            [&] { return cudaMallocFromPoolAsync(&block, size, pool_.get(), s.get()); });
        if (status != cudaSuccess) { return status; }
        p = over_aligned::hand_out(block, alignment);
        if (p != nullptr) [[likely]] { return status; }
        cuda_error::report(give(block, s), block, bytes);
        return cudaErrorMemoryAllocation; // the host has no room for the note
    }

    cudaError_t attempt_now(void*& p, std::size_t bytes, std::size_t alignment) {
        cudaError_t status = attempt(p, own_.view(), bytes, alignment);
        if (status != cudaSuccess || p == nullptr) { return status; }
        cuda_capture_guard const relaxed;
        status = cuda_exit::or_done([&] { return cudaStreamSynchronize(own_.get()); });
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
        try { // the request is refused either way; figures that cannot be had stay zero
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

    cuda_pool          pool_;
    cuda_stream        own_; ///< of the `_sync` pair
    cuda_freed_streams freed_;
};

static_assert(resource<cuda_async_resource> && fallible_resource<cuda_async_resource>);
static_assert(trimmable_resource<cuda_async_resource> && measured_resource<cuda_async_resource>);
static_assert(has_property<cuda_async_resource, device_accessible>);

} // namespace vram
