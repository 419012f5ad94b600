// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_platform` is CUDA as the other parts of vram use it.

#include <vram/concepts/completion_flags.hpp>
#include <vram/concepts/core/stream_hold.hpp> // announces_ends
#include <vram/concepts/core/stream_standing.hpp>
#include <vram/concepts/platform.hpp>
#include <vram/cuda/core/cuda_copy_batch.hpp>
#include <vram/cuda/core/cuda_mark.hpp>
#include <vram/cuda/core/cuda_memory_kind.hpp>
#include <vram/cuda/core/cuda_numa_local.hpp>
#include <vram/cuda/core/cuda_ranges.hpp>
#include <vram/cuda/cuda_copy.hpp>
#include <vram/cuda/cuda_event.hpp>
#include <vram/cuda/cuda_fill.hpp>
#include <vram/cuda/cuda_memory_info.hpp>
#include <vram/cuda/cuda_stream.hpp>

#include <cuda_runtime_api.h> // cudaLaunchHostFunc

#include <cstddef>
#include <cstdint>
#include <span> // span

namespace vram {

namespace detail {
class gate; // defined in base/core/gate.hpp
} // namespace detail

class cuda_resource;   // defined in cuda/cuda_resource.hpp
class cuda_thread;     // defined in cuda/cuda_thread.hpp
class pinned_resource; // defined in cuda/pinned_resource.hpp

/// The types and functions of CUDA, in the form that the resources, pools and loaders of vram use.
///
/// Failure   Throws `cuda_error`, or `out_of_memory` if CUDA has no memory.
/// Threads   Any thread may call.
/// Streams   Only these functions can end a graph capture: `synchronize(device)`, `await_all`, and
///           `done` or `synchronize` of an event that was recorded in the capture.
/// Cost      Most functions make one call of CUDA.
struct cuda_platform : detail::cuda_ranges {
    using device          = cuda_device;
    using device_guard    = cuda_device_guard;
    using stream          = cuda_stream_view;
    using own_stream      = cuda_stream;
    using event           = cuda_event;
    using error           = cuda_error;
    using gate            = detail::gate;
    using thread          = cuda_thread;
    using numa_local      = detail::cuda_numa_local;
    using device_resource = cuda_resource;
    using pinned_resource = vram::pinned_resource;

    /// Returns true if CUDA must not be called: the process is ending, or it is a child of `fork`.
    /// Otherwise asks the driver if devices were reset, and returns false.
    [[nodiscard]] static bool ending() noexcept {
        if (detail::cuda_exit::began()) { return true; }
        detail::cuda_context::notice_all();
        return false;
    }

    [[nodiscard]] static device      current_device() { return device::current(); }
    [[nodiscard]] static memory_info memory(device d) { return cuda_memory_info(d); }

    [[nodiscard]] static memory_kind memory_kind_of(void const* p) {
        return detail::cuda_memory_kind(p);
    }
    [[nodiscard]] static bool uses_host_page_tables(device d) {
        return d.attribute(cudaDevAttrPageableMemoryAccessUsesHostPageTables) != 0;
    }

    /// Waits on the host for all work of the device (cudaDeviceSynchronize), which ends a graph
    /// capture.
    static void synchronize(device d) {
        // After a reset of the device, a wait would create a new context.
        if (detail::cuda_context::gone(d)) { return; }
        device_guard const on{d};
        cuda_check(detail::cuda_exit::or_done([] { return cudaDeviceSynchronize(); }));
    }

    /// Makes the host wait for all work of the device, but ends no graph capture: calls cudaFree,
    /// which waits for the device. If CUDA cannot allocate a byte for cudaFree to free, calls
    /// `synchronize(d)` instead, which ends a capture.
    static void await_all(device d) {
        // After a reset of the device, cudaMalloc would create a new context.
        if (detail::cuda_context::gone(d)) { return; }
        device_guard const               on{d};
        detail::cuda_capture_guard const relaxed;
        void*                            some = nullptr;
        cudaError_t const there = detail::cuda_exit::or_done([&] { return cudaMalloc(&some, 1); });
        if (there == cudaErrorMemoryAllocation) {
            cuda_error::clear(there);
            return synchronize(d);
        }
        cuda_check(there);
        // This call waits for all work of the device. In relaxed mode, it ends no graph capture.
        cuda_check(detail::cuda_exit::or_done([&] { return cudaFree(some); }));
    }

