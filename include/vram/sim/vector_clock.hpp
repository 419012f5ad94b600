// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `vector_clock` is how much somebody knows of what everybody has done.

#include <vram/base/requirements.hpp> // C++20

#include <algorithm> // max
#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <vector>    // vector

namespace vram {

/// One count per actor (stream or host thread). What an actor did at count `n` happened before
/// whoever knows `n` or more of that actor (Fidge 1988, Mattern 1989).
///
/// Cost      `knows` is one comparison, `join` one pass over the counts
class vector_clock {
public:
    /// The count that is known of `actor`; 0 is nothing.
    [[nodiscard]] std::uint64_t operator[](std::size_t actor) const noexcept {
        return actor < counts_.size() ? counts_[actor] : 0;
    }

    [[nodiscard]] bool knows(std::size_t actor, std::uint64_t count) const noexcept {
        return (*this)[actor] >= count;
    }

    /// Takes the next count of `actor` and returns it.
    std::uint64_t advance(std::size_t actor) { return ++at(actor); }

    /// Knows from now on what either knew.
    void join(vector_clock const& other) {
        if (counts_.size() < other.counts_.size()) { counts_.resize(other.counts_.size()); }
        for (std::size_t i = 0; i < other.counts_.size(); ++i) {
            counts_[i] = std::max(counts_[i], other.counts_[i]);
        }
    }

    /// Raises what is known of `actor` to `count`.
    void raise(std::size_t actor, std::uint64_t count) { at(actor) = std::max(at(actor), count); }

    friend bool operator==(vector_clock const& a, vector_clock const& b) noexcept {
        std::size_t const size = std::max(a.counts_.size(), b.counts_.size());
        for (std::size_t i = 0; i < size; ++i) {
            if (a[i] != b[i]) { return false; }
        }
        return true;
    }

private:
    std::uint64_t& at(std::size_t actor) {
        if (actor >= counts_.size()) { counts_.resize(actor + 1); }
        return counts_[actor];
    }

    std::vector<std::uint64_t> counts_;
};

} // namespace vram
