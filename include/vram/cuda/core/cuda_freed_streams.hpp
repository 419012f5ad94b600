// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_freed_streams` remembers the streams on which memory was freed, and waits for them.

#include <vram/base/core/lock.hpp>              // lock
#include <vram/base/core/smaller_of.hpp>        // larger_of
#include <vram/cuda/core/cuda_stream_cache.hpp> // cuda_stream_cache
#include <vram/cuda/cuda_device_guard.hpp>      // cuda_device_guard
#include <vram/cuda/cuda_event.hpp>             // cuda_event
#include <vram/cuda/cuda_platform.hpp>          // cuda_platform
#include <vram/order/core/record_behind.hpp>    // record_behind

#include <atomic>  // atomic
#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <memory>  // shared_ptr, make_shared
#include <utility> // move
#include <vector>  // vector, erase_if

namespace vram {
namespace detail {

/// The streams on which memory was freed since the last `synchronize`.
///
/// A trim of CUDA's pool returns memory to the device only if the host has *seen* that its free is
/// complete: by a wait for the stream of the free, for an event behind it, or for the device. So
/// each stream must be waited for, even if its work is complete.
///
/// Failure   Without host memory a stream is not remembered. If a wait fails, `synchronize` throws,
///           and remembers that stream and those after it.
/// Threads   Any thread may call.
/// Streams   `retire` or `forget` must be called before the program destroys a stream by its raw
///           handle. The end of a `cuda_stream` is detected.
/// Cost      `note` reads two words if the thread has noted the stream since the last
///           `synchronize`, `retire` or `forget`. Otherwise it takes a lock for a short time and
///           looks at each remembered stream. If their number has doubled, it also queries each
///           stream that has ended, and forgets it if its work is complete.
class cuda_freed_streams {
public:
    cuda_freed_streams() = default;
    /// Takes over the list of streams. No other thread may use either object at that time.
    cuda_freed_streams(cuda_freed_streams&& other) noexcept
        : streams_{std::move(other.streams_)},
          retired_{std::move(other.retired_)},
          look_at_{other.look_at_} {
        other.start_epoch();
    }
    cuda_freed_streams& operator=(cuda_freed_streams&& other) noexcept {
        streams_ = std::move(other.streams_);
        retired_ = std::move(other.retired_);
        look_at_ = other.look_at_;
        start_epoch();
        other.start_epoch();
        return *this;
    }

    /// Returns true if there is no stream to wait for.
    [[nodiscard]] bool empty() const noexcept {
        auto const held = lock_.hold();
        return streams_.empty() && retired_.empty();
    }
    /// Remembers that memory was freed on the stream `s`, so that `synchronize` waits for it. The
    /// calling thread must be using `s`.
    void note(cuda_stream_view s) noexcept {
        bool const proper = cuda_stream_ids::is_proper(s.get());
        noted&     last   = cuda_stream_cache<noted>::place_of(s.get());
        // `last.epoch` is the value of `epoch_` when this thread last added the stream to the list,
        // which it leaves only after `epoch_` has changed. The free precedes this load, so if
        // `synchronize` has changed `epoch_` by now, that is seen; if it changes it later, its
        // event is recorded behind the free.
        if (proper && last.stream == s.get() &&
            last.epoch == epoch_.load(std::memory_order_seq_cst)) {
            return;
        }
        auto const held = lock_.hold();
        try {
            auto const at = find(s);
            if (at != streams_.end()) {
                ++at->frees;
            } else {
                if (streams_.size() + retired_.size() >= look_at_) { forget_done(); }
                streams_.push_back({s, s.id(), s.device(), cuda_stream_ids::hold(s.get())});
            }
            if (proper) { last = {s.get(), epoch_.load(std::memory_order_relaxed)}; }
        } catch (...) {} // not remembered: no host memory, or first seen in a capture
    }
    /// Must be called before the stream `s` is destroyed by its raw handle: an event is recorded
    /// behind its frees, and `synchronize` waits for that instead. If no event can be recorded, the
    /// stream is removed from the list, and its frees may be missed by a trim.
    void retire(cuda_stream_view s) noexcept {
        auto const held = lock_.hold();
        try {
            auto const at = find(s);
            if (at == streams_.end()) { return; }
            user const one = std::move(*at);
            streams_.erase(at);
            start_epoch();
            cuda_device_guard const on{one.where};
            auto const              place = std::make_shared<cuda_event>(one.where);
            recorded const          how   = record(*place, one);
            if (how == recorded::pending || how == recorded::done) { retired_.push_back(place); }
        } catch (...) {}
    }
    /// Removes the stream `s` from the list without a CUDA call on it: it may be destroyed already.
    void forget(cuda_stream_view s) noexcept {
        auto const held = lock_.hold();
        std::erase_if(streams_, [s](user const& each) { return each.stream == s; });
        start_epoch();
    }
    /// Blocks the host until the work that the remembered streams have received so far is complete.
    /// It skips, and remembers, a stream that is being captured. It skips a stream that was
    /// destroyed by its raw handle, and the per-thread default stream of another thread. It makes
    /// no call that could break a capture (`record_behind`).
    void synchronize() {
        auto const streams = [this] {
            auto const held = lock_.hold();
            return streams_;
        }();
        for (user const& each : streams) {
            cuda_device_guard const on{each.where};
            cuda_event              place{each.where};
            std::uint64_t           frees = 0;
            {
                // A stream is not retired, and then destroyed, while an event is recorded on it.
                auto const held = lock_.hold();
                auto const at   = find(each.stream, each.id);
                if (at == streams_.end()) { continue; }
                start_epoch(); // later frees take the lock and are counted
                frees              = at->frees;
                recorded const how = record(place, *at);
                if (how == recorded::captured) { continue; } // the stream stays in the list
            }
            place.synchronize(); // returns immediately if `place` was not recorded
            auto const held = lock_.hold();
            std::erase_if(streams_, [&](user const& now) {
                return now.stream == each.stream && now.id == each.id && now.frees == frees;
            });
        }
        // After the streams of the first list, because some may have been retired during the loop.
        auto const retired = [this] {
            auto const held = lock_.hold();
            return retired_;
        }();
        for (shared const& each : retired) {
            each->synchronize();
            auto const held = lock_.hold();
            std::erase_if(retired_, [&](shared const& now) { return now == each; });
        }
    }

private:
    struct user {
        cuda_stream_view stream;
        std::uint64_t    id;
        cuda_device      where;
        /// Keeps the handle valid, because the `cuda_stream` may be destroyed before the wait.
        cuda_stream_hold held;
        /// Number of calls of `note` for the stream that took the lock. If it has changed during
        /// the wait of `synchronize`, the stream stays in the list.
        std::uint64_t frees = 1;
    };
    using shared = std::shared_ptr<cuda_event const>;

