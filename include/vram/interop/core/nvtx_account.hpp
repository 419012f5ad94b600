// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `nvtx_account` sums the bytes of a resource or of a tag, and samples them for a tool.

#include <vram/interop/core/nvtx_counter_group.hpp>

#include <atomic>  // atomic
#include <cstdint> // int64_t
#include <string>  // string
#include <utility> // move

namespace vram {
namespace detail {

/// Counts live, reserved and peak bytes of a resource or of a tag, and samples them: passes the
/// values to a tool of NVTX, such as Nsight Systems. If several threads change the values at the
/// same time, one of them samples for all.
///
/// Failure   The constructor throws `std::bad_alloc`. Without a tool nothing is sampled.
/// Threads   Any thread may call any function.
/// Cost      `change`: four atomic operations, and one call of the tool.
class alignas(64) nvtx_account {
public:
    /// Registers counters of live, reserved and peak bytes with the NVTX tool. If values differ by
    /// less than `step` bytes from those that the tool has, `change` does not pass them to the
    /// tool.
    nvtx_account(std::string name, char const* description, std::int64_t step)
        : group_{nvtx_counter_group::add(std::move(name), description)},
          sampled_live_{group_.last().live},
          sampled_reserved_{group_.last().reserved},
          step_{step} {}
    nvtx_account(nvtx_account&&) = delete;
    ~nvtx_account() { group_.release(); }

    [[nodiscard]] bool known() const noexcept { return group_.known(); }

    /// Adds to the live and to the reserved bytes. Passes them to the NVTX tool, unless both differ
    /// by less than `step_` bytes from the values that the tool has.
    void change(std::int64_t live, std::int64_t reserved) noexcept {
        std::int64_t const now  = live_.fetch_add(live, std::memory_order_relaxed) + live;
        std::int64_t       peak = peak_.load(std::memory_order_relaxed);
        while (peak < now && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {}
        std::int64_t held = reserved_.load(std::memory_order_relaxed);
        if (reserved != 0) {
            held = reserved_.fetch_add(reserved, std::memory_order_relaxed) + reserved;
        }
        if (step_ > 0 && differs_little(now, sampled_live_) &&
            differs_little(held, sampled_reserved_)) {
            return;
        }
        publish();
    }
    /// Passes live, reserved and peak bytes to the NVTX tool if the live or reserved bytes differ
    /// from those that the tool has.
    void flush() noexcept {
        if (sampled_live_.load() != live_.load() || sampled_reserved_.load() != reserved_.load()) {
            publish();
        }
    }

private:
    static constexpr unsigned most_rounds = 64;

    [[nodiscard]] bool differs_little(std::int64_t                     value,
                                      std::atomic<std::int64_t> const& sampled) const noexcept {
        std::int64_t const by = value - sampled.load(std::memory_order_relaxed);
        return -step_ < by && by < step_;
    }
    /// Passes live, reserved and peak bytes to the NVTX tool. If another thread is doing this, that
    /// thread does it once more for this call.
    void publish() noexcept {
        if (waiting_.fetch_add(1, std::memory_order_acq_rel) != 0) { return; }
        unsigned seen = 1;
        for (unsigned round = 0; round != most_rounds && seen != 0; ++round) {
            sample();
            seen = waiting_.fetch_sub(seen, std::memory_order_acq_rel) - seen;
        }
        // If other threads change the values all the time, this thread stops after 64 samples. The
        // next change is passed to the tool by the thread that makes it.
        if (seen != 0) { waiting_.store(0, std::memory_order_release); }
    }
    void sample() noexcept {
        nvtx_counter_group::values now{.live     = live_.load(std::memory_order_relaxed),
                                       .reserved = reserved_.load(std::memory_order_relaxed),
                                       .peak     = peak_.load(std::memory_order_relaxed)};
        if (now.peak < now.live) { now.peak = now.live; }
        sampled_live_.store(now.live, std::memory_order_relaxed);
        sampled_reserved_.store(now.reserved, std::memory_order_relaxed);
        group_.sample(now);
    }

    nvtx_counter_group        group_;
    std::atomic<std::int64_t> live_{0};
    std::atomic<std::int64_t> reserved_{0};
    std::atomic<std::int64_t> peak_{0};
    /// Number of calls of `publish` for which the values are not yet passed to the tool.
    std::atomic<unsigned>     waiting_{0};
    std::atomic<std::int64_t> sampled_live_;
    std::atomic<std::int64_t> sampled_reserved_;
    std::int64_t              step_;
};

} // namespace detail
} // namespace vram
