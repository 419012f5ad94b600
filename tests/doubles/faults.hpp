// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `faults` determines which of the coming upstream calls fails, and how.

#include <atomic>    // atomic
#include <cstdint>   // uint64_t
#include <stdexcept> // runtime_error

namespace doubles {

/// The exception of a failing device: an error that is not about memory, and that no layer may
/// swallow.
class machine_failure : public std::runtime_error {
public:
    machine_failure() : std::runtime_error{"planted machine failure"} {}
};

/// A plan of failures that the test owns. Thread-safe.
class faults {
public:
    /// The `n`-th call from here on fails (0: none), and with `for_good` all later ones.
    void fail_nth(std::uint64_t n, bool for_good = false) noexcept {
        for_good_  = for_good;
        struck_    = 0;
        countdown_ = n;
    }
    /// Failing calls throw `machine_failure` instead of `out_of_memory`.
    void as_machine_failure(bool on = true) noexcept { machine_ = on; }

    /// Called once by each call that may fail. Returns true if it must fail.
    [[nodiscard]] bool strikes() noexcept {
        ++calls_;
        std::uint64_t now = countdown_;
        while (now != 0) {
            std::uint64_t const next = now == 1 && for_good_ ? 1 : now - 1;
            if (countdown_.compare_exchange_weak(now, next)) {
                if (now == 1) { ++struck_; }
                return now == 1;
            }
        }
        return false;
    }

    [[nodiscard]] bool          machine() const noexcept { return machine_; }
    [[nodiscard]] std::uint64_t struck() const noexcept { return struck_; }
    [[nodiscard]] std::uint64_t calls() const noexcept { return calls_; }

private:
    std::atomic<std::uint64_t> countdown_ = 0;
    std::atomic<std::uint64_t> struck_    = 0;
    std::atomic<std::uint64_t> calls_     = 0;
    std::atomic<bool>          for_good_  = false;
    std::atomic<bool>          machine_   = false;
};

} // namespace doubles
