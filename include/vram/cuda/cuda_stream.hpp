// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_stream` is a CUDA stream with an owner, which destroys it.

#include <vram/cuda/cuda_device_guard.hpp>
#include <vram/cuda/cuda_stream_view.hpp>

#include <cuda_runtime_api.h> // cudaStreamCreateWithPriority

#include <concepts> // convertible_to
#include <cstdint>
#include <utility>

namespace vram {

/// Options of a stream.
struct cuda_stream_options {
    /// If true (cudaStreamDefault), work of the stream and work of the legacy default stream wait
    /// for each other. If false, they run independently.
    bool blocking = false;
    /// Priority of the stream: lower is more urgent. CUDA limits it to the device's range.
    int priority = 0;
};

/// Owns a CUDA stream, which is non-blocking by default.
///
///     cuda_stream side;                             // on the current device
///     cuda_stream urgent{cuda_device{1}, {.priority = -5}};
///     kernel<<<grid, block, 0, side>>>();
///
/// Failure   Throws `cuda_error`; the destructor reports errors to the error sink.
/// Threads   Any thread may use the stream, but moving needs exclusive access.
/// Streams   The destructor ends a capture but does not wait for work. Resources that used the
///           stream need no call of `retire`.
/// Cost      Creation takes about 2 us.
class cuda_stream {
public:
    /// Creates a stream on `device`, which is non-blocking and has priority 0 unless `options`
    /// state otherwise.
    explicit cuda_stream(cuda_device         device  = cuda_device::current(),
                         cuda_stream_options options = {}) {
        cuda_device_guard const on{device};
        unsigned const flags  = options.blocking ? cudaStreamDefault : cudaStreamNonBlocking;
        cudaStream_t   stream = nullptr;
        cuda_check(detail::cuda_exit::or_refused(
            [&] { return cudaStreamCreateWithPriority(&stream, flags, options.priority); }));
        unsigned long long id     = 0;
        cudaError_t const  status = cudaStreamGetId(stream, &id);
        try {
            cuda_check(status);
            held_ = detail::cuda_stream_ids::begin(stream, id, device);
        } catch (...) {
            cuda_error::report("cudaStreamDestroy", detail::cuda_exit::or_done(
                                                        [&] { return cudaStreamDestroy(stream); }));
            throw;
        }
    }

    cuda_stream(cuda_stream&& other) noexcept = default;
    cuda_stream& operator=(cuda_stream&& other) noexcept {
        if (this != &other) {
            destroy();
            held_ = std::move(other.held_);
        }
        return *this;
    }
    ~cuda_stream() { destroy(); }

    /// Converts to CUDA's handle, for example for a kernel launch. A temporary does not convert,
    /// because its destructor would destroy the stream.
    operator cudaStream_t() const& noexcept { return held_.get(); }
    operator cudaStream_t() const&& = delete;

    /// Returns CUDA's handle of the stream.
    [[nodiscard]] cudaStream_t get() const noexcept { return held_.get(); }
    /// Returns a view of the stream: its handle without ownership.
    [[nodiscard]] cuda_stream_view view() const noexcept { return held_.get(); }
    /// Returns the id of the stream, which is unique in the process.
    [[nodiscard]] std::uint64_t id() const noexcept { return held_.id(); }

    /// Gives up ownership and returns the handle. The caller must `retire` the stream from all
    /// resources that used it, then destroy it.
    [[nodiscard]] cudaStream_t release() noexcept {
        cudaStream_t const stream = held_.get();
        if (stream != nullptr) { detail::cuda_stream_ids::end(std::exchange(held_, {}), true); }
        return stream;
    }

    /// Blocks the host until all work that the stream has received so far is complete. Throws if
    /// the stream is being captured.
    void synchronize() const { view().synchronize(); }

    /// Returns true if the handles are equal. `b` is a `cuda_stream`, a view, a `cudaStream_t`, or
    /// a stream of another library.
    template <class S>
        requires std::convertible_to<S const&, cudaStream_t>
    friend bool operator==(cuda_stream const& a, S const& b) noexcept {
        return a.get() == static_cast<cudaStream_t>(b);
    }

private:
    void destroy() noexcept {
        // A moved-from object has no stream. At the end of the process, and in a child of `fork`,
        // CUDA must not be called.
        if (held_.get() == nullptr || detail::cuda_exit::began()) { return; }
        if (!held_.reset()) { end_capture(); }
        detail::cuda_stream_ids::end(std::exchange(held_, {}));
    }
    /// If the stream is being captured, ends the capture and destroys the captured graph, so that
    /// events which are recorded later are not captured. If CUDA cannot end the capture, does
    /// nothing.
    void end_capture() const noexcept {
        bool              captured = false;
        cudaError_t const status   = detail::cuda_exit::or_done(
            [&] { return detail::cuda_stream_calls::here().capturing(get(), captured); });
        if (status != cudaSuccess) { return cuda_error::clear(status); }
        if (!captured) { return; }
        cudaGraph_t graph = nullptr;
        if (cudaError_t const ended = cudaStreamEndCapture(get(), &graph); ended != cudaSuccess) {
            cuda_error::clear(ended);
        }
        if (graph != nullptr) { cuda_error::report("cudaGraphDestroy", cudaGraphDestroy(graph)); }
    }

    detail::cuda_stream_hold held_;
};

} // namespace vram
