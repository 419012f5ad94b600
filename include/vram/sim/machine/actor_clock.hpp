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

/// A vector clock: one counter for each stream and each host thread (an *actor*). Everything that
/// an actor did up to its counter in the clock of an operation happens before the operation.
///
/// A clock with a count of an actor must also include all that the actor's own clock included at
/// that count: `join` relies on this to skip comparisons.
///
/// Failure   Members that change a clock throw `std::bad_alloc`.
/// Threads   One object by one thread at a time.
/// Cost      O(1) on average; a join of clocks of which neither includes the other visits their
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

    /// Returns true if the clock may have changed since its owner (stream or thread) called
    /// `advance`. The owner must then advance again before it ends, because its index may be
    /// reused.
    [[nodiscard]] bool joined() const noexcept { return owner_ != none && joined_; }

    /// Increments the counter of `actor`, which becomes the owner of the clock, and returns the new
    /// value.
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

    /// Sets each counter of this vector clock to the larger of its value and that in `other`.
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

    /// Returns true if all counters are known to be at least those of `other`. False does not prove
    /// that one is less.
    [[nodiscard]] bool covers(actor_clock const& other) const noexcept {
        unsigned const missing = other.missing_in(*this);
        if (missing == unknown) { return false; }
        for (unsigned i = 0; i < other.recent_; ++i) {
            entry const& late = other.last_[i];
            if ((missing >> i & 1U) != 0 && !includes(late.actor, late.count)) { return false; }
        }
        return other.owner_ == none || includes(other.owner_, other.own_);
    }
    /// Returns a number larger than the index of each stream or thread with a counter that is not
    /// 0.
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
    /// Number of entries of `last_` that `advance` keeps free for counters that copies of the clock
    /// raise.
    static constexpr unsigned spare = 3;
    /// Result of `missing_in` if any counter may be missing, so that all must be compared.
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
    /// Returns the entries of `last_` that `other` may lack, as a bit set, or `unknown` if all
    /// counters must be compared. Ignores the owner's counter.
    [[nodiscard]] unsigned missing_in(actor_clock const& other) const noexcept {
        if (owner_ != none && other.includes(owner_, learned_)) { return late_; }
        if (via_all_ && other.includes(via_, via_count_)) { return via_late_; }
        return is_empty() ? 0 : unknown;
    }
    /// Returns true if `other` is known to include all counters of this clock, except perhaps some
    /// entries of `last_` and, unless this is a copy, the owner's.
    [[nodiscard]] bool is_within(actor_clock const& other) const noexcept {
        bool const own = owner_ == none || !copy_ || other.includes(owner_, own_);
        return own && missing_in(other) != unknown;
    }

    /// Raises counters to their values in `other`: those of the entries of `other.last_` that the
    /// bit set `which` selects.
    void raise_some(actor_clock const& other, unsigned which) {
        for (unsigned i = 0; i < other.recent_; ++i) {
            if ((which >> i & 1U) != 0) { raise(other.last_[i].actor, other.last_[i].count); }
        }
    }

    /// Joins `other` by a copy of it, in which it raises the entries of `last_` that `other` may
    /// lack. `is_within(other)` must be true.
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

    /// Raises each counter to at least its value in `other`, for clocks of which neither is known
    /// to include the other.
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

    /// Called after changes that `late_` does not list: another clock then has them for certain
    /// only if it includes the owner's next count.
    void all_changed() noexcept {
        learned_ = own_ + 1;
        late_    = 0;
        via_all_ = false;
        joined_  = true;
    }

    /// Removes the owner (the stream or thread of the last `advance`), if any, and stores its
    /// counter among the others.
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

    /// Stores `count` for `actor` (a stream or host thread), which must not own this clock.
    void put(std::size_t actor, std::uint64_t count) {
        make_room(actor);
        unsigned const i = place_of(actor);
        recent_          = std::max(recent_, i + 1);
        last_[i]         = {actor, count};
        late_ |= 1U << i;
        via_late_ |= 1U << i;
    }
    /// Returns the index of the actor's entry in `last_`, or of the first free entry, or `few` if
    /// all are used.
    [[nodiscard]] unsigned place_of(std::size_t actor) const noexcept {
        unsigned i = 0;
        while (i < recent_ && last_[i].actor != actor) { ++i; }
        return i;
    }

    /// Makes sure that `last_` (counters that changed last) has an entry for `actor` or a free one.
    void make_room(std::size_t actor) {
        if (place_of(actor) == few) { spill(); }
    }
    /// Moves entries of `last_` (counters that changed last) to the tree `all_`, so that at least
    /// `spare` entries are free.
    void spill() {
        // Keeps the entries that other clocks may lack, unless more than `few - spare` would stay.
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

    /// Counters of all actors (streams and threads) except the owner. A count in `last_` replaces
    /// that of the same actor here.
    shared_counts all_;
    std::size_t   owner_ = none;
    std::uint64_t own_   = 0; ///< counter of the owner (the stream or thread that advanced last)
    /// Another clock that includes this count of the owner also has all other counters of this
    /// clock, except those in `late_`: `join` then compares only these.
    std::uint64_t learned_ = 0;
    /// Index of an earlier owner (stream or thread), or `none`. Another clock that includes its
    /// count `via_count_` also has all counters in the tree `all_`.
    std::size_t   via_       = none;
    std::uint64_t via_count_ = 0;
    unsigned      recent_    = 0; ///< number of used entries of `last_`
    /// Bit set of the entries of `last_` raised after `learned_` was set: a clock with that count
    /// of the owner may lack them.
    unsigned late_ = 0;
    /// Bit set, valid if `via_all_`: entries of `last_` that another clock may lack although it
    /// includes the count `via_count_` of the earlier owner `via_`.
    unsigned via_late_ = 0;
    /// True if another clock that includes the count `via_count_` of the earlier owner `via_` also
    /// has the counters in `last_`, except those in `via_late_`.
    bool via_all_ = false;
    bool joined_  = false; ///< for a clock with an owner: it may have changed since `advance`
    /// True for a new clock or an unchanged copy: `raise` then first removes the owner, which did
    /// not make the change.
    bool  copy_      = true;
    entry last_[few] = {}; ///< the counters that changed last, each with its stream or thread
};

} // namespace detail
} // namespace vram