    [[nodiscard]] static std::uint64_t id(stream s) { return s.id(); }
    /// Returns the handle of the stream as a number, to name the stream in reports and tables.
    /// Returns 0 for a default stream, whose handle means several streams.
    [[nodiscard]] static std::uint64_t name(stream s) noexcept {
        bool const proper = detail::cuda_stream_ids::is_proper(s.get());
        return proper ? reinterpret_cast<std::uintptr_t>(s.get()) : 0;
    }
    [[nodiscard]] static bool   is_default_stream(stream s) noexcept { return name(s) == 0; }
    [[nodiscard]] static device device_of(stream s) { return s.device(); }
    [[nodiscard]] static bool   capturing(stream s) { return s.capturing(); }
    /// Returns CUDA's number of the running capture of the stream, unique in the process, or 0 if
    /// the stream is not being captured.
    [[nodiscard]] static std::uint64_t capture_of(stream s) {
        cudaStreamCaptureStatus found  = cudaStreamCaptureStatusNone;
        unsigned long long      number = 0;
        cudaError_t const       status = detail::cuda_exit::or_done(
            [&] { return cudaStreamGetCaptureInfo(s.get(), &found, &number); });
        // This is the legacy default stream, which is not being captured itself. The status only
        // says that work on it would break the capture of another stream.
        if (status == cudaErrorStreamCaptureImplicit) {
            cuda_error::clear(status);
        } else {
            cuda_check(status);
        }
        return found == cudaStreamCaptureStatusActive ? number : 0;
    }

    [[nodiscard]] static bool ended(stream s) noexcept { return s.ended(); }
    static void               synchronize(stream s) {
        // If a reset of the device has destroyed the stream, there is no work to wait for.
        if (!detail::cuda_stream_ids::was_reset(s.get())) { s.synchronize(); }
    }

    // `stream_hold` is a counted reference that keeps a stream's handle valid. `hold`, `ends`,
    // `standing_of` and `recall` make no CUDA call on the stream, so they are safe while another
    // thread captures the stream.
    using stream_hold = detail::cuda_stream_hold;
    [[nodiscard]] static stream_hold hold(stream s) noexcept {
        return detail::cuda_stream_ids::hold(s);
    }
    [[nodiscard]] static std::uint64_t ends() noexcept { return detail::cuda_stream_ids::ends(); }
    [[nodiscard]] static detail::stream_standing standing_of(stream s, std::uint64_t id) noexcept {
        return detail::cuda_stream_ids::standing_of(s, id);
    }
    [[nodiscard]] static auto recall(stream s) { return detail::cuda_stream_ids::recall(s); }
    [[nodiscard]] static bool names_no_stream(error const& e) noexcept {
        return e.status() == cudaErrorInvalidResourceHandle ||
               e.status() == cudaErrorContextIsDestroyed;
    }

    /// Creates a stream of `d` with a priority (lower is more urgent). The stream does not wait for
    /// the legacy default stream.
    [[nodiscard]] static own_stream stream_of(device d, int priority) {
        return own_stream{d, {.priority = priority}};
    }

    /// Enqueues a call of `function(argument)`, in the order of `s`, on a host thread of the
    /// driver. The function must not call CUDA.
    static void call(stream s, void (*function)(void*), void* argument) {
        cuda_check(detail::cuda_exit::or_done(
            [&] { return cudaLaunchHostFunc(s.get(), function, argument); }));
    }

    /// Enqueues a write of `value` to the 32-bit word at `where` in pinned memory, in the order of
    /// `s`. Returns false if the driver, the device or the memory does not support such writes.
    static bool mark(stream s, std::uint32_t* where, std::uint32_t value) {
        return detail::cuda_mark(s, where, value);
    }

    static void record(event& e, stream s) { e.record(s); }
    static void wait(stream s, event const& e) { e.wait(s); }
    static void synchronize(event const& e) { e.synchronize(); }

    [[nodiscard]] static bool done(event const& e) { return e.done(); }

    /// Creates an event that measures time. `elapsed(from, to)` returns the nanoseconds between two
    /// such events, which must be complete.
    [[nodiscard]] static event         timed_event(device d) { return event{d, {.timing = true}}; }
    [[nodiscard]] static std::uint64_t elapsed(event const& from, event const& to) {
        return static_cast<std::uint64_t>(1e6 * static_cast<double>(to.milliseconds_since(from)));
    }

    static void copy(stream s, void* to, void const* from, std::size_t bytes) {
        cuda_copy(s, to, from, bytes);
    }
    static void copy(stream s, pitched_copy const& box) { cuda_copy(s, box); }
    /// Enqueues copies of `bytes[i]` bytes from `from[i]` to `to[i]` with one call of CUDA. The
    /// copies are not ordered among themselves. Returns false, and copies nothing, if CUDA does not
    /// support such a call on `s`.
    static bool copy_batch(stream s, std::span<void* const> to, std::span<void const* const> from,
                           std::span<std::size_t const> bytes) {
        return detail::cuda_copy_batch(s, to, from, bytes);
    }
    static void fill(stream s, void* to, std::byte value, std::size_t bytes) {
        cuda_fill(s, to, value, bytes);
    }
};

} // namespace vram
