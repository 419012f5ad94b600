// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_stream_view` is a CUDA stream without ownership.

#include <vram/concepts/diagnosed.hpp>      // refuse_stream
#include <vram/concepts/platform_of.hpp>    // find_platform
#include <vram/cuda/cuda_capture_guard.hpp> // cuda_capture_guard
#include <vram/cuda/cuda_device.hpp>        // cuda_device
#include <vram/cuda/cuda_stream_calls.hpp>  // cuda_stream_calls
#include <vram/cuda/cuda_stream_ids.hpp>    // cuda_stream_ids

#include <cuda_runtime_api.h> // cudaStream_t

#include <concepts> // same_as
#include <cstddef>  // nullptr_t
#include <cstdint>  // uint64_t

namespace vram {

struct cuda_platform; // cuda/cuda_platform.hpp

/// A `cudaStream_t` with its questions. It converts from the streams of other libraries
/// (`::cuda::stream_ref`, `rmm::cuda_stream_view`: whatever has a `.get()`), and not from 0 or
/// `nullptr`, which would mean the default stream without saying so: `cuda_stream_view{}` says it.
///
/// Failure   `cuda_error`; what a capturing stream must not be asked is refused before CUDA hears
///           of it, so that the capture goes on; its id and device are those from before the
///           capture
/// Threads   any, but while the owner of a stream may begin to capture it only `capturing`, `ended`
///           and, of a `cuda_stream`, `id` and `device` are legal: CUDA ends the capture otherwise
/// Streams   default-constructed: the default stream of the current device (per thread where the
///           program is compiled so)
/// Cost      one pointer; `capturing` about 20 ns, `id` 40, or 3 of a `cuda_stream`, `device` 40 to
///           130
class cuda_stream_view {
public:
    using platform = cuda_platform;

    constexpr cuda_stream_view() noexcept = default;
    constexpr cuda_stream_view(cudaStream_t stream) noexcept : stream_{stream} {}

    /// A compile error that says what to write.
    template <detail::stream_of_another_platform<cuda_platform> S>
        requires(!std::derived_from<S, cuda_stream_view>)
    cuda_stream_view(S const&) {
        detail::refuse_stream<S>();
    }
    template <class S>
        requires requires(S const& s) {
            { s.get() } -> std::same_as<cudaStream_t>;
        }
    constexpr cuda_stream_view(S const& stream) noexcept(noexcept(stream.get()))
        : stream_{stream.get()} {}

    cuda_stream_view(int)            = delete; // 0 is not a stream
    cuda_stream_view(std::nullptr_t) = delete;

    [[nodiscard]] constexpr cudaStream_t get() const noexcept { return stream_; }
    constexpr                            operator cudaStream_t() const noexcept { return stream_; }

    /// Never used twice in a process, even where the handle is. Zero once the process ends.
    [[nodiscard]] std::uint64_t id() const {
        if (std::uint64_t const known = cuda_stream_ids::announced(stream_)) { return known; }
        return capturing() ? before_capture().id : id_now();
    }

    /// The device that the stream's work runs on.
    [[nodiscard]] cuda_device device() const {
        if (cuda_stream_ids::announced(stream_) != 0 || capturing()) {
            return before_capture().device;
        }
        int ordinal = 0;
        cuda_check(cuda_exit::or_done([&] { return cudaStreamGetDevice(stream_, &ordinal); }));
        return cuda_device{ordinal};
    }

    /// Whether work given to this stream would be captured into a graph, or would break a capture:
    /// that of a blocking stream, when this is the legacy default stream.
    [[nodiscard]] bool capturing() const {
        bool captures = false;
        cuda_check(cuda_exit::or_done([&] { return calls().capturing(stream_, captures); }));
        return captures;
    }

    /// Whether all work given to the stream so far is done.
    [[nodiscard]] bool done() const {
        expect_no_capture();
        return done_now();
    }
    /// Whether this was the handle of a `cuda_stream` that has ended, for all that is known: see
    /// `cuda_stream_ids`. Then it answers no other question.
    [[nodiscard]] bool ended() const noexcept { return cuda_stream_ids::ended(stream_); }

    /// The host waits until all work given to the stream so far is done.
    void synchronize() const {
        expect_no_capture();
        cuda_capture_guard const relaxed;
        cuda_check(cuda_exit::or_done([&] { return cudaStreamSynchronize(stream_); }));
    }

    friend constexpr bool operator==(cuda_stream_view a, cuda_stream_view b) noexcept {
        return a.stream_ == b.stream_;
    }
    friend constexpr bool operator==(cuda_stream_view a, cudaStream_t b) noexcept {
        return a.stream_ == b;
    }

private:
    [[nodiscard]] static cuda_stream_calls const& calls() noexcept {
        return cuda_stream_calls::here();
    }
    [[nodiscard]] cuda_stream_ids::identity before_capture() const {
        auto const known = cuda_stream_ids::recall(stream_);
        if (!known) { throw cuda_error{cudaErrorStreamCaptureUnsupported}; }
        return *known;
    }

    // Any question to a capturing stream ends the capture, whatever the thread's mode; so it is not
    // asked these.

    void expect_no_capture() const {
        if (capturing()) { throw cuda_error{cudaErrorStreamCaptureUnsupported}; }
    }
    [[nodiscard]] std::uint64_t id_now() const {
        std::uint64_t id = 0;
        cuda_check(cuda_exit::or_done([&] { return calls().id(stream_, id); }));
        cuda_stream_ids::note(stream_, id);
        return id;
    }
    [[nodiscard]] bool done_now() const {
        cuda_capture_guard const relaxed;
        return cuda_done(cuda_exit::or_done([&] { return calls().query(stream_); }));
    }

    cudaStream_t stream_ = nullptr;
};

static_assert(sizeof(cuda_stream_view) == sizeof(cudaStream_t));

/// A handle of CUDA's own is a stream of CUDA.
template <>
struct detail::find_platform<cudaStream_t> {
    using type = cuda_platform;
};

} // namespace vram
