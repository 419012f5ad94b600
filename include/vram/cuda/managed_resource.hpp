// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `managed_resource` is memory that moves to the processor that touches it: cudaMallocManaged,
/// with advice and prefetch.

#include <vram/cuda/core/cuda_direct.hpp>

#include <cuda_runtime_api.h> // cudaMallocManaged, cudaMemAdvise, cudaMemPrefetchAsync

#include <cstddef>

namespace vram {

/// Managed memory, with one address for the host and all devices. More memory can be allocated
/// than the device has.
///
///     managed_resource mr;
///     mr.advise(p, n, cudaMemAdviseSetReadMostly, mr.here());
///     mr.prefetch(stream, p, n, mr.here());            // before the kernel that reads it
///     mr.prefetch(stream, p, n, managed_resource::host());
///
/// Failure   Throws `out_of_memory` or `cuda_error`; `deallocate_sync` reports errors to the error
///           sink.
/// Threads   Any thread may call.
/// Streams   `prefetch` is ordered in its stream; `deallocate_sync` waits for the device.
/// Cost      The first access to a page on another processor costs a fault of 10 us or more.
class managed_resource : public detail::cuda_direct<managed_resource> {
public:
    using properties = property_set<device_accessible, host_accessible>;

    /// Makes a resource of managed memory, which all devices can use. `here()` returns `device` as
    /// a location.
    explicit managed_resource(cuda_device device = cuda_device::current()) noexcept
        : cuda_direct{device} {}

    /// Advises the driver on the use or the location of managed memory, for example with
    /// `cudaMemAdviseSetReadMostly` and the device `where`.
    void advise(void const* p, std::size_t bytes, cudaMemoryAdvise advice,
                cudaMemLocation where) const {
        if (bytes == 0) { return; }
#if CUDART_VERSION >= 13000
        cuda_check(
            detail::cuda_exit::or_done([&] { return cudaMemAdvise(p, bytes, advice, where); }));
#else
        cuda_check(
            detail::cuda_exit::or_done([&] { return cudaMemAdvise_v2(p, bytes, advice, where); }));
#endif
    }

    /// Moves managed memory to the device or host `where`, in the order of the stream `s`. If the
    /// program has advised `cudaMemAdviseSetReadMostly` for the memory, copies it instead.
    void prefetch(stream s, void const* p, std::size_t bytes, cudaMemLocation where) const {
        if (bytes == 0) { return; }
#if CUDART_VERSION >= 13000
        cuda_check(detail::cuda_exit::or_done(
            [&] { return cudaMemPrefetchAsync(p, bytes, where, 0, s.get()); }));
#else
        cuda_check(detail::cuda_exit::or_done(
            [&] { return cudaMemPrefetchAsync_v2(p, bytes, where, 0, s.get()); }));
#endif
    }

    /// `at(device)`, `host()` and `here()` return locations for `advise` and `prefetch`: a device,
    /// the host, and the device of this resource.
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

} // namespace vram
