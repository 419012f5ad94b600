// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_pool` owns a memory pool of the driver, with its settings and its figures.

#include <vram/base/align.hpp>              // unsatisfiable, saturating_add
#include <vram/base/memory_usage.hpp>       // memory_usage
#include <vram/cuda/cuda_capture_guard.hpp> // cuda_capture_guard
#include <vram/cuda/cuda_device_guard.hpp>  // cuda_device_guard
#include <vram/cuda/cuda_stream.hpp>        // cuda_stream

#include <cuda_runtime_api.h> // cudaMemPoolCreate

#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <utility> // exchange

namespace vram {

/// How a pool of the driver is made.
struct cuda_pool_options {
    std::size_t initial_size = 0; ///< bytes that the pool holds from the start
    std::size_t release_threshold =
        unsatisfiable; ///< unused bytes above this go back at the next synchronisation
    std::size_t                 maximum_size  = 0; ///< bytes that the pool may hold; 0: no limit
    cudaMemAllocationHandleType export_handle = cudaMemHandleTypeNone; ///< for other processes

    // What a request on one stream may be met with, when the memory was freed on another:
    bool reuse_after_events = true; ///< memory whose free the program ordered before the request
    bool reuse_when_finished =
        true; ///< memory whose free happens to be over; makes runs less repeatable
    bool reuse_by_waiting = true; ///< memory that the driver makes the request's stream wait for
};

/// A `cudaMemPool_t` of its own, so that its limits and figures are nobody else's.
///
/// Failure   `cuda_error`; where the device has no pools, `cudaErrorNotSupported`; the destructor,
///           the error sink
/// Threads   any
/// Streams   destroyed with memory out, the pool lives on until that is freed
/// Cost      made in 0.4 ms
class cuda_pool {
public:
    explicit cuda_pool(cuda_device device, cuda_pool_options const& options = {})
        : device_{device}, maximum_{options.maximum_size} {
        cuda_device_guard const  on{device};
        cuda_capture_guard const relaxed;
        cudaMemPoolProps         properties{};
        properties.allocType     = cudaMemAllocationTypePinned; // no other kind yet
        properties.handleTypes   = options.export_handle;
        properties.location.type = cudaMemLocationTypeDevice;
        properties.location.id   = device.ordinal();
        properties.maxSize       = options.maximum_size;
        cuda_check(cuda_exit::or_refused([&] { return cudaMemPoolCreate(&pool_, &properties); }));
        try {
            set_up(options);
        } catch (...) {
            destroy();
            throw;
        }
    }

    cuda_pool(cuda_pool&& other) noexcept
        : pool_{std::exchange(other.pool_, nullptr)},
          device_{other.device_},
          maximum_{other.maximum_} {}
    cuda_pool& operator=(cuda_pool&& other) noexcept {
        if (this != &other) {
            destroy();
            pool_    = std::exchange(other.pool_, nullptr);
            device_  = other.device_;
            maximum_ = other.maximum_;
        }
        return *this;
    }
    ~cuda_pool() { destroy(); }

    [[nodiscard]] cudaMemPool_t get() const noexcept { return pool_; }
    [[nodiscard]] cuda_device   device() const noexcept { return device_; }
    [[nodiscard]] std::size_t   maximum_size() const noexcept { return maximum_; }

    /// Lets kernels and copies of `peer` reach the pool's memory, what is out already and what
    /// comes. About 0.2 ms.
    void allow_access(cuda_device peer) { set_access(peer, cudaMemAccessFlagsProtReadWrite); }
    /// Takes that back.
    void deny_access(cuda_device peer) { set_access(peer, cudaMemAccessFlagsProtNone); }

    /// Gives unused memory back to the device until at most `keep` bytes of it are held; returns
    /// what really went.
    std::size_t trim(std::size_t keep = 0) {
        cuda_capture_guard const relaxed;
        std::size_t const        before = figure(cudaMemPoolAttrReservedMemCurrent);
        // CUDA's own bound counts what is in use as well; and SIZE_MAX, to CUDA, is nothing to
        // keep.
        std::size_t const held = saturating_add(figure(cudaMemPoolAttrUsedMemCurrent), keep);
        if (held >= before) { return 0; }
        cuda_check(cuda_exit::or_done([&] { return cudaMemPoolTrimTo(pool_, held); }));
        std::size_t const after = figure(cudaMemPoolAttrReservedMemCurrent);
        return before > after ? before - after : 0; // another thread may have made it grow
    }

    /// The driver's figures: what is out (live), what is held, and the highest of both.
    [[nodiscard]] memory_usage usage() const {
        cuda_capture_guard const relaxed;
        memory_usage             now{};
        now.live          = figure(cudaMemPoolAttrUsedMemCurrent);
        now.reserved      = figure(cudaMemPoolAttrReservedMemCurrent);
        now.peak_live     = figure(cudaMemPoolAttrUsedMemHigh);
        now.peak_reserved = figure(cudaMemPoolAttrReservedMemHigh);
        return now;
    }

    /// The limit as a refusal states it.
    [[nodiscard]] std::size_t limit() const noexcept {
        return maximum_ != 0 ? maximum_ : shortage::no_limit;
    }

private:
    [[nodiscard]] std::size_t figure(cudaMemPoolAttr which) const {
        std::uint64_t value = 0;
        cuda_check(
            cuda_exit::or_done([&] { return cudaMemPoolGetAttribute(pool_, which, &value); }));
        return value;
    }

    void set_access(cuda_device peer, cudaMemAccessFlags flags) {
        cuda_capture_guard const relaxed;
        cudaMemAccessDesc        access{};
        access.location.type = cudaMemLocationTypeDevice;
        access.location.id   = peer.ordinal();
        access.flags         = flags;
        cuda_check(cuda_exit::or_done([&] { return cudaMemPoolSetAccess(pool_, &access, 1); }));
    }

    void set_up(cuda_pool_options const& options) {
        std::uint64_t threshold = options.release_threshold;
        cuda_check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold));
        auto const reuse = [&](cudaMemPoolAttr which, bool allowed) {
            int value = allowed ? 1 : 0;
            cuda_check(cudaMemPoolSetAttribute(pool_, which, &value));
        };
        reuse(cudaMemPoolReuseFollowEventDependencies, options.reuse_after_events);
        reuse(cudaMemPoolReuseAllowOpportunistic, options.reuse_when_finished);
        reuse(cudaMemPoolReuseAllowInternalDependencies, options.reuse_by_waiting);
        if (options.initial_size != 0) { fill_up(options.initial_size); }
    }

    /// The driver has no other way to make a pool hold memory than to have it out once.
    void fill_up(std::size_t bytes) {
        cuda_stream const stream{device_};
        void*             p = nullptr;
        cuda_check(cudaMallocFromPoolAsync(&p, bytes, pool_, stream.get()),
                   {.asked = bytes, .rounded = bytes, .limit = limit()});
        cuda_check(cudaFreeAsync(p, stream.get()));
        stream.synchronize();
    }

    void destroy() noexcept {
        if (pool_ == nullptr) { return; } // moved from
        cuda_capture_guard const relaxed;
        cuda_error::report("cudaMemPoolDestroy",
                           cuda_exit::or_done([&] { return cudaMemPoolDestroy(pool_); }));
    }

    cudaMemPool_t pool_ = nullptr;
    cuda_device   device_;
    std::size_t   maximum_;
};

} // namespace vram
