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
#include <vector> // vector

namespace vram {
namespace detail {

/// Measures the use of each batch by a timed event at the start and one at the end. If no pair of
/// events is free, a use is not timed.
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
            s.use   = untimed;
            Platform::record(p.to, on);
            p.now.store(state::ended, std::memory_order_release);
        }
    }

    /// Returns the device time in nanoseconds from delivery to release, summed over the batches
    /// whose use was timed and is complete.
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

    /// Skips the event pairs of batches that are still in use, so that one long-lived batch does
    /// not stop the timing of the others.
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

    /// Pointers, because a pair of events cannot be moved.
    std::vector<std::unique_ptr<pair>> pairs_;
    std::size_t                        next_ = 0;
    std::uint64_t                      sum_  = 0;
};

} // namespace detail
} // namespace vram
