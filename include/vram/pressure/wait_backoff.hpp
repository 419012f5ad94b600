// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `wait_backoff` answers a refusal by waiting, each time for longer.

#include <vram/concepts/retry.hpp>       // retry, failed_attempt
#include <vram/source/null_resource.hpp> // the stand-in of the proofs below

#include <algorithm> // min
#include <chrono>    // nanoseconds, milliseconds
#include <thread>    // sleep_for
#include <utility>   // move

namespace vram {

/// Sleeps as time really passes.
struct sleep_really {
    void operator()(std::chrono::nanoseconds how_long) const {
        std::this_thread::sleep_for(how_long);
    }
};

/// Waits for others to give memory back: another thread, another process. The first wait is
/// `first`, each one after it twice as long, none longer than `longest`; eight in all for one
/// request.
///
///     retrying mr{cuda_resource{}, wait_backoff{2ms, 200ms}};
///
/// `Sleep` is called with the time to wait; a simulated node passes virtual time instead.
///
/// Failure   what `Sleep` throws
/// Threads   any
/// Cost      with the defaults at most a quarter of a second before the refusal goes on
template <class Sleep = sleep_really>
class wait_backoff {
public:
    static constexpr unsigned max_tries = 8;

    explicit wait_backoff(std::chrono::nanoseconds first   = std::chrono::milliseconds{1},
                          std::chrono::nanoseconds longest = std::chrono::milliseconds{100},
                          Sleep                    sleep   = {})
        : first_{first}, longest_{longest}, sleep_{std::move(sleep)} {}

    template <class R>
    bool operator()(R&, failed_attempt const& failed) const {
        std::chrono::nanoseconds now = first_;
        for (unsigned i = 1; i < failed.tries && now < longest_; ++i) { now *= 2; }
        sleep_(std::min(now, longest_));
        return true;
    }

private:
    std::chrono::nanoseconds    first_;
    std::chrono::nanoseconds    longest_;
    [[no_unique_address]] Sleep sleep_;
};

static_assert(retry<wait_backoff<>, null_resource<>>);

} // namespace vram
