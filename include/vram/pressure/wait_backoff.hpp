// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `wait_backoff` is a retry policy that waits with exponential backoff.

#include <vram/base/core/durations.hpp> // nanoseconds, milliseconds
#include <vram/base/core/smaller_of.hpp>
#include <vram/concepts/retry.hpp> // retry, failed_attempt

#include <thread> // sleep_for
#include <utility>

namespace vram {

namespace detail {
/// A function object that suspends the calling thread in real time, not in simulated time.
struct sleep_really {
    void operator()(std::chrono::nanoseconds how_long) const {
        std::this_thread::sleep_for(how_long);
    }
};
} // namespace detail

/// A retry policy for `retrying`: waits before each further attempt, at most eight times, so that
/// others can free memory. The first wait takes `first`, each further one twice as long, at most
/// `longest`.
///
///     retrying mr{cuda_resource{}, wait_backoff{2ms, 200ms}};
///
/// On the simulated device, pass a `Sleep` that advances its time, such as a call of `sim_work`.
///
/// Failure   Throws the exceptions of `Sleep`.
/// Threads   Any thread may call, as far as `Sleep` permits.
/// Cost      With the defaults, at most 0.23 s before the refusal is passed on.
template <class Sleep = detail::sleep_really>
class wait_backoff {
public:
    /// Largest number of times that `retrying` calls this retry policy for one request.
    static constexpr unsigned max_tries = 8;

    /// Makes a retry policy with a first wait of `first` and waits of at most `longest`.
    explicit wait_backoff(std::chrono::nanoseconds first   = std::chrono::milliseconds{1},
                          std::chrono::nanoseconds longest = std::chrono::milliseconds{100},
                          Sleep                    sleep   = {})
        : first_{first}, longest_{longest}, sleep_{std::move(sleep)} {}

    /// Waits for `first`, doubled after each further failed attempt, at most for `longest`. Returns
    /// true, so that the request is tried again.
    template <class R>
    bool operator()(R&, failed_attempt const& failed) const {
        std::chrono::nanoseconds now = first_;
        for (unsigned i = 1; i < failed.tries && now < longest_; ++i) { now *= 2; }
        sleep_(detail::smaller_of(now, longest_));
        return true;
    }

private:
    std::chrono::nanoseconds    first_;
    std::chrono::nanoseconds    longest_;
    [[no_unique_address]] Sleep sleep_;
};

} // namespace vram
