// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_platform` is CUDA as the rest of vram sees it.

#include <vram/concepts/batched_copies.hpp>   // the concepts that the proofs below check
#include <vram/concepts/completion_flags.hpp> // completion_flags
#include <vram/concepts/platform.hpp>         // platform
#include <vram/concepts/stream_hold.hpp>      // announces_ends
#include <vram/concepts/stream_standing.hpp>  // stream_standing
#include <vram/cuda/cuda_copy.hpp>            // cuda_copy
#include <vram/cuda/cuda_copy_batch.hpp>      // cuda_copy_batch
#include <vram/cuda/cuda_event.hpp>           // cuda_event
#include <vram/cuda/cuda_fill.hpp>            // cuda_fill
#include <vram/cuda/cuda_mark.hpp>            // cuda_mark
#include <vram/cuda/cuda_memory_info.hpp>     // cuda_memory_info
#include <vram/cuda/cuda_memory_kind.hpp>     // cuda_memory_kind
#include <vram/cuda/cuda_numa_local.hpp>      // cuda_numa_local
#include <vram/cuda/cuda_ranges.hpp>          // cuda_ranges
#include <vram/cuda/cuda_stream.hpp>          // cuda_stream

#include <cuda_runtime_api.h> // cudaLaunchHostFunc

#include <cstddef> // size_t, byte
#include <cstdint> // uint32_t, uint64_t, uintptr_t
#include <span>    // span

namespace vram {

class gate;            // base/gate.hpp
class cuda_resource;   // cuda/cuda_resource.hpp
class cuda_thread;     // cuda/cuda_thread.hpp
class pinned_resource; // cuda/pinned_resource.hpp

/// The names and calls by which layers, pools and loaders reach CUDA. Most are one call of
/// CUDA.
///
/// Failure   `cuda_error`, or `out_of_memory` where CUDA itself has none; nothing stays latched
/// Threads   any
/// Streams   what would break a graph capture is refused, or made so that it does not
/// Cost      that of the call named in the parts
struct cuda_platform : cuda_ranges {
    using device          = cuda_device;
    using device_guard    = cuda_device_guard;
    using stream          = cuda_stream_view;
    using own_stream      = cuda_stream;
    using event           = cuda_event;
    using error           = cuda_error;
    using gate            = vram::gate;
    using thread          = cuda_thread;
    using numa_local      = cuda_numa_local;
    using device_resource = cuda_resource;
    using pinned_resource = vram::pinned_resource;

    /// Returns true if the process has begun to end, or is a child of `fork`: no call is made then.
    [[nodiscard]] static bool ending() noexcept { return cuda_exit::began(); }

    // Devices.
    [[nodiscard]] static device      current_device() { return device::current(); }
    [[nodiscard]] static memory_info memory(device d) { return cuda_memory_info(d); }

    [[nodiscard]] static memory_kind memory_kind_of(void const* p) { return cuda_memory_kind(p); }
    [[nodiscard]] static bool        uses_host_page_tables(device d) {
        return d.attribute(cudaDevAttrPageableMemoryAccessUsesHostPageTables) != 0;
    }

    /// The host waits for everything that the device was given. It ends a capture, as CUDA's own
    /// call does.
    static void synchronize(device d) {
        device_guard const on{d};
        cuda_check(cuda_exit::or_done([] { return cudaDeviceSynchronize(); }));
    }

    /// The same without an end to any capture, whoever goes on with one: by cudaFree, which waits
    /// for the device, and in relaxed mode is legal at any moment. Where there is no memory for
    /// that, by the call of CUDA's own.
    static void await_all(device d) {
        device_guard const       on{d};
        cuda_capture_guard const relaxed;
        void*                    some  = nullptr;
        cudaError_t const        there = cuda_exit::or_done([&] { return cudaMalloc(&some, 1); });
        if (there == cudaErrorMemoryAllocation) {
            cuda_error::clear(there);
            return synchronize(d);
        }
        cuda_check(there);
        cuda_check(cuda_exit::or_done([&] { return cudaFree(some); }));
    }

