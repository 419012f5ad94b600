// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_freed_streams` remembers on which streams memory was freed, and waits for them.

#include <vram/base/lock.hpp>           // lock
#include <vram/cuda/cuda_event.hpp>     // cuda_event
#include <vram/cuda/cuda_platform.hpp>  // cuda_platform
#include <vram/layer/record_behind.hpp> // record_behind

#include <algorithm> // find_if, max
#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <utility>   // exchange, move
#include <vector>    // vector

namespace vram {

/// The streams that have freed memory since they were last waited for.
///
/// Failure   Without host memory a stream is not remembered.
/// Threads   Any.
/// Streams   A stream that the program destroys by its raw handle must be forgotten before. The end
///           of a `cuda_stream` is known.
/// Cost      `note`: a short lock, and a look at each stream that is remembered. If their number
///           has doubled, also a query of each stream that has ended; it is forgotten if it is
///           done.
class cuda_freed_streams {
public:
    cuda_freed_streams() = default;
    /// Only before other threads use either.
    cuda_freed_streams(cuda_freed_streams&& other) noexcept
        : streams_{std::move(other.streams_)}, look_at_{other.look_at_} {}
    cuda_freed_streams& operator=(cuda_freed_streams&& other) noexcept {
        streams_ = std::move(other.streams_);
        look_at_ = other.look_at_;
        return *this;
    }

    /// The calling thread uses the stream.
    void note(cuda_stream_view s) noexcept {
        auto const held = lock_.hold();
        if (find(s) != streams_.end()) { return; }
        if (streams_.size() >= look_at_) { forget_done(); }
        try {
            streams_.push_back({s, s.id(), cuda_stream_ids::hold(s.get())});
        } catch (...) {} // no host memory, or a raw stream that is first met in a capture
    }
    void forget(cuda_stream_view s) noexcept {
        auto const held = lock_.hold();
        auto const at   = find(s);
        if (at != streams_.end()) { streams_.erase(at); }
    }
    /// The host waits for the work that these streams have so far. A stream that is captured, that
    /// belongs to another device than `d` or that was destroyed by its raw handle is left out: no
    /// call is made that could break a capture (`record_behind`).
    void synchronize(cuda_device d) {
        std::vector<user> all;
        {
            auto const held = lock_.hold();
            all             = std::exchange(streams_, {});
        }
        for (user const& each : all) {
            cuda_event place{d};
            try {
                recorded const how =
                    record_behind<cuda_platform>(place, each.stream, each.id, each.held);
                if (how == recorded::captured) { note(each.stream); } // for the next time
                if (how != recorded::pending) { continue; }
            } catch (cuda_error const&) { continue; } // of another device
            place.synchronize();
        }
    }

private:
    struct user {
        cuda_stream_view stream;
        std::uint64_t    id;
        cuda_stream_hold held; ///< a `cuda_stream` may end before it is waited for
    };

    /// Forgets the streams that have ended and are done, so that CUDA can destroy them: a program
    /// may make a stream for each of its tasks.
    void forget_done() noexcept {
        std::erase_if(streams_, [](user const& each) {
            try {
                return each.held.ended() && cuda_stream_view{each.held.get()}.done();
            } catch (...) { return false; } // it is asked again
        });
        look_at_ = std::max(usual, 2 * streams_.size());
    }

    static constexpr std::size_t usual = 16;

    [[nodiscard]] std::vector<user>::iterator find(cuda_stream_view s) noexcept {
        return std::find_if(streams_.begin(), streams_.end(),
                            [s](user const& each) { return each.stream == s; });
    }

    lock              lock_;
    std::vector<user> streams_;
    std::size_t       look_at_ = usual; ///< so many streams, and those that are done are forgotten
};

} // namespace vram
