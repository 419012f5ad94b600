// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_pool` owns a memory pool of the driver, with its settings and its figures.

#include <vram/base/align.hpp> // unsatisfiable, saturating_add
#include <vram/base/memory_usage.hpp>
#include <vram/cuda/core/cuda_capture_guard.hpp>
#include <vram/cuda/core/cuda_context.hpp>
#include <vram/cuda/cuda_device_guard.hpp>
#include <vram/cuda/cuda_stream.hpp>

#include <cuda_runtime_api.h> // cudaMemPoolCreate

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {

/// Options of a memory pool of the driver: sizes, export to other processes, and reuse of memory
/// between streams.
struct cuda_pool_options {
    /// Number of bytes that the constructor reserves. Of these, CUDA may return those above
    /// `release_threshold` to the device.
    std::size_t initial_size = 0;
    /// Number of reserved bytes above which CUDA returns unused memory to the device at the next
    /// synchronization. By default, the pool keeps all memory.
    std::size_t release_threshold = unsatisfiable;
    /// Largest number of bytes that the pool may reserve: a request that needs more is refused. 0
    /// means no limit.
    std::size_t maximum_size = 0;
    /// Kind of handle by which other processes can import the pool. By default they cannot.
    cudaMemAllocationHandleType export_handle = cudaMemHandleTypeNone;

    // The next options state if a stream may reuse memory that was freed on another stream.

    /// If true, another stream may reuse freed memory if events of the program make that other
    /// stream wait for the free (cudaMemPoolReuseFollowEventDependencies).
    bool reuse_after_events = true;
    /// If true, another stream may reuse freed memory if the free is already complete when the
    /// stream requests memory. The addresses of allocations then depend on timing.
    bool reuse_when_finished = true;
    /// If true, another stream may get memory before its free is complete: CUDA makes that stream
    /// wait for the free.
    bool reuse_by_waiting = true;
};

/// Owns a separate `cudaMemPool_t`, which no other library uses.
///
/// Failure   Throws `cuda_error`: `cudaErrorNotSupported` if the device has no memory pools. After
///           a reset of the device, which destroys the pool, `usage` and `trim` return 0, and
///           `allow_access` and `deny_access` do nothing.
/// Threads   Any thread may call.
/// Streams   The driver keeps a destroyed pool until the live memory is freed.
/// Cost      Creation takes 0.4 ms.
class cuda_pool {
public:
    /// Creates a memory pool of the driver on `device`.
    explicit cuda_pool(cuda_device device, cuda_pool_options const& options = {})
        : device_{device}, maximum_{options.maximum_size} {
        cuda_device_guard const          on{device};
        detail::cuda_capture_guard const relaxed;
        cudaMemPoolProps                 properties{};
        properties.allocType     = cudaMemAllocationTypePinned; // device memory that never moves
        properties.handleTypes   = options.export_handle;
        properties.location.type = cudaMemLocationTypeDevice;
        properties.location.id   = device.ordinal();
        properties.maxSize       = options.maximum_size;
        cuda_check(
            detail::cuda_exit::or_refused([&] { return cudaMemPoolCreate(&pool_, &properties); }));
        life_ = detail::cuda_context::now(device);
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
          maximum_{other.maximum_},
          life_{other.life_} {}
    cuda_pool& operator=(cuda_pool&& other) noexcept {
        if (this != &other) {
            destroy();
            pool_    = std::exchange(other.pool_, nullptr);
            device_  = other.device_;
            maximum_ = other.maximum_;
            life_    = other.life_;
        }
        return *this;
    }
    ~cuda_pool() { destroy(); }

    /// Returns true if the device is known to have been reset, which has destroyed the pool and
    /// freed its memory.
    [[nodiscard]] bool lost() const noexcept { return detail::cuda_context::over(life_); }
    /// Returns CUDA's handle of the pool.
    [[nodiscard]] cudaMemPool_t get() const noexcept { return pool_; }
    [[nodiscard]] cuda_device   device() const noexcept { return device_; }
    /// Returns the largest number of bytes that the pool may reserve; 0 means no limit.
    [[nodiscard]] std::size_t maximum_size() const noexcept { return maximum_; }

    /// Lets kernels and copies that run on the device `peer` read and write all memory of the pool.
    /// Takes about 0.2 ms.
    void allow_access(cuda_device peer) { set_access(peer, cudaMemAccessFlagsProtReadWrite); }
    /// Ends the access of the device `peer` to the pool's memory.
    void deny_access(cuda_device peer) { set_access(peer, cudaMemAccessFlagsProtNone); }

    /// Returns unused memory above `keep` bytes to the device, without a wait, as far as CUDA
    /// permits. Returns the number of bytes returned.
    std::size_t trim(std::size_t keep = 0) {
        if (is_destroyed()) { return 0; }
        detail::cuda_capture_guard const relaxed;
        std::size_t const                before = figure(cudaMemPoolAttrReservedMemCurrent);
        // cudaMemPoolTrimTo counts the live bytes among the bytes to keep, so they are added to
        // `keep`. If the sum is too large for the type, it becomes the largest number, and nothing
        // is trimmed.
        std::size_t const held = saturating_add(figure(cudaMemPoolAttrUsedMemCurrent), keep);
        if (held >= before) { return 0; }
        cuda_check(detail::cuda_exit::or_done([&] { return cudaMemPoolTrimTo(pool_, held); }));
        std::size_t const after = figure(cudaMemPoolAttrReservedMemCurrent);
        // Returns 0 if other threads have meanwhile made the pool grow beyond `before`.
        return before > after ? before - after : 0;
    }

    /// Returns the driver's figures of this pool: live and reserved bytes, and the peaks of both.
    [[nodiscard]] memory_usage usage() const {
        detail::cuda_capture_guard const relaxed;
        memory_usage                     now{};
        if (is_destroyed()) { return now; }
        now.live          = figure(cudaMemPoolAttrUsedMemCurrent);
        now.reserved      = figure(cudaMemPoolAttrReservedMemCurrent);
        now.peak_live     = figure(cudaMemPoolAttrUsedMemHigh);
        now.peak_reserved = figure(cudaMemPoolAttrReservedMemHigh);
        return now;
    }

    /// Returns `maximum_size()` for an error report, or `shortage::no_limit` if that is 0.
    [[nodiscard]] std::size_t limit() const noexcept {
        return maximum_ != 0 ? maximum_ : shortage::no_limit;
    }

private:
    /// Asks the driver, and returns true if a reset of the device has destroyed the pool. Its
    /// handle must not be passed to CUDA then.
    [[nodiscard]] bool is_destroyed() const noexcept {
        detail::cuda_context::notice(device_);
        return lost();
    }

    [[nodiscard]] std::size_t figure(cudaMemPoolAttr which) const {
        std::uint64_t value = 0;
        cuda_check(detail::cuda_exit::or_done(
            [&] { return cudaMemPoolGetAttribute(pool_, which, &value); }));
        return value;
    }

    void set_access(cuda_device peer, cudaMemAccessFlags flags) {
        if (is_destroyed()) { return; }
        detail::cuda_capture_guard const relaxed;
        cudaMemAccessDesc                access{};
        access.location.type = cudaMemLocationTypeDevice;
        access.location.id   = peer.ordinal();
        access.flags         = flags;
        cuda_check(
            detail::cuda_exit::or_done([&] { return cudaMemPoolSetAccess(pool_, &access, 1); }));
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

    /// Makes the pool reserve `bytes` bytes, by allocating and freeing one block of this size. CUDA
    /// may return the bytes above the release threshold to the device.
    void fill_up(std::size_t bytes) {
        cuda_stream const stream{device_};
        void*             p = nullptr;
        cuda_check(cudaMallocFromPoolAsync(&p, bytes, pool_, stream.get()),
                   {.asked = bytes, .rounded = bytes, .limit = limit()});
        cuda_check(cudaFreeAsync(p, stream.get()));
        stream.synchronize();
    }

    void destroy() noexcept {
        // Nothing is left to destroy if this object was moved from, or if a reset of the device has
        // destroyed the pool.
        if (pool_ == nullptr || detail::cuda_context::ended(life_)) { return; }
        detail::cuda_capture_guard const relaxed;
        cuda_error::report("cudaMemPoolDestroy",
                           detail::cuda_exit::or_done([&] { return cudaMemPoolDestroy(pool_); }));
    }

    cudaMemPool_t              pool_ = nullptr;
    cuda_device                device_;
    std::size_t                maximum_;
    detail::cuda_context::life life_{};
};

} // namespace vram
