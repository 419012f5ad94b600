// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `vector_clock` records which operations of all streams and threads happen before a point.

#include <vram/base/requirements.hpp>

#include <algorithm> // max
#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <vector>    // vector

namespace vram {
namespace detail {

/// A vector clock (Fidge 1988, Mattern 1989): one counter for each stream and each host thread (an
/// *actor*). If the clock of an operation contains the count `n` or more for an actor, everything
/// that the actor did up to its count `n` happens before the operation.
///
/// Cost      `includes` is one comparison. `join` is one pass over the counters.
class vector_clock {
public:
    /// Returns the counter of `actor`, or 0 if the clock has none.
    [[nodiscard]] std::uint64_t operator[](std::size_t actor) const noexcept {
        return actor < counts_.size() ? counts_[actor] : 0;
    }

    [[nodiscard]] bool includes(std::size_t actor, std::uint64_t count) const noexcept {
        return (*this)[actor] >= count;
    }

    /// Returns true if the step `count` of `actor` happens before, if the waits of resources count
    /// as order too.
    [[nodiscard]] bool includes_fully(std::size_t actor, std::uint64_t count) const noexcept {
        return includes(actor, count) ||
               (actor < by_resources_.size() && by_resources_[actor] >= count);
    }

    /// Adds a step of `actor`: increments its counter and returns the new value.
    std::uint64_t advance(std::size_t actor) { return ++at(actor); }

    /// Sets each counter to the larger of its value and that in `other`: everything that happens
    /// before `other` then happens before this one.
    void join(vector_clock const& other) {
        raise_all(counts_, other.counts_);
        raise_all(by_resources_, other.by_resources_);
    }
    /// Joins `other` only in the order that includes the waits of resources.
    void join_by_resource(vector_clock const& other) {
        raise_all(by_resources_, other.counts_);
        raise_all(by_resources_, other.by_resources_);
    }

    /// Raises the counter of `actor` to at least `count`.
    void raise(std::size_t actor, std::uint64_t count) { at(actor) = std::max(at(actor), count); }

    friend bool operator==(vector_clock const& a, vector_clock const& b) noexcept {
        std::size_t const size = std::max(a.counts_.size(), b.counts_.size());
        for (std::size_t i = 0; i < size; ++i) {
            if (a[i] != b[i]) { return false; }
        }
        return true;
    }

private:
    using counts = std::vector<std::uint64_t>;

    static void raise_all(counts& to, counts const& from) {
        if (to.size() < from.size()) { to.resize(from.size()); }
        for (std::size_t i = 0; i < from.size(); ++i) { to[i] = std::max(to[i], from[i]); }
    }
    std::uint64_t& at(std::size_t actor) {
        if (actor >= counts_.size()) { counts_.resize(actor + 1); }
        return counts_[actor];
    }

    counts counts_;
    counts by_resources_; ///< counters that only the waits of resources (such as pools) have raised
};

} // namespace detail
} // namespace vram
