// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_stream` is a CUDA stream that ends with its owner.

#include <vram/cuda/cuda_device_guard.hpp> // cuda_device_guard
#include <vram/cuda/cuda_stream_view.hpp>  // cuda_stream_view

#include <cuda_runtime_api.h> // cudaStreamCreateWithPriority

#include <concepts> // convertible_to
#include <cstdint>  // uint64_t
#include <utility>  // exchange, move

namespace vram {

/// How a stream is made.
struct cuda_stream_options {
    bool blocking = false; ///< waits for the legacy default stream, and is waited for by it
    int  priority = 0; ///< lower is more urgent; what the device does not have becomes its nearest
};

/// Owns a stream, non-blocking unless asked otherwise.
///
///     cuda_stream side;                             // on the current device
///     cuda_stream urgent{cuda_device{1}, {.priority = -5}};
///     kernel<<<grid, block, 0, side>>>();
///
/// Failure   `cuda_error`; the destructor, the error sink
/// Threads   the stream from any thread; moving it as any object
/// Streams   destroyed with work outstanding, it returns at once and the work still runs. Resources
///           that remember the stream learn that it has ended: no call of `retire` is needed. They
///           may keep the handle until they have an event behind the work
/// Cost      made in about 2 us; `id` is kept, and free
class cuda_stream {
public:
    explicit cuda_stream(cuda_device         device  = cuda_device::current(),
                         cuda_stream_options options = {}) {
        cuda_device_guard const on{device};
        unsigned const flags  = options.blocking ? cudaStreamDefault : cudaStreamNonBlocking;
        cudaStream_t   stream = nullptr;
        cuda_check(cuda_exit::or_refused(
            [&] { return cudaStreamCreateWithPriority(&stream, flags, options.priority); }));
        unsigned long long id     = 0;
        cudaError_t const  status = cudaStreamGetId(stream, &id);
        try {
            cuda_check(status);
            held_ = cuda_stream_ids::begin(stream, id, device);
        } catch (...) {
            cuda_error::report("cudaStreamDestroy",
                               cuda_exit::or_done([&] { return cudaStreamDestroy(stream); }));
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

    /// A stream is passed to CUDA and to other libraries as it is: a kernel launch,
    /// `cudaStreamSynchronize`, `thrust::cuda::par.on`. One that ends with the statement is not.
    operator cudaStream_t() const& noexcept { return held_.get(); }
    operator cudaStream_t() const&& = delete;

    [[nodiscard]] cudaStream_t     get() const noexcept { return held_.get(); }
    [[nodiscard]] cuda_stream_view view() const noexcept { return held_.get(); }
    [[nodiscard]] std::uint64_t    id() const noexcept { return held_.id(); }

    /// Lets go of the stream: from here on the caller destroys it, and tells resources before
    /// (`retire`).
    [[nodiscard]] cudaStream_t release() noexcept {
        cudaStream_t const stream = held_.get();
        if (stream != nullptr) { cuda_stream_ids::end(std::exchange(held_, {}), true); }
        return stream;
    }

    void synchronize() const { view().synchronize(); }

    /// With another `cuda_stream`, a view, a handle of CUDA's, or a stream of another library.
    template <class S>
        requires std::convertible_to<S const&, cudaStream_t>
    friend bool operator==(cuda_stream const& a, S const& b) noexcept {
        return a.get() == static_cast<cudaStream_t>(b);
    }

private:
    void destroy() noexcept {
        if (held_.get() == nullptr || cuda_exit::began()) { return; } // moved from, or too late
        end_capture();
        cuda_stream_ids::end(std::exchange(held_, {}));
    }
    /// Who destroys a stream that is being captured breaks the capture; the handle, in which
    /// resources may have a share, is free of it then.
    void end_capture() const noexcept {
        bool              captured = false;
        cudaError_t const status   = cuda_exit::or_done(
            [&] { return cuda_stream_calls::here().capturing(get(), captured); });
        if (status != cudaSuccess) { return cuda_error::clear(status); }
        if (!captured) { return; }
        cudaGraph_t graph = nullptr;
        if (cudaError_t const ended = cudaStreamEndCapture(get(), &graph); ended != cudaSuccess) {
            cuda_error::clear(ended);
        }
        if (graph != nullptr) { cuda_error::report("cudaGraphDestroy", cudaGraphDestroy(graph)); }
    }

    cuda_stream_hold held_;
};

} // namespace vram
