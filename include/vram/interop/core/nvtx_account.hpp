// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `nvtx_account` sums the bytes of a resource or of a tag, and samples them for a tool.

#include <vram/interop/core/live_bytes.hpp>
#include <vram/interop/core/nvtx_counter_group.hpp>

#include <atomic> // atomic
#include <cstdint>
#include <string> // string
#include <utility>

namespace vram {
namespace detail {

/// Counts live, reserved and peak bytes of a resource or of a tag, and samples them: passes the
/// values to a tool of NVTX, such as Nsight Systems.
///
/// One thread at a time samples. If a thread changes the values while another thread samples, it
/// sets a mark and returns without a call of the tool. The sampling thread finds the mark, and
/// samples again if the values have changed. So while no thread is in `change`, the tool has the
/// current values, except for differences below `step`.
///
/// Threads that only find the mark do not write to memory that they share. So the sampling thread
/// keeps the mark set for longer each time that it finds it: it waits before it samples again.
///
/// Failure   The constructor throws `std::bad_alloc`. Without a tool nothing is sampled.
/// Threads   Any thread may call any function.
/// Cost      `change`: three atomic operations, and one call of the tool. While another thread
///           samples: one on a cache line of the calling thread, and one more if the mark is not
///           set. A thread that finds the mark each time samples `most_rounds` times more, and
///           waits about 10 us in all, before another thread may sample in its place. If `step`
///           is not 0, `change` reads the lines of all threads.
class alignas(64) nvtx_account {
public:
    /// Registers counters of live, reserved and peak bytes with the NVTX tool. If values differ by
    /// less than `step` bytes from those that the tool has, `change` does not pass them to the
    /// tool.
    nvtx_account(std::string name, char const* description, std::int64_t step)
        : group_{nvtx_counter_group::add(std::move(name), description)},
          step_{step},
          sampled_live_{group_.last().live},
          sampled_reserved_{group_.last().reserved} {}
    nvtx_account(nvtx_account&&) = delete;
    ~nvtx_account() { group_.release(); }

    [[nodiscard]] bool known() const noexcept { return group_.known(); }

    /// Adds `live` and `reserved` to the counters. Then passes the counters to the NVTX tool,
    /// unless both differ by less than `step_` bytes from the values that the tool has. If another
    /// thread is passing values, only marks this, and that thread compares the values again.
    void change(std::int64_t live, std::int64_t reserved) noexcept {
        if (live > 0) { live_.add(live); }
        if (live < 0) { live_.sub(-live); }
        if (reserved != 0) { reserved_.fetch_add(reserved); }
        // If another thread is passing values to the tool, marks that they have changed. That
        // thread then reads them again, with the change made above: all operations on `state_` and
        // on the values are sequentially consistent.
        state const seen = state_.load();
        if (seen != state::idle && leave(seen)) { return; }
        if (step_ > 0 && differs_little(now())) { return; }
        publish();
    }
    /// Passes live, reserved and peak bytes to the NVTX tool if the live or reserved bytes differ
    /// from those that the tool has.
    void flush() noexcept {
        values const v = now();
        if (sampled_live_.load() != v.live || sampled_reserved_.load() != v.reserved) { publish(); }
    }

private:
    using values = nvtx_counter_group::values;
    /// The most samples that a thread makes for others before another thread may sample.
    static constexpr unsigned most_rounds = 7;
    enum class state : unsigned char {
        idle,     ///< no thread is passing values to the tool
        sampling, ///< one thread is passing values to the tool
        /// One thread passes the values to the tool. Another thread has changed the values since
        /// and returned: the first thread checks them again before it returns.
        left,
    };

    [[nodiscard, gnu::always_inline]] values now() const noexcept {
        auto const [live, peak] = live_.now();
        return {.live = live, .reserved = reserved_.load(), .peak = peak};
    }
    /// Returns true if the tool, which has the values `sent`, needs no sample of `v`: they are
    /// equal, or `step_` is not 0 and they differ by less than `step_`.
    [[nodiscard]] bool suffices(values const& sent, values const& v) const noexcept {
        return step_ > 0 ? differs_little(v) : v == sent;
    }
    /// Returns true if the live and the reserved bytes differ by less than `step_` bytes from those
    /// that the tool has.
    [[nodiscard]] bool differs_little(values const& v) const noexcept {
        auto const little = [this](std::int64_t by) { return -step_ < by && by < step_; };
        return little(v.live - sampled_live_.load(std::memory_order_relaxed)) &&
               little(v.reserved - sampled_reserved_.load(std::memory_order_relaxed));
    }
    /// If a thread is sampling (passing values to the tool), makes sure that the mark is set, so
    /// that the thread looks at the values again, and returns true. Returns false if no thread is
    /// sampling. `seen` is the state that the calling thread has read since its change.
    [[gnu::noinline]] bool leave(state seen) noexcept {
        return seen == state::left || state_.compare_exchange_strong(seen, state::left) ||
               seen == state::left;
    }
    /// Passes live, reserved and peak bytes to the NVTX tool, unless another thread has begun to.
    [[gnu::always_inline]] void publish() noexcept {
        if (begin() && !sample(now())) { publish_again(); }
    }
    /// Called by the thread that has passed values to the tool, if another thread has changed the
    /// values since and set the state `left`. Passes the new values too, unless they differ by less
    /// than `step_` from those that the tool has, or a further thread has begun to pass them.
    [[gnu::noinline]] void publish_again() noexcept {
        values sent;
        values v;
        do {
            for (unsigned round = 0; round != most_rounds; ++round) {
                if (round != 0) { wait(round); }
                state_.store(state::sampling); // changes before it are in the values read below
                v = now();
                if (suffices(group_.last(), v) ? end() : sample(v)) { return; }
            }
            sent = group_.last();
            state_.store(state::idle); // from now on, another thread may pass values
            v = now();
        } while (!suffices(sent, v) && begin() && !sample(now()));
    }
    /// Waits for about 0.1 us for `round` 1, and for twice as long for each further round.
    void wait(unsigned round) const noexcept {
        for (unsigned polls = 128U << round; polls != 0; --polls) {
            static_cast<void>(state_.load(std::memory_order_relaxed));
        }
    }
    [[nodiscard]] bool begin() noexcept {
        state expected = state::idle;
        return state_.compare_exchange_strong(expected, state::sampling);
    }
    /// Returns true if no thread samples any more. Returns false if another thread has changed the
    /// values and marked this (`left`).
    [[nodiscard]] bool end() noexcept {
        state expected = state::sampling;
        return state_.compare_exchange_strong(expected, state::idle);
    }
    /// Passes the values `v` to the tool. Called by the one thread that samples (passes values).
    /// Returns true if no thread samples any more. Returns false if another thread has changed the
    /// values and marked this (`left`): the calling thread must then call `publish_again`.
    [[nodiscard, gnu::always_inline]] bool sample(values const& v) noexcept {
        sampled_live_.store(v.live, std::memory_order_relaxed);
        sampled_reserved_.store(v.reserved, std::memory_order_relaxed);
        group_.sample(v);
        return end();
    }

    // All threads read these members often and write them seldom. So `state_`, which changes each
    // time that values are passed to the tool, begins another cache line.
    nvtx_counter_group        group_;
    std::int64_t              step_;
    std::atomic<std::int64_t> reserved_{0};
    live_bytes                live_;
    alignas(64) std::atomic<state> state_{state::idle};
    std::atomic<std::int64_t> sampled_live_;
    std::atomic<std::int64_t> sampled_reserved_;
};

} // namespace detail
} // namespace vram