    // Streams.
    [[nodiscard]] static std::uint64_t id(stream s) { return s.id(); }
    /// The handle; 0 for the default streams, which mean another stream on another device or
    /// thread.
    [[nodiscard]] static std::uint64_t name(stream s) noexcept {
        bool const proper = cuda_stream_ids::is_proper(s.get());
        return proper ? reinterpret_cast<std::uintptr_t>(s.get()) : 0;
    }
    [[nodiscard]] static bool   is_default_stream(stream s) noexcept { return name(s) == 0; }
    [[nodiscard]] static device device_of(stream s) { return s.device(); }
    [[nodiscard]] static bool   capturing(stream s) { return s.capturing(); }

    [[nodiscard]] static bool ended(stream s) noexcept { return s.ended(); }
    static void               synchronize(stream s) { s.synchronize(); }

    // What is known of streams that another thread may be capturing; CUDA is not asked.
    using stream_hold = cuda_stream_hold;
    [[nodiscard]] static stream_hold   hold(stream s) noexcept { return cuda_stream_ids::hold(s); }
    [[nodiscard]] static std::uint64_t ends() noexcept { return cuda_stream_ids::ends(); }
    [[nodiscard]] static stream_standing standing_of(stream s, std::uint64_t id) noexcept {
        return cuda_stream_ids::standing_of(s, id);
    }
    [[nodiscard]] static auto recall(stream s) { return cuda_stream_ids::recall(s); }
    [[nodiscard]] static bool names_no_stream(error const& e) noexcept {
        return e.status() == cudaErrorInvalidResourceHandle ||
               e.status() == cudaErrorContextIsDestroyed;
    }

    /// A non-blocking one; lower is more urgent.
    [[nodiscard]] static own_stream stream_of(device d, int priority) {
        return own_stream{d, {.priority = priority}};
    }

    /// Calls `function(argument)` on a thread of the driver, in stream order; it may call nothing
    /// of CUDA.
    static void call(stream s, void (*function)(void*), void* argument) {
        cuda_check(
            cuda_exit::or_done([&] { return cudaLaunchHostFunc(s.get(), function, argument); }));
    }

    /// Writes into pinned memory, in stream order. False: it cannot be done here.
    static bool mark(stream s, std::uint32_t* where, std::uint32_t value) {
        return cuda_mark(s, where, value);
    }

    // Events.
    static void record(event& e, stream s) { e.record(s); }
    static void wait(stream s, event const& e) { e.make_wait(s); }
    static void synchronize(event const& e) { e.synchronize(); }

    [[nodiscard]] static bool done(event const& e) { return e.done(); }

    /// An event that takes the device's time; the nanoseconds between two such that are done.
    [[nodiscard]] static event         timed_event(device d) { return event{d, {.timing = true}}; }
    [[nodiscard]] static std::uint64_t elapsed(event const& from, event const& to) {
        return static_cast<std::uint64_t>(1e6 * static_cast<double>(to.milliseconds_since(from)));
    }

    // Copies.
    static void copy(stream s, void* to, void const* from, std::size_t bytes) {
        cuda_copy(s, to, from, bytes);
    }
    static void copy(stream s, pitched_copy const& box) { cuda_copy(s, box); }
    /// False where CUDA has no batches for `s`; then nothing was begun.
    static bool copy_batch(stream s, std::span<void* const> to, std::span<void const* const> from,
                           std::span<std::size_t const> bytes) {
        return cuda_copy_batch(s, to, from, bytes);
    }
    static void fill(stream s, void* to, std::byte value, std::size_t bytes) {
        cuda_fill(s, to, value, bytes);
    }
};

static_assert(platform<cuda_platform> && batched_copies<cuda_platform> &&
              completion_flags<cuda_platform>);
static_assert(knows_memory<cuda_platform> && knows_page_tables<cuda_platform> &&
              announces_ends<cuda_platform>);

} // namespace vram