    [[nodiscard]] static recorded record(cuda_event& place, user const& each) {
        return record_behind<cuda_platform>(place, each.stream, each.id, each.held);
    }

    /// Removes ended and retired streams from the list if their work is complete, so that CUDA can
    /// destroy them. A program may create a stream for each of its tasks.
    void forget_done() noexcept {
        start_epoch();
        std::erase_if(streams_, [](user const& each) {
            return each.held.ended() && seen_done(cuda_stream_view{each.held.get()});
        });
        std::erase_if(retired_, [](shared const& each) { return seen_done(*each); });
        look_at_ = larger_of(usual, 2 * (streams_.size() + retired_.size()));
    }
    /// Returns true if the work of `place`, a stream or an event, is complete. Then also calls
    /// `synchronize` on it, so that the host has seen the completion. Returns false if the query
    /// fails.
    template <class Place>
    [[nodiscard]] static bool seen_done(Place const& place) noexcept {
        try {
            if (!place.done()) { return false; }
            place.synchronize();
            return true;
        } catch (...) { return false; } // an error: it is queried again later
    }

    /// Gives `epoch_` a new value, unique in the process. The entries of all threads' caches are
    /// thereby invalid: the next `note` of each takes the lock. The caller must hold the lock.
    void start_epoch() noexcept { epoch_.store(next_epoch(), std::memory_order_seq_cst); }
    static std::uint64_t next_epoch() noexcept {
        static constinit std::atomic<std::uint64_t> last{0};
        return last.fetch_add(1, std::memory_order_relaxed) + 1;
    }
    /// Cache entry of a thread: `stream` was in the list when `epoch_` had the value `epoch`. The
    /// value also identifies the object, because it is unique in the process.
    struct noted {
        cudaStream_t  stream = nullptr;
        std::uint64_t epoch  = 0;
    };
    static constexpr std::size_t usual = 16;

    /// Returns the position of the stream in the list, or the end. A default stream is also
    /// compared by its id, because its handle means another stream on another thread or device.
    [[nodiscard]] std::vector<user>::iterator find(cuda_stream_view s) {
        return find(s, cuda_stream_ids::is_proper(s.get()) ? 0 : s.id());
    }
    /// Returns the position of the stream with this handle and id, or the end. 0 stands for any id.
    [[nodiscard]] std::vector<user>::iterator find(cuda_stream_view s, std::uint64_t id) noexcept {
        auto at = streams_.begin();
        while (at != streams_.end() && !(at->stream == s && (id == 0 || id == at->id))) { ++at; }
        return at;
    }

    /// Number of the state of the list. It changes when a stream leaves the list, and before
    /// `synchronize` records an event on one.
    std::atomic<std::uint64_t> epoch_{next_epoch()};
    lock                       lock_;
    std::vector<user>          streams_;
    std::vector<shared>        retired_; ///< events behind the frees of retired streams
    std::size_t look_at_ = usual;        ///< number of streams at which `note` calls `forget_done`
};

} // namespace detail
} // namespace vram
