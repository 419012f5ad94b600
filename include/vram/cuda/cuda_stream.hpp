// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_stream` is a CUDA stream that ends with its owner.

#include <vram/cuda/cuda_device_guard.hpp> // cuda_device_guard
#include <vram/cuda/cuda_stream_view.hpp>  // cuda_stream_view

#include <cuda_runtime_api.h> // cudaStreamCreateWithPriority

#include <concepts> // convertible_to
#include <cstdint>  // uint64_t
#include <utility>  // exchange

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
/// Streams   destroyed with work outstanding, it returns at once and the work still runs; resources
///           that remember streams are told before (`retire`)
/// Cost      made in about 2 us; `id` is kept, and free
class cuda_stream {
public:
    explicit cuda_stream(cuda_device         device  = cuda_device::current(),
                         cuda_stream_options options = {}) {
        cuda_device_guard const on{device};
        unsigned const flags = options.blocking ? cudaStreamDefault : cudaStreamNonBlocking;
        cuda_check(cuda_exit::or_refused(
            [&] { return cudaStreamCreateWithPriority(&stream_, flags, options.priority); }));
        cudaError_t const status = cudaStreamGetId(stream_, &id_);
        if (status != cudaSuccess) [[unlikely]] {
            destroy();
            cuda_check(status);
        }
        cuda_stream_ids::note(stream_, id_);
    }

    cuda_stream(cuda_stream&& other) noexcept
        : stream_{std::exchange(other.stream_, nullptr)}, id_{std::exchange(other.id_, 0)} {}
    cuda_stream& operator=(cuda_stream&& other) noexcept {
        if (this != &other) {
            destroy();
            stream_ = std::exchange(other.stream_, nullptr);
            id_     = std::exchange(other.id_, 0);
        }
        return *this;
    }
    ~cuda_stream() { destroy(); }

    /// A stream is passed to CUDA and to other libraries as it is: a kernel launch,
    /// `cudaStreamSynchronize`, `thrust::cuda::par.on`. One that ends with the statement is not.
    operator cudaStream_t() const& noexcept { return stream_; }
    operator cudaStream_t() const&& = delete;

    [[nodiscard]] cudaStream_t     get() const noexcept { return stream_; }
    [[nodiscard]] cuda_stream_view view() const noexcept { return stream_; }
    [[nodiscard]] std::uint64_t    id() const noexcept { return id_; }

    /// Lets go of the stream: from here on the caller destroys it.
    [[nodiscard]] cudaStream_t release() noexcept { return std::exchange(stream_, nullptr); }

    void synchronize() const { view().synchronize(); }

    /// With another `cuda_stream`, a view, a handle of CUDA's, or a stream of another library.
    template <class S>
        requires std::convertible_to<S const&, cudaStream_t>
    friend bool operator==(cuda_stream const& a, S const& b) noexcept {
        return a.stream_ == static_cast<cudaStream_t>(b);
    }

private:
    void destroy() noexcept {
        if (stream_ == nullptr) { return; } // moved from
        cuda_stream_ids::end(stream_, id_);
        cuda_error::report("cudaStreamDestroy",
                           cuda_exit::or_done([&] { return cudaStreamDestroy(stream_); }));
    }

    cudaStream_t       stream_ = nullptr;
    unsigned long long id_     = 0;
};

} // namespace vram
