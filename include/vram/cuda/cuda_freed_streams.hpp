// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_freed_streams` remembers on which streams memory was freed, and waits for them.

#include <vram/base/lock.hpp>             // lock
#include <vram/concepts/is_destroyed.hpp> // is_destroyed
#include <vram/cuda/cuda_event.hpp>       // cuda_event
#include <vram/cuda/cuda_platform.hpp>    // cuda_platform

#include <algorithm> // find
#include <new>       // bad_alloc
#include <utility>   // exchange, move
#include <vector>    // vector

namespace vram {

/// The streams that have freed memory since they were last waited for.
///
/// Failure   Without host memory a stream is not remembered.
/// Threads   Any.
/// Streams   A stream that the program destroys by its raw handle must be forgotten before. The end
///           of a `cuda_stream` is known.
/// Cost      `note`: a short lock, and a look at each stream that is remembered.
class cuda_freed_streams {
public:
    cuda_freed_streams() = default;
    /// Only before other threads use either.
    cuda_freed_streams(cuda_freed_streams&& other) noexcept : streams_{std::move(other.streams_)} {}
    cuda_freed_streams& operator=(cuda_freed_streams&& other) noexcept {
        streams_ = std::move(other.streams_);
        return *this;
    }

    void note(cuda_stream_view s) noexcept {
        auto const held = lock_.hold();
        if (std::find(streams_.begin(), streams_.end(), s) != streams_.end()) { return; }
        try {
            streams_.push_back(s);
        } catch (std::bad_alloc const&) {}
    }
    void forget(cuda_stream_view s) noexcept {
        auto const held = lock_.hold();
        auto const at   = std::find(streams_.begin(), streams_.end(), s);
        if (at == streams_.end()) { return; }
        *at = streams_.back();
        streams_.pop_back();
    }
    /// The host waits for the work that these streams have so far. A stream that is captured, that
    /// belongs to another device than `d` or that was destroyed is left out: no call is made that
    /// could break a capture.
    void synchronize(cuda_device d) {
        std::vector<cuda_stream_view> all;
        {
            auto const held = lock_.hold();
            all             = std::exchange(streams_, {});
        }
        for (cuda_stream_view const s : all) {
            if (is_destroyed<cuda_platform>(s)) { continue; }
            cuda_event place{d}; // of its own: an event that was captured must not be asked
            cuda_capture_guard const relaxed;
            cudaError_t const        status = cuda_exit::or_done([&] {
                return s.capturing() ? cudaErrorStreamCaptureUnsupported
                                            : cudaEventRecord(place.get(), s.get());
            });
            if (status != cudaSuccess) {
                cuda_error::clear(status);
            } else if (!s.capturing()) { // else another thread may have captured the event
                place.synchronize();
            }
        }
    }

private:
    lock                          lock_;
    std::vector<cuda_stream_view> streams_;
};

} // namespace vram
