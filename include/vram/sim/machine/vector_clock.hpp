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

/// The vector clock of an operation, stream, event or host thread, in two orders: that of the
/// program, and the *full* order, which also contains the waits that resources make in their calls.
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
    /// Returns true if the clock includes the step `count` of `actor` in the full order, in which
    /// waits of resources count too.
    [[nodiscard]] bool includes_fully(std::size_t actor, std::uint64_t count) const noexcept {
        return includes(actor, count) || (by_resources_ && by_resources_->includes(actor, count));
    }

    /// Returns true if the clock changed after the last `advance`. The owner must then call
    /// `advance` once more before it ends.
    [[nodiscard]] bool joined() const noexcept { return program_.joined(); }
    /// Counts a step of the stream or thread `actor`, which becomes the owner of the clock. Returns
    /// the new counter.
    std::uint64_t advance(std::size_t actor) { return program_.advance(actor); }

    /// Sets each counter to the larger of its value and that in `other`: everything that happens
    /// before `other` then happens before this one.
    void join(vector_clock const& other) {
        if (other.by_resources_) { share(other.by_resources_); }
        program_.join(other.program_);
        if (by_resources_ && program_.covers(*by_resources_)) { by_resources_.reset(); }
    }
    /// Joins `other` because a resource has waited for it. Changes only the *full* order, not that
    /// of the program.
    void join_by_resource(vector_clock const& other) {
        if (other.by_resources_) { share(other.by_resources_); }
        if (covers(other.program_)) { return; }
        actor_clock next = by_resources_ ? *by_resources_ : actor_clock{};
        next.join(other.program_);
        by_resources_ = std::make_shared<actor_clock const>(std::move(next));
    }

    /// Returns the clock of the work that is in both clocks, in the program's order. The cost is
    /// linear in the counters.
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

    /// Returns true if this clock is known to include `other`, if waits of resources count as
    /// order.
    [[nodiscard]] bool covers(actor_clock const& other) const noexcept {
        return program_.covers(other) || (by_resources_ && by_resources_->covers(other));
    }
    /// Adds to `by_resources_` the counters `other`, which waits of resources raised in another
    /// clock.
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
    /// Counters that waits of resources have raised. They count only in the full order, besides
    /// those of `program_`. Null if there are none.
    shared by_resources_;
};

} // namespace detail
} // namespace vram
