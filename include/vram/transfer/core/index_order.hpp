// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `index_order` is an order of indices: unchanged, listed, or shuffled by a seed.

#include <vram/base/requirements.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// An order of indices: unchanged, shuffled by a seed, or given as a list. A seed gives the same
/// order on every machine and with every standard library.
///
/// Threads   Any number of threads may read.
class index_order {
public:
    /// Creates the unchanged order, index `i` at position `i`, for any number of positions.
    index_order() = default;
    index_order(std::size_t n, std::uint64_t seed) : places_(n) {
        for (std::size_t i = 0; i < n; ++i) { places_[i] = i; }
        shuffle(seed);
    }
    /// Creates the order that has the index `places[i]` at position `i`.
    explicit index_order(std::vector<std::size_t> places) noexcept : places_{std::move(places)} {}

    /// Shuffles the indices by random numbers that depend only on `seed`. Does nothing to a
    /// default-constructed order, which has no fixed length.
    void shuffle(std::uint64_t seed) noexcept {
        // The shuffle of Fisher and Yates.
        for (std::size_t i = places_.size(); i > 1; --i) {
            std::swap(places_[i - 1], places_[below(i, seed)]);
        }
    }

    /// Restricts the order to the positions `which`, `which + parts`, `which + 2 * parts` and so
    /// on. Returns a reference to this object.
    index_order& part(std::size_t which, std::size_t parts) noexcept {
        first_ = which;
        step_  = parts;
        return *this;
    }

    [[nodiscard]] std::size_t operator[](std::size_t i) const noexcept {
        std::size_t const at = first_ + i * step_;
        return at < places_.size() ? places_[at] : at;
    }
    [[nodiscard]] std::size_t size() const noexcept { return places_.size(); }

private:
    // The generator splitmix64 (Steele, Lea and Flood 2014).
    static std::uint64_t next(std::uint64_t& state) noexcept {
        std::uint64_t z = state += 0x9e3779b97f4a7c15;
        z               = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9;
        z               = (z ^ (z >> 27U)) * 0x94d049bb133111eb;
        return z ^ (z >> 31U);
    }
    /// Returns a random number below `n`. Draws again if the drawn number is not below the largest
    /// multiple of `n`, so that all results are equally probable.
    static std::size_t below(std::size_t n, std::uint64_t& state) noexcept {
        std::uint64_t const over = (UINT64_MAX % n + 1) % n;
        for (;;) {
            std::uint64_t const drawn = next(state);
            if (drawn <= UINT64_MAX - over) { return static_cast<std::size_t>(drawn % n); }
        }
    }

    std::vector<std::size_t> places_;
    std::size_t              first_ = 0;
    std::size_t              step_  = 1;
};

} // namespace detail
} // namespace vram
