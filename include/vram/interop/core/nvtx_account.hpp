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

/// Counts live, reserved and peak bytes of a resource or a tag, and passes them to an NVTX tool,
/// such as Nsight Systems. One thread at a time calls the tool; if others change the bytes
/// meanwhile, it calls the tool again. While no thread is in `change`, the live and reserved bytes
/// that the tool has are current or differ by less than `step` bytes. Any thread may call any
/// function.
class alignas(64) nvtx_account {
public:
    /// Registers the counters with the NVTX tool. `change` does not pass values that differ by less
    /// than `step` bytes from those passed before.
    nvtx_account(std::string name, char const* description, std::int64_t step)
        : group_{nvtx_counter_group::add(std::move(name), description)}, step_{step} {}
    nvtx_account(nvtx_account&&) = delete;
    ~nvtx_account() { group_.release(); }

    [[nodiscard]] bool known() const noexcept { return group_.known(); }

    /// Adds `live` and `reserved` to the counters, and passes them to the NVTX tool unless they
    /// differ little from those passed before.
    void change(std::int64_t live, std::int64_t reserved) noexcept {
        if (live > 0) { live_.add(live); }
        if (live < 0) { live_.sub(-live); }
        if (reserved != 0) { reserved_.fetch_add(reserved); }
        // If another thread is passing values to the tool, `leave` tells it to read them again,
        // with this change: all of these operations are sequentially consistent.
        state const seen = state_.load();
        if (seen != state::idle && leave(seen)) { return; }
        if (step_ > 0 && suffices(group_.last(), now())) { return; }
        publish();
    }
    /// Passes live, reserved and peak bytes to the NVTX tool if the live or reserved bytes differ
    /// from those that the tool has.
    void flush() noexcept {
        values const sent = group_.last();
        values const v    = now();
        if (sent.live != v.live || sent.reserved != v.reserved) { publish(); }
    }

private:
    using values = nvtx_counter_group::values;
    /// The most samples that a thread makes for other threads before one of them may sample.
    static constexpr unsigned most_rounds = 16;
    enum class state : unsigned char {
        idle,     ///< no thread is passing values to the tool
        sampling, ///< one thread is passing values to the tool
        /// One thread passes the values to the tool. Another has changed them since, so the first
        /// must read them again.
        left,
    };

    [[nodiscard, gnu::always_inline]] values now() const noexcept {
        auto const [live, peak] = live_.now();
        return {.live = live, .reserved = reserved_.load(), .peak = peak};
    }
    /// Returns true if `v` need not be passed to the tool. If `step_` is 0, `v` must equal `sent`,
    /// the values passed last; otherwise live and reserved bytes must differ by less than `step_`.
    [[nodiscard]] bool suffices(values const& sent, values const& v) const noexcept {
        if (step_ <= 0) { return v == sent; }
        auto const little = [this](std::int64_t by) { return -step_ < by && by < step_; };
        return little(v.live - sent.live) && little(v.reserved - sent.reserved);
    }
    /// Returns true if another thread is passing values to the tool, and makes it read them again.
    /// Otherwise returns false. `seen` is the state that the caller read.
    [[gnu::noinline]] bool leave(state seen) noexcept {
        return seen == state::left || state_.compare_exchange_strong(seen, state::left) ||
               seen == state::left;
    }
    /// Passes live, reserved and peak bytes to the NVTX tool. Does nothing if another thread has
    /// begun to: that thread passes the caller's change too.
    [[gnu::always_inline]] void publish() noexcept {
        if (begin() && !sample(now())) { publish_again(); }
    }
    /// Called after `sample` returned false: another thread has changed the values since they were
    /// read. Passes them again until they need not be, or another thread does it.
    [[gnu::noinline]] void publish_again() noexcept {
        do {
            // In this loop the state stays `left`, so that other threads only read it.
            for (unsigned round = 0; round != most_rounds; ++round) {
                values const v = now();
                if (suffices(group_.last(), v)) { break; }
                group_.sample(v);
            }
            values const sent = group_.last();
            state_.store(state::idle); // from now on, another thread may pass values to the tool
            // Threads that only read `left` set no mark, so the values are compared.
            if (suffices(sent, now())) { return; }
        } while (begin() && !sample(now()));
    }
    [[nodiscard]] bool begin() noexcept {
        state expected = state::idle;
        return state_.compare_exchange_strong(expected, state::sampling);
    }
    /// Passes `v` to the tool. Returns false if another thread has changed the values since: the
    /// caller must then call `publish_again`.
    [[nodiscard, gnu::always_inline]] bool sample(values const& v) noexcept {
        group_.sample(v);
        state expected = state::sampling;
        return state_.compare_exchange_strong(expected, state::idle);
    }

    // These members are read often and written seldom. So `state_`, which changes often, begins
    // another cache line.
    nvtx_counter_group        group_;
    std::int64_t              step_;
    std::atomic<std::int64_t> reserved_{0};
    live_bytes                live_;
    alignas(64) std::atomic<state> state_{state::idle};
};

} // namespace detail
} // namespace vram
