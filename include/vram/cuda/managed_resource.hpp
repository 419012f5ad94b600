// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `managed_resource` is memory that moves to the processor that touches it: cudaMallocManaged,
/// with advice and prefetch.

#include <vram/concepts/powers.hpp>  // the concepts that the proofs below check
#include <vram/cuda/cuda_direct.hpp> // cuda_direct

#include <cuda_runtime_api.h> // cudaMallocManaged, cudaMemAdvise, cudaMemPrefetchAsync

#include <cstddef> // size_t

namespace vram {

/// Memory with one address for the host and all devices; its pages are wherever they were touched
/// last, and there may be more of it than the device has.
///
///     managed_resource mr;
///     mr.advise(p, n, cudaMemAdviseSetReadMostly, mr.here());
///     mr.prefetch(stream, p, n, mr.here());            // before the kernel that reads it
///     mr.prefetch(stream, p, n, managed_resource::host());
///
/// Failure   `out_of_memory`, else `cuda_error`; in `deallocate_sync`, the error sink
/// Threads   any
/// Streams   `prefetch` in stream order; `deallocate_sync` waits for the whole device, as cudaFree
///           does
/// Cost      a page touched where it is not costs a fault of 10 us and more; prefetched, the copy
///           alone
class managed_resource : public cuda_direct<managed_resource> {
public:
    using properties = property_set<device_accessible, host_accessible>;

    explicit managed_resource(cuda_device device = cuda_device::current()) noexcept
        : cuda_direct{device} {}

    /// Tells the driver how `bytes` bytes at `p` will be used, or where:
    /// `cudaMemAdviseSetReadMostly`, `cudaMemAdviseSetPreferredLocation`,
    /// `cudaMemAdviseSetAccessedBy` and what unsets them.
    void advise(void const* p, std::size_t bytes, cudaMemoryAdvise advice,
                cudaMemLocation where) const {
        if (bytes == 0) { return; }
#if CUDART_VERSION >= 13000
        cuda_check(cuda_exit::or_done([&] { return cudaMemAdvise(p, bytes, advice, where); }));
#else
        cuda_check(cuda_exit::or_done([&] { return cudaMemAdvise_v2(p, bytes, advice, where); }));
#endif
    }

    /// Moves `bytes` bytes at `p` in the order of `s`, so that what comes after it finds them
    /// there.
    void prefetch(stream s, void const* p, std::size_t bytes, cudaMemLocation where) const {
        if (bytes == 0) { return; }
#if CUDART_VERSION >= 13000
        cuda_check(
            cuda_exit::or_done([&] { return cudaMemPrefetchAsync(p, bytes, where, 0, s.get()); }));
#else
        cuda_check(cuda_exit::or_done(
            [&] { return cudaMemPrefetchAsync_v2(p, bytes, where, 0, s.get()); }));
#endif
    }

    /// The places that advice and prefetch speak of.
    [[nodiscard]] static cudaMemLocation at(cuda_device device) noexcept {
        return place(cudaMemLocationTypeDevice, device.ordinal());
    }
    [[nodiscard]] static cudaMemLocation host() noexcept {
        return place(cudaMemLocationTypeHost, 0);
    }
    [[nodiscard]] cudaMemLocation here() const noexcept { return at(device()); }

private:
    friend cuda_direct;

    static constexpr char const* own_name  = "managed_resource";
    static constexpr char const* free_call = "cudaFree";

    static cudaMemLocation place(cudaMemLocationType type, int id) noexcept {
        cudaMemLocation where{};
        where.type = type;
        where.id   = id;
        return where;
    }

    static cudaError_t take(void** p, std::size_t bytes) noexcept {
        return cudaMallocManaged(p, bytes, cudaMemAttachGlobal);
    }
    static cudaError_t give(void* p) noexcept { return cudaFree(p); }
};

static_assert(synchronous_resource<managed_resource> && fallible_resource<managed_resource>);
static_assert(has_property<managed_resource, device_accessible>);
static_assert(has_property<managed_resource, host_accessible>);

} // namespace vram
