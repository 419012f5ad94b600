// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_default_streams` remembers the ids of default streams, for times at which CUDA must not be
/// asked.

#include <vram/cuda/cuda_device.hpp>
#include <vram/cuda/cuda_error.hpp>

#include <cuda_runtime_api.h> // cudaStream_t, cudaStreamLegacy, cudaStreamPerThread

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>
#include <optional> // optional

namespace vram {
namespace detail {

struct cuda_stream_identity {
    std::uint64_t id = 0;
    cuda_device   device{};
};

/// A table of the ids of default streams, for times at which CUDA must not be asked. The handle of
/// a default stream means one stream on each device, and `cudaStreamPerThread` also one for each
/// thread, so an id is stored for a thread and a device.
///
/// Threads   Any thread may call.
class cuda_default_streams {
public:
    [[nodiscard]] static bool contain(cudaStream_t stream) noexcept {
        return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
    }

    /// Stores `id` as the id of the default stream that the handle `stream` denotes for the calling
    /// thread and the current device.
    static void note(cudaStream_t stream, std::uint64_t id) noexcept {
        names& own = own_names();
        for (named const& each : own.known) {
            if (each.what.id == id && each.stream == stream) { return; }
        }
        int               device = 0;
        cudaError_t const status = cudaGetDevice(&device);
        if (status != cudaSuccess) { return cuda_error::clear(status); }
        cuda_stream_identity const now{id, cuda_device{device}};
        // All threads share a device's legacy stream, so its id is stored for all threads.
        if (is_legacy(stream) && device < most_devices) {
            legacy_[device].store(id, std::memory_order_relaxed);
        }
        // After a reset of the device, the handle denotes a new default stream. So removes the id
        // of the old one.
        for (named& each : own.known) {
            if (each.stream == stream && each.what.device == now.device) { each.what.id = 0; }
        }
        own.known[own.next] = {stream, now};
        own.next            = (own.next + 1) % names::most;
    }
    /// Returns the id and device of the default stream that the handle `stream` denotes for the
    /// calling thread and the current device. Returns nothing if no id is stored.
    [[nodiscard]] static std::optional<cuda_stream_identity> recall(cudaStream_t stream) {
        cuda_device const here = cuda_device::current();
        // Uses the shared id first, because another thread may have stored a newer one after a
        // reset of the device.
        if (is_legacy(stream) && here.ordinal() < most_devices) {
            std::uint64_t const id = legacy_[here.ordinal()].load(std::memory_order_relaxed);
            if (id != 0) { return cuda_stream_identity{id, here}; }
        }
        for (named const& each : own_names().known) {
            if (each.what.id != 0 && each.stream == stream && each.what.device == here) {
                return each.what;
            }
        }
        return std::nullopt;
    }

private:
    /// Number of devices for which the id of the legacy stream is stored.
    static constexpr int most_devices = 64;

    /// One entry of the table: the default stream that the handle `stream` denotes on the device
    /// `what.device`.
    struct named {
        cudaStream_t stream = nullptr;
        /// The id and device of the stream. If the id is 0, this entry of the table is empty.
        cuda_stream_identity what;
    };
    /// The table of one thread: the default streams that it has used. In a full table, a new entry
    /// replaces the oldest one.
    struct names {
        static constexpr std::size_t most = 24;
        named                        known[most];
        std::size_t                  next = 0;
    };
    static names& own_names() noexcept {
        thread_local names table;
        return table;
    }
    [[nodiscard]] static bool is_legacy(cudaStream_t stream) noexcept {
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
        return stream == cudaStreamLegacy;
#else
        return stream == cudaStreamLegacy || stream == nullptr;
#endif
    }

    /// Id of the legacy default stream of each device; 0 if it is not known.
    static inline constinit std::atomic<std::uint64_t> legacy_[most_devices]{};
};

} // namespace detail
} // namespace vram
