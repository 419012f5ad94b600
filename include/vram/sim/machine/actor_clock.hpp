// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `actor_clock` is a vector clock in one order of operations.

#include <vram/base/requirements.hpp>
#include <vram/sim/machine/shared_counts.hpp>

#include <algorithm> // max
#include <bit>       // popcount
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// A vector clock: one counter for each *actor* (a stream or a host thread). It states what happens
/// before an operation. If the counter of an actor is n, the first n steps of that actor happen
/// before the operation.
///
/// If a clock includes a step of an actor, it must also include everything that happens before that
/// step. `join`, the maximum of two clocks, relies on this rule to skip comparisons.
///
/// Failure   Members that change a clock throw `std::bad_alloc`.
/// Threads   Only one thread at a time may use an object.
/// Cost      O(1) on average. If neither of two clocks includes the other, a join visits their
///           differences.
class actor_clock {
public:
    actor_clock() = default;
    actor_clock(actor_clock const& other) { *this = other; }
    actor_clock(actor_clock&&) noexcept = default;
    actor_clock& operator=(actor_clock const& other) {
        if (this == &other) { return *this; }
        all_       = other.all_;
        owner_     = other.owner_;
        own_       = other.own_;
        learned_   = other.learned_;
        via_       = other.via_;
        via_count_ = other.via_count_;
        recent_    = other.recent_;
        late_      = other.late_;
        via_late_  = other.via_late_;
        via_all_   = other.via_all_;
        joined_    = other.joined_;
        copy_      = true;
        for (unsigned i = 0; i < recent_; ++i) { last_[i] = other.last_[i]; }
        return *this;
    }
    actor_clock& operator=(actor_clock&&) noexcept = default;

    /// Returns the counter of the stream or thread with the index `actor`, or 0 if there is none.
    [[nodiscard]] std::uint64_t operator[](std::size_t actor) const noexcept {
        return actor == owner_ ? own_ : other_than_own(actor);
    }

    [[nodiscard]] bool includes(std::size_t actor, std::uint64_t count) const noexcept {
        return (*this)[actor] >= count;
    }

    /// Returns true if the clock may have changed since its owner last called `advance`. The owner
    /// is the stream or thread of that call. It must call `advance` again before it ends, because
    /// another stream or thread may then get its index.
    [[nodiscard]] bool joined() const noexcept { return owner_ != none && joined_; }

    /// Increments the counter of `actor` and returns it. `actor` becomes the owner of the clock.
    std::uint64_t advance(std::size_t actor) {
        if (actor != owner_) {
            disown();
            own_     = other_than_own(actor);
            owner_   = actor;
            learned_ = own_ + 1;
        }
        if (recent_ > few - spare) { spill(); }
        copy_ = joined_ = false;
        return ++own_;
    }

    /// Raises each counter of this clock to at least the value of the same counter in `other`.
    void join(actor_clock const& other) {
        if (other.is_empty()) { return; }
        unsigned const missing = other.missing_in(*this);
        if (missing != unknown) {
            raise_some(other, missing);
            if (other.owner_ != none) { raise(other.owner_, other.own_); }
        } else if (is_within(other)) {
            take(other);
        } else {
            add(other);
        }
    }

    /// Returns true only if each counter of this clock is at least the same counter in `other`. May
    /// return false although this holds, because it does not compare all counters.
    [[nodiscard]] bool covers(actor_clock const& other) const noexcept {
        unsigned const missing = other.missing_in(*this);
        if (missing == unknown) { return false; }
        for (unsigned i = 0; i < other.recent_; ++i) {
            entry const& late = other.last_[i];
            if ((missing >> i & 1U) != 0 && !includes(late.actor, late.count)) { return false; }
        }
        return other.owner_ == none || includes(other.owner_, other.own_);
    }
    /// Returns a number that is larger than the index of each counter that is not 0.
    [[nodiscard]] std::size_t size() const noexcept {
        std::size_t most = owner_ == none ? all_.size() : std::max(all_.size(), owner_ + 1);
        for (unsigned i = 0; i < recent_; ++i) { most = std::max(most, last_[i].actor + 1); }
        return most;
    }

