// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_freed_streams` remembers the streams on which memory was freed, and waits for them.

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

/// The streams on which memory was freed since the last `synchronize`.
///
/// Failure   Without host memory a stream is not remembered.
/// Threads   Any thread may call.
/// Streams   A stream that the program destroys by its raw handle must be forgotten before. The end
///           of a `cuda_stream` is detected.
/// Cost      `note` takes a lock for a short time and looks at each remembered stream. If their
///           number has doubled, it also queries each stream that has ended, and forgets it if its
///           work is complete.
class cuda_freed_streams {
public:
    cuda_freed_streams() = default;
    /// Moves the streams. No other thread may use either object at that time.
    cuda_freed_streams(cuda_freed_streams&& other) noexcept
        : streams_{std::move(other.streams_)}, look_at_{other.look_at_} {}
    cuda_freed_streams& operator=(cuda_freed_streams&& other) noexcept {
        streams_ = std::move(other.streams_);
        look_at_ = other.look_at_;
        return *this;
    }

    /// Remembers that memory was freed on the stream `s`. The calling thread must be using `s`.
    void note(cuda_stream_view s) noexcept {
        auto const held = lock_.hold();
        if (find(s) != streams_.end()) { return; }
        if (streams_.size() >= look_at_) { forget_done(); }
        try {
            streams_.push_back({s, s.id(), cuda_stream_ids::hold(s.get())});
        } catch (...) {} // no host memory, or a raw stream first seen during a capture
    }
    void forget(cuda_stream_view s) noexcept {
        auto const held = lock_.hold();
        auto const at   = find(s);
        if (at != streams_.end()) { streams_.erase(at); }
    }
    /// Blocks the host until the work that the remembered streams have received so far is complete.
    /// It skips a stream that is being captured, that belongs to another device than `d`, or that
    /// was destroyed by its raw handle. It makes no call that could break a capture
    /// (`record_behind`).
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
                // Remembered for the next `synchronize`.
                if (how == recorded::captured) { note(each.stream); }
                if (how != recorded::pending) { continue; }
            } catch (cuda_error const&) { continue; } // the stream belongs to another device
            place.synchronize();
        }
    }

private:
    struct user {
        cuda_stream_view stream;
        std::uint64_t    id;
        cuda_stream_hold held; ///< the `cuda_stream` may be destroyed before the wait
    };

    /// Forgets ended streams without outstanding work, so that CUDA can destroy them. A
    /// program may create a stream for each of its tasks.
    void forget_done() noexcept {
        std::erase_if(streams_, [](user const& each) {
            try {
                return each.held.ended() && cuda_stream_view{each.held.get()}.done();
            } catch (...) { return false; } // query it again later
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
    std::size_t       look_at_ = usual; ///< number of streams at which complete ones are forgotten
};

} // namespace vram
