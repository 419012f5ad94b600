// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `vector_clock` records which operations of all streams and threads happen before a point.

#include <vram/base/requirements.hpp>
#include <vram/sim/machine/actor_clock.hpp>

#include <algorithm> // min
#include <cstddef>
#include <cstdint>
#include <memory> // make_shared, shared_ptr
#include <utility>

namespace vram {
namespace detail {

/// Records what happens before an operation, event or point of a stream or host thread: by the
/// calls of the program alone, and in the *full* order, which adds the waits that resources make
/// for themselves.
///
/// Failure   Members that change a clock throw `std::bad_alloc`.
/// Threads   One object by one thread at a time; copies may be used by different threads.
class vector_clock {
public:
    /// Returns the counter of the stream or thread with the index `actor`, or 0 if there is none.
    [[nodiscard]] std::uint64_t operator[](std::size_t actor) const noexcept {
        return program_[actor];
    }
    [[nodiscard]] bool includes(std::size_t actor, std::uint64_t count) const noexcept {
        return program_.includes(actor, count);
    }
    /// Returns true if the step `count` of `actor` (a stream or thread) happens before, by the
    /// calls of the program or by waits inside calls of resources.
    [[nodiscard]] bool includes_fully(std::size_t actor, std::uint64_t count) const noexcept {
        return includes(actor, count) || (by_resources_ && by_resources_->includes(actor, count));
    }

    /// Returns true if the clock may have changed since its owner (a stream or thread) called
    /// `advance`. The owner must then advance again before it ends, because its index may be
    /// reused.
    [[nodiscard]] bool joined() const noexcept { return program_.joined(); }
    /// Increments the counter of the stream or thread `actor`, which becomes the owner of the
    /// clock, and returns the new value.
    std::uint64_t advance(std::size_t actor) { return program_.advance(actor); }

    /// Sets each counter to the larger of its value and that in `other`: everything that happens
    /// before `other` then happens before this one.
    void join(vector_clock const& other) {
        if (other.by_resources_) { share(other.by_resources_); }
        program_.join(other.program_);
        if (by_resources_ && program_.covers(*by_resources_)) { by_resources_.reset(); }
    }
    /// Joins `other` to the *full* order only: a resource waited for it inside its own call, on
    /// which the program must not rely.
    void join_by_resource(vector_clock const& other) {
        if (other.by_resources_) { share(other.by_resources_); }
        if (covers(other.program_)) { return; }
        actor_clock next = by_resources_ ? *by_resources_ : actor_clock{};
        next.join(other.program_);
        by_resources_ = std::make_shared<actor_clock const>(std::move(next));
    }

    /// Returns the clock of the work that both clocks include by the calls of the program alone:
    /// the smaller of both counters for each stream and thread. The cost is linear in their number.
    [[nodiscard]] vector_clock common(vector_clock const& other) const {
        vector_clock both;
        for (std::size_t i = 0; i < program_.size(); ++i) {
            both.raise(i, std::min((*this)[i], other[i]));
        }
        return both;
    }

    /// Raises the counter of the stream or thread with the index `actor` to at least `count`.
    void raise(std::size_t actor, std::uint64_t count) { program_.raise(actor, count); }

    friend bool operator==(vector_clock const& a, vector_clock const& b) noexcept {
        return a.program_ == b.program_ && a.is_full_in(b) && b.is_full_in(a);
    }

private:
    using shared = std::shared_ptr<actor_clock const>;

    /// Returns true if this clock is known to include all of `other`, by the program's calls alone
    /// or with waits of resources. False does not prove the opposite.
    [[nodiscard]] bool covers(actor_clock const& other) const noexcept {
        return program_.covers(other) || (by_resources_ && by_resources_->covers(other));
    }
    /// Raises the counters in `by_resources_` to at least those in `other`, which is
    /// `by_resources_` of another clock.
    void share(shared const& other) {
        if (by_resources_ == other || covers(*other)) { return; }
        if (!by_resources_ || other->covers(*by_resources_)) {
            by_resources_ = other;
        } else {
            actor_clock next = *by_resources_;
            next.join(*other);
            by_resources_ = std::make_shared<actor_clock const>(std::move(next));
        }
    }
    [[nodiscard]] bool is_full_in(vector_clock const& other) const noexcept {
        if (!by_resources_) { return true; }
        for (std::size_t i = 0; i < by_resources_->size(); ++i) {
            if (!other.includes_fully(i, (*by_resources_)[i])) { return false; }
        }
        return true;
    }

    actor_clock program_;
    /// Counters that waits inside calls of resources have raised, or null. The full order uses the
    /// larger one of each of these and that in `program_`.
    shared by_resources_;
};

} // namespace detail
} // namespace vram
