// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `use_times` measures the device time between the delivery of each batch and its release.

#include <vram/transfer/core/pinned_slot.hpp> // has_timing
#include <vram/transfer/core/slot.hpp>

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>
#include <memory> // unique_ptr, make_unique
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// Measures how long the loop uses each batch: records a timed event at the start of the use, and
/// another at the release. If no pair of events is free, the use of that batch is not measured.
///
/// Threads   One thread calls `begin` and `sum`; any thread may call `end`.
template <class Platform>
class use_times {
public:
    using event  = typename Platform::event;
    using stream = typename Platform::stream;
    using device = typename Platform::device;

    use_times(device where, std::size_t pairs) {
        if constexpr (has_timing<Platform>) {
            pairs_.reserve(pairs);
            for (std::size_t i = 0; i < pairs; ++i) {
                pairs_.push_back(std::make_unique<pair>(where));
            }
        }
    }

    void begin([[maybe_unused]] slot<Platform>& s, [[maybe_unused]] stream on) {
        if constexpr (has_timing<Platform>) {
            s.use = untimed;
            if (pairs_.empty()) { return; }
            pass_over_held();
            pair& p = *pairs_[next_ % pairs_.size()];
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
            pair& p = *pairs_[s.use];
            Platform::record(p.to, on);
            s.use = untimed;
            p.now.store(state::ended, std::memory_order_release);
        }
    }

    /// Ends the use of the batch in `s` without measuring it, also after a failed `end`. Does
    /// nothing after a successful `end`.
    void leave_out([[maybe_unused]] slot<Platform>& s) noexcept {
        if (pairs_.empty() || s.use == untimed) { return; }
        pairs_[std::exchange(s.use, untimed)]->now.store(state::idle, std::memory_order_release);
    }

    /// Returns the sum of the measured device times in nanoseconds. The time of a batch begins when
    /// the loop gets the batch and ends at its release. Uses that are not complete are left out.
    [[nodiscard]] std::uint64_t sum() {
        for (auto const& p : pairs_) { read(*p); }
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

    /// Advances `next_` past the event pairs of batches that are still in use. Without this call, a
    /// batch that is held for a long time would prevent the timing of all later batches.
    void pass_over_held() noexcept {
        for (std::size_t i = 0; i < pairs_.size(); ++i, ++next_) {
            pair const& p = *pairs_[next_ % pairs_.size()];
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

    /// Pairs of events. Each is allocated separately, because a `pair` cannot be moved.
    std::vector<std::unique_ptr<pair>> pairs_;
    std::size_t                        next_ = 0;
    std::uint64_t                      sum_  = 0;
};

} // namespace detail
} // namespace vram
