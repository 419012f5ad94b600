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

/// A vector clock: the record of what happens before an operation, an event, or a point of a stream
/// or host thread. Has two orders. The order of the program comes from the calls of the program
/// alone. The *full* order also includes waits inside calls of resources, such as pools.
///
/// Failure   Members that change a clock throw `std::bad_alloc`.
/// Threads   Only one thread at a time may use an object. Different threads may use copies.
class vector_clock {
public:
    /// Returns the counter of the stream or thread with the index `actor`, or 0 if there is none.
    [[nodiscard]] std::uint64_t operator[](std::size_t actor) const noexcept {
        return program_[actor];
    }
    [[nodiscard]] bool includes(std::size_t actor, std::uint64_t count) const noexcept {
        return program_.includes(actor, count);
    }
    /// Returns true if the step `count` of the stream or thread with the index `actor` happens
    /// before the point of this clock. Waits inside calls of resources, such as pools, count, too.
    [[nodiscard]] bool includes_fully(std::size_t actor, std::uint64_t count) const noexcept {
        return includes(actor, count) || (by_resources_ && by_resources_->includes(actor, count));
    }

    /// Returns true if the clock may have changed since its owner (a stream or thread) last called
    /// `advance`. The owner must then call `advance` again before the owner ends. The reason is
    /// that a later stream or thread may get the same index.
    [[nodiscard]] bool joined() const noexcept { return program_.joined(); }
    /// Increments the counter of the stream or thread with the index `actor`, and returns the new
    /// value. That stream or thread becomes the owner of the clock.
    std::uint64_t advance(std::size_t actor) { return program_.advance(actor); }

    /// Raises each counter to at least its value in `other`. This clock then also includes all work
    /// that `other` includes.
    void join(vector_clock const& other) {
        if (other.by_resources_) { share(other.by_resources_); }
        program_.join(other.program_);
        if (by_resources_ && program_.covers(*by_resources_)) { by_resources_.reset(); }
    }
    /// Adds the work in `other` to the full order, but not to the order of the program. Called if a
    /// resource, such as a pool, has waited for this work: the program must not rely on such a
    /// wait.
    void join_by_resource(vector_clock const& other) {
        if (other.by_resources_) { share(other.by_resources_); }
        if (covers(other.program_)) { return; }
        actor_clock next = by_resources_ ? *by_resources_ : actor_clock{};
        next.join(other.program_);
        by_resources_ = std::make_shared<actor_clock const>(std::move(next));
    }

    /// Returns a clock of the work that both clocks include in the order of the program: for each
    /// stream or thread, the smaller of the two counters. The cost is linear in the number of
    /// counters.
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

    /// Returns true if this clock surely includes all work in `other`, in the order of the program
    /// or in the full order. The result may be false for a clock that includes the work, because
    /// `covers` does not compare all counters.
    [[nodiscard]] bool covers(actor_clock const& other) const noexcept {
        return program_.covers(other) || (by_resources_ && by_resources_->covers(other));
    }
    /// Adds the counters in `other` to `by_resources_`. In another clock, waits inside calls of
    /// resources have raised these counters.
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
    /// The counters that waits inside calls of resources have raised, or null. In the full order,
    /// the value of a counter is the larger of its values in `by_resources_` and `program_`.
    shared by_resources_;
};

} // namespace detail
} // namespace vram