    /// Raises the counter of the stream or thread with the index `actor` to at least `count`.
    void raise(std::size_t actor, std::uint64_t count) {
        if (includes(actor, count)) { return; }
        if (copy_) { disown(); }
        if (actor == owner_) {
            own_ = count;
            all_changed();
        } else {
            put(actor, count);
        }
        joined_ = true;
    }

    friend bool operator==(actor_clock const& a, actor_clock const& b) noexcept {
        for (std::size_t i = std::max(a.size(), b.size()); i-- != 0;) {
            if (a[i] != b[i]) { return false; }
        }
        return true;
    }

private:
    static constexpr std::size_t none = ~std::size_t{0};
    static constexpr unsigned    few  = 8;
    /// Number of entries of `last_` that `advance` keeps free. A copy of the clock can then store a
    /// few changed counters without a call of `spill`.
    static constexpr unsigned spare = 3;
    /// Returned by `missing_in` if the clocks must be compared counter by counter.
    static constexpr unsigned unknown = ~0U;

    struct entry {
        std::size_t   actor;
        std::uint64_t count;
    };

    [[nodiscard]] std::uint64_t other_than_own(std::size_t actor) const noexcept {
        for (unsigned i = 0; i < recent_; ++i) {
            if (last_[i].actor == actor) { return last_[i].count; }
        }
        return all_[actor];
    }

    [[nodiscard]] bool is_empty() const noexcept {
        return owner_ == none && recent_ == 0 && all_.size() == 0;
    }
    /// Returns a bit set of the entries of `last_` that `other` may not include. `other` includes
    /// all other counters, except perhaps the owner's. Returns `unknown` if this is not known.
    [[nodiscard]] unsigned missing_in(actor_clock const& other) const noexcept {
        if (owner_ != none && other.includes(owner_, learned_)) { return late_; }
        if (via_all_ && other.includes(via_, via_count_)) { return via_late_; }
        return is_empty() ? 0 : unknown;
    }
    /// Returns true if `other` is known to include this clock. Does not compare the entries of
    /// `last_` in `missing_in(other)`. Compares the owner's counter only if this clock is a copy.
    [[nodiscard]] bool is_within(actor_clock const& other) const noexcept {
        bool const own = owner_ == none || !copy_ || other.includes(owner_, own_);
        return own && missing_in(other) != unknown;
    }

    /// For each entry of `other.last_` that the bit set `which` selects: raises the counter of the
    /// same stream or thread in this clock to at least the count of the entry.
    void raise_some(actor_clock const& other, unsigned which) {
        for (unsigned i = 0; i < other.recent_; ++i) {
            if ((which >> i & 1U) != 0) { raise(other.last_[i].actor, other.last_[i].count); }
        }
    }

    /// Joins `other`, for which `is_within(other)` must be true. Copies `other`, and then raises
    /// the counters that may be larger in this clock.
    void take(actor_clock const& other) {
        actor_clock next{other};
        if (!copy_ && owner_ != none) {
            next.disown();
            next.owner_   = owner_;
            next.own_     = std::max(own_, next.other_than_own(owner_));
            next.learned_ = next.own_ + 1;
            next.late_    = 0;
            next.joined_  = true;
        }
        next.raise_some(*this, missing_in(other));
        *this = std::move(next);
    }

    /// Joins `other`: raises each counter to at least its value in `other`. Called if neither clock
    /// is known to include the other.
    void add(actor_clock const& other) {
        actor_clock next{*this};
        next.copy_ = copy_;
        if (copy_) { next.disown(); }
        bool const known = other.via_ != none && includes(other.via_, other.via_count_);
        if (!known && !next.all_.shares(other.all_)) {
            next.all_.raise_all(other.all_);
            next.via_     = none;
            next.via_all_ = false;
            for (unsigned i = 0; i < next.recent_; ++i) {
                next.last_[i].count = std::max(next.last_[i].count, next.all_[next.last_[i].actor]);
            }
        }
        for (unsigned i = 0; i < other.recent_; ++i) {
            next.raise(other.last_[i].actor, other.last_[i].count);
        }
        if (other.owner_ != none) { next.raise(other.owner_, other.own_); }
        next.all_changed();
        *this = std::move(next);
    }

    /// Called after changes that `late_` does not record. Other clocks are then known to include
    /// this clock only if they include the owner's next count.
    void all_changed() noexcept {
        learned_ = own_ + 1;
        late_    = 0;
        via_all_ = false;
        joined_  = true;
    }

