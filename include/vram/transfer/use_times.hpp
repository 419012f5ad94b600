// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `use_times` adds up how long batches are used on the device.

#include <vram/transfer/pinned_slot.hpp> // has_timing
#include <vram/transfer/slot.hpp>        // slot

#include <atomic>  // atomic
#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <deque>   // deque

namespace vram {

/// Timed events around the uses of batches, of which more are kept than there are batches on their
/// way: each pair is read when it comes round again, and its use is over then. Where it is not, the
/// new use is not timed.
///
/// Threads   `begin` and `sum` on one; `end` on any, for a slot that was begun
/// Cost      two events for each batch; nothing where there are no pairs, or no times
template <class Platform>
class use_times {
public:
    using event  = typename Platform::event;
    using stream = typename Platform::stream;
    using device = typename Platform::device;

    use_times(device where, std::size_t pairs) {
        if constexpr (has_timing<Platform>) {
            for (std::size_t i = 0; i < pairs; ++i) { pairs_.emplace_back(where); }
        }
    }

    void begin([[maybe_unused]] slot<Platform>& s, [[maybe_unused]] stream on) {
        if constexpr (has_timing<Platform>) {
            s.use = untimed;
            if (pairs_.empty()) { return; }
            pass_over_held();
            pair& p = pairs_[next_ % pairs_.size()];
            read(p);
            if (p.now.load(std::memory_order_acquire) != state::idle) { return; }
            Platform::record(p.from, on);
            p.now.store(state::begun, std::memory_order_relaxed);
            s.use = next_++ % pairs_.size();
        }
    }
    void end([[maybe_unused]] slot<Platform>& s, [[maybe_unused]] stream on) {
        if constexpr (has_timing<Platform>) {
            if (pairs_.empty() || s.use == untimed) { return; }
            pair& p = pairs_[s.use];
            s.use   = untimed;
            Platform::record(p.to, on);
            p.now.store(state::ended, std::memory_order_release);
        }
    }

    /// Nanoseconds of all uses that are over.
    [[nodiscard]] std::uint64_t sum() {
        for (pair& p : pairs_) { read(p); }
        return sum_;
    }

private:
    static constexpr std::size_t untimed = static_cast<std::size_t>(-1);

    enum class state : unsigned char { idle, begun, ended };

    struct pair {
        explicit pair(device where) : from{make(where)}, to{make(where)} {}

        event              from, to;
        std::atomic<state> now = state::idle;

        static event make(device where) {
            if constexpr (has_timing<Platform>) {
                return event{Platform::timed_event(where)};
            } else {
                return event{where};
            }
        }
    };

    /// A batch that is kept for long has its pair; the others go on with theirs.
    void pass_over_held() noexcept {
        for (std::size_t i = 0; i < pairs_.size(); ++i, ++next_) {
            pair const& p = pairs_[next_ % pairs_.size()];
            if (p.now.load(std::memory_order_relaxed) != state::begun) { return; }
        }
    }
    void read([[maybe_unused]] pair& p) {
        if constexpr (has_timing<Platform>) {
            if (p.now.load(std::memory_order_acquire) != state::ended) { return; }
            if (!Platform::done(p.to)) { return; }
            sum_ += static_cast<std::uint64_t>(Platform::elapsed(p.from, p.to));
            p.now.store(state::idle, std::memory_order_relaxed);
        }
    }

    std::deque<pair> pairs_; ///< they do not move
    std::size_t      next_ = 0;
    std::uint64_t    sum_  = 0;
};

} // namespace vram
