// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `dice` is a random number generator with equal numbers on all machines for one seed.

#include <bit>     // rotl, bit_width
#include <cstddef> // size_t
#include <cstdint> // uint64_t

namespace trial {

/// SplitMix64 (Steele, Lea and Flood 2014). The standard's distributions differ between libraries;
/// these do not.
class dice {
public:
    explicit dice(std::uint64_t seed) noexcept : state_{seed} {}

    std::uint64_t next() noexcept {
        std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
        z               = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
        z               = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
        return z ^ (z >> 31);
    }
    /// Returns a number from 0 to `n - 1`; `n` is below 2^32.
    std::size_t below(std::size_t n) noexcept { return (next() >> 32) * n >> 32; }
    /// Returns true once in `n` times.
    bool one_in(std::size_t n) noexcept { return below(n) == 0; }
    /// Returns a number from 1 to `most`, each power of two as often as the next.
    std::size_t size(std::size_t most) noexcept {
        std::size_t const n = std::size_t{1}
                              << (1 + below(static_cast<std::size_t>(std::bit_width(most))));
        std::size_t const s = n / 2 + below(n / 2 + 1);
        return s < most ? s : most;
    }

private:
    std::uint64_t state_;
};

} // namespace trial