    /// Leaves the clock without an owner (the stream or thread that called `advance` last). Stores
    /// the owner's counter in `last_` instead of `own_`.
    void disown() {
        if (owner_ != none) {
            make_room(owner_);
            std::size_t const actor = std::exchange(owner_, none);
            via_                    = actor;
            via_count_              = learned_;
            via_late_               = late_;
            via_all_                = true;
            put(actor, std::max(own_, other_than_own(actor)));
        }
        own_ = learned_ = 0;
        copy_ = joined_ = false;
    }

    /// Stores `count` in `last_` as the counter of `actor`, which must not be the owner.
    void put(std::size_t actor, std::uint64_t count) {
        make_room(actor);
        unsigned const i = place_of(actor);
        recent_          = std::max(recent_, i + 1);
        last_[i]         = {actor, count};
        late_ |= 1U << i;
        via_late_ |= 1U << i;
    }
    /// Returns the index of the entry of `last_` for `actor`. If there is none, returns the index
    /// of the first free entry, or `few` if no entry is free.
    [[nodiscard]] unsigned place_of(std::size_t actor) const noexcept {
        unsigned i = 0;
        while (i < recent_ && last_[i].actor != actor) { ++i; }
        return i;
    }

    /// Makes sure that `last_` has an entry for `actor` or a free entry.
    void make_room(std::size_t actor) {
        if (place_of(actor) == few) { spill(); }
    }
    /// Moves entries of `last_` (the counters that changed last) to `all_`, so that at least
    /// `spare` entries of `last_` are free.
    void spill() {
        // Keeps the entries that other clocks may lack in `last_`, unless they are too many.
        unsigned      kept  = late_ | (via_all_ ? via_late_ : 0);
        bool const    whole = static_cast<unsigned>(std::popcount(kept)) > few - spare;
        shared_counts next  = all_;
        if (whole) { kept = 0; }
        for (unsigned i = 0; i < recent_; ++i) {
            if ((kept >> i & 1U) == 0) { next.raise(last_[i].actor, last_[i].count); }
        }
        all_ = std::move(next);
        if (whole) { all_changed(); }
        if (!via_all_) { via_ = none; }
        unsigned const late = std::exchange(late_, 0), via_late = std::exchange(via_late_, 0);
        for (unsigned i = 0, count = std::exchange(recent_, 0); i < count; ++i) {
            if ((kept >> i & 1U) == 0) { continue; }
            late_ |= (late >> i & 1U) << recent_;
            via_late_ |= (via_late >> i & 1U) << recent_;
            last_[recent_++] = last_[i];
        }
    }

    /// Counters of all actors (streams and threads) except the owner. If `last_` has an entry for
    /// an actor, that entry is newer and replaces the counter here.
    shared_counts all_;
    std::size_t   owner_ = none;
    std::uint64_t own_   = 0; ///< counter of the owner (the stream or thread that advanced last)
    /// Each clock that includes this count of the owner also includes all other counters of this
    /// clock, except the entries in `late_`.
    std::uint64_t learned_ = 0;
    /// Index of a stream or thread that owned the clock earlier, or `none`. Each clock that
    /// includes its count `via_count_` also includes all counters in `all_`.
    std::size_t   via_       = none;
    std::uint64_t via_count_ = 0;
    unsigned      recent_    = 0; ///< number of entries of `last_` in use
    /// Bit set of the entries of `last_` that changed after `learned_` was set. A clock may lack
    /// these entries although it includes the owner's count `learned_`.
    unsigned late_ = 0;
    /// Bit set of entries of `last_`, used only if `via_all_` is true. A clock may lack these
    /// entries although it includes the count `via_count_` of the actor `via_`.
    unsigned via_late_ = 0;
    /// If true, each clock that includes the count `via_count_` of the actor `via_` also includes
    /// all entries of `last_` except those in `via_late_`.
    bool via_all_ = false;
    /// True if the clock may have changed since its owner (a stream or thread) called `advance`.
    bool joined_ = false;
    /// True for a new clock, and for a copy until it changes. When `raise` changes a copy, the copy
    /// loses its owner, because the owner did not make this change.
    bool  copy_      = true;
    entry last_[few] = {}; ///< the counters that changed last, each with its stream or thread
};

} // namespace detail
} // namespace vram
