// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_places` places the blocks of a stream-ordered pool, and maps memory, as the driver does.

#include <vram/sim/machine/sim_free_space.hpp>

#include <algorithm> // max, min
#include <cstddef>
#include <new>     // bad_alloc
#include <utility> // exchange
#include <vector>  // vector

namespace vram {
namespace detail {

/// The places of the blocks of a pool, as `cudaMallocAsync` selects them, and the units of address
/// space that have physical memory. Physical memory is made, moved and returned in whole units.
///
/// Each stream has a list of free ranges, and the pool has one. Every search of a list selects the
/// smallest range that is large enough, of several equal ones the oldest, and its lowest bytes. The
/// lists are searched in this order:
///  1. the list of the stream of the allocation
///  2. the list of the pool, but only ranges that have physical memory everywhere
///  3. the lists of the other streams
///  4. the list of the pool, after the ranges of all streams were moved into it. Units of the block
///     without memory get that of free units at the highest addresses, or else new memory.
///  5. as 2, if step 4 needs more new memory than is allowed
///
/// A freed range is added to the list of the stream that frees it, and merged with its neighbours
/// there. Until the stream has reached the free, the range is pending.
///
/// Failure   `allocate` and `back` throw `std::bad_alloc`, and allocate nothing then.
/// Threads   The caller holds the machine's lock.
/// Cost      O(log ranges), and as much for each range that a search skips because other streams
///           still use it, and for each usable guard in a range that it tests. Step 4 costs as much
///           for each range that it moves, each run of units of the block, each guard of the free
///           units that it tests, and, if a run of them has one that is not usable, for each unit
///           of the run.
class sim_places {
public:
    /// The result of `allocate`.
    struct result {
        bool        found  = false; ///< false if there are too few units
        std::size_t begin  = 0;     ///< place of the block, in bytes from the pool's first address
        std::size_t made   = 0;     ///< number of units that got new physical memory
        std::size_t moved  = 0;     ///< number of units that got the memory of other units
        std::size_t merged = 0;     ///< number of ranges that were moved into the pool's list
    };

    /// `unit`: size in bytes of the pieces of physical memory.
    explicit sim_places(std::size_t unit) : space_{unit} {}

    /// Backs the first `count` units with physical memory. Called before the first allocation.
    void back(std::size_t count) {
        space_.units.prepare(1);
        space_.units.add({0, count});
        space_.flag(space_.list.at(pool, 0));
        searched_ = false;
    }

    /// Finds a place for a block of `bytes` bytes on the stream with the number `stream`. At most
    /// `room` units get new physical memory.
    ///
    /// `usable(other, ticket)` returns true if the stream may get memory that another stream frees
    /// by a pending free. If so, it does for earlier frees of that stream, too. `wait(other,
    /// ticket)` is called before the stream gets such memory.
    template <class Usable, class Wait>
    result allocate(std::size_t bytes, std::size_t stream, std::size_t room, Usable const& usable,
                    Wait const& wait) {
        space_.stock(blocks_);
        unguarded_.clear();
        if (key const* const k = space_.list.first(lists::by_size, stream, bytes)) {
            return take({}, stream, k->begin, bytes);
        }
        auto const mine = [&](std::size_t other, std::size_t ticket) {
            return other == stream || usable(other, ticket);
        };
        auto const follow = [&](std::size_t other, std::size_t ticket) {
            if (other != stream) { wait(other, ticket); }
        };
        if (key const* const k = fit(lists::whole, bytes, mine)) {
            return take_pooled({}, *k, bytes, follow);
        }
        for (std::size_t i = space_.list.next_list(0); i < guards;
             i             = space_.list.next_list(i + 1)) {
            if (key const* const k = fit_of(i, bytes, mine)) {
                range const& from = space_.list.at(i, k->begin)->second;
                if (from.pending) { follow(i, from.ticket); }
                return take({}, i, k->begin, bytes);
            }
        }
        result const moved{.merged = merge(mine)};
        if (result const r = map(moved, bytes, room, mine, follow); r.found) { return r; }
        if (key const* const k = fit(lists::whole, bytes, mine)) {
            return take_pooled(moved, *k, bytes, follow);
        }
        return moved;
    }

    /// Frees a block. `ticket`: number of the free, larger than that of each earlier free. The
    /// memory is pending until `complete(stream, ticket)`.
    void free(std::size_t begin, std::size_t bytes, std::size_t stream,
              std::size_t ticket) noexcept {
        --blocks_;
        live_ -= bytes;
        space_.join(stream, begin,
                    {.end = begin + bytes, .stream = stream, .ticket = ticket, .pending = true});
    }
    /// Undoes the last `allocate`, which has found a place, except that new and moved units remain.
    /// No other member was called since.
    void undo() noexcept {
        --blocks_;
        live_ -= last_.of.end - last_.begin;
        space_.join(last_.list, last_.begin, last_.of);
        space_.note(last_.begin, last_.of.end);
        for (part const& p : unguarded_) { space_.guard(p.begin, p.of); }
    }
    /// Called when the stream has reached its free with this ticket, and all earlier ones.
    void complete(std::size_t stream, std::size_t ticket) noexcept {
        space_.complete(stream, ticket);
    }

    /// Returns at most `most` units of physical memory without live or pending bytes. The result is
    /// their number. Without host memory, some may remain. Moves the complete ranges of all streams
    /// to the pool's list if there is such a unit; otherwise changes nothing.
    ///
    /// Cost: O(lists log ranges) for each unit from the first to the last one that a free made
    /// complete touches since the last `trim`; for each unit if that had found `most` units.
    std::size_t trim(std::size_t most) noexcept {
        auto const        never  = [](std::size_t, std::size_t) { return false; };
        std::size_t const before = space_.units.size();
        most                     = std::min(most, before);
        if (most == 0) { return 0; }
        run const in   = std::exchange(searched_, true) ? space_.changed : everywhere;
        space_.changed = {};
        if (!any_complete(in)) { return 0; }
        merge(never);
        try {
            searched_ = gather(most, in, {}, never) < most;
            space_.units.prepare(spares_.size());
            unback();
        } catch (std::bad_alloc const&) {
            searched_ = false;
            if (blocks_ == 0 && space_.pending() == 0 && most >= before) {
                space_.units.clear();
                space_.flag(space_.list.at(pool, 0));
            }
        }
        return before - space_.units.size();
    }

    [[nodiscard]] std::size_t unit() const noexcept { return space_.unit; } ///< bytes of a unit
    /// Returns the bytes of physical memory.
    [[nodiscard]] std::size_t backed() const noexcept { return space_.units.size() * space_.unit; }
    [[nodiscard]] std::size_t live() const noexcept { return live_; } ///< bytes of live blocks
    /// Returns the bytes of the ranges that are pending, or an upper bound: a range that was merged
    /// from several frees is pending until the last of them is complete.
    [[nodiscard]] std::size_t pending() const noexcept {
        return std::min(space_.pending(), backed() - live_);
    }

private:
    using lists = sim_free_lists;
    using key   = lists::key;
    using range = lists::range;
    using run   = sim_units::run;

    static constexpr std::size_t endless = sim_free_space::endless;
    static constexpr std::size_t guards  = sim_free_space::guards;
    static constexpr std::size_t pool    = sim_free_space::pool;
    static constexpr run         everywhere{0, endless};

    /// Units that will lose their memory, within the range at `begin` of the pool's list.
    struct spare_run {
        std::size_t begin;
        run         units;
    };

    /// A part of a range of a list.
    struct part {
        std::size_t list, begin;
        range       of;
    };

    /// Takes the first bytes of a range for a block. The rest stays in the list.
    result take(result r, std::size_t list, std::size_t begin, std::size_t bytes) noexcept {
        range const rest = space_.drop(space_.list.at(list, begin));
        if (begin + bytes < rest.end) { space_.put(list, begin + bytes, rest); }
        last_        = {list, begin, rest};
        last_.of.end = begin + bytes;
        ++blocks_;
        live_ += bytes;
        r.found = true;
        r.begin = begin;
        return r;
    }
    template <class Follow>
    result take_pooled(result const& r, key const& k, std::size_t bytes, Follow const& follow) {
        std::size_t const begin = k.begin;
        follow_guards(begin, begin + bytes, follow);
        unguard(begin, begin + bytes);
        return take(r, pool, begin, bytes);
    }
    /// Calls `follow` for each guard, and allocates the host memory for `unguard`.
    template <class Follow>
    void follow_guards(std::size_t begin, std::size_t end, Follow const& follow) {
        std::size_t n = 0;
        space_.for_guards(begin, end, [&](std::size_t other, std::size_t ticket) {
            follow(other, ticket);
            ++n;
        });
        unguarded_.reserve(n);
    }
    /// Removes the guards, and stores them for `undo`.
    void unguard(std::size_t begin, std::size_t end) noexcept {
        space_.unguard(begin, end, [&](std::size_t first, range const& r) {
            unguarded_.push_back({sim_free_space::guards, first, r});
        });
    }

    template <class Usable>
    [[nodiscard]] bool all_usable(std::size_t begin, std::size_t end, Usable const& usable) {
        return space_.all_guards(begin, end, usable);
    }
    template <class Usable>
    [[nodiscard]] bool usable_entry(key const& k, Usable const& usable) {
        range const& r = space_.list.at(k.list, k.begin)->second;
        return !r.pending || usable(k.list, r.ticket);
    }
    /// Returns the best range of the pool's list, or null.
    template <class Usable>
    [[nodiscard]] key const* fit(lists::kind what, std::size_t bytes, Usable const& usable) {
        key const* k = space_.list.first(what, pool, bytes);
        while (k != nullptr && !all_usable(k->begin, k->begin + k->value, usable)) {
            k = space_.list.after(*k);
        }
        return k;
    }
    /// Returns the best range of a stream's list, or null. Searches by size and by ticket at the
    /// same time, because the usable ranges are those with the smallest tickets.
    template <class Usable>
    [[nodiscard]] key const* fit_of(std::size_t list, std::size_t bytes, Usable const& usable) {
        key const* best  = nullptr;
        key const* older = space_.list.first(lists::by_ticket, list, 0);
        for (key const* sized = space_.list.first(lists::by_size, list, bytes); sized != nullptr;
             sized            = space_.list.after(*sized)) {
            if (usable_entry(*sized, usable)) { return sized; }
            if (older == nullptr || !usable_entry(*older, usable)) { return best; }
            key const* const k =
                space_.list.find(sim_free_space::size_key(space_.list.at(list, older->begin)));
            if (k->value >= bytes && (best == nullptr || *k < *best)) { best = k; }
            older = space_.list.after(*older);
        }
        return best;
    }

    /// Moves the ranges of all streams that are complete or usable to the pool's list, of each
    /// stream the last freed one first. Returns their number.
    template <class Usable>
    std::size_t merge(Usable const& usable) {
        std::size_t moved = 0;
        lists&      all   = space_.list;
        for (std::size_t i = all.next_list(0); i < guards; i = all.next_list(i + 1)) {
            key const* k = all.before({lists::by_ticket, i, endless, 0, 0});
            if (!usable_entry(*k, usable)) {
                k = nullptr;
                for (key const* next                   = all.first(lists::by_ticket, i, 0);
                     usable_entry(*next, usable); next = all.after(*next)) {
                    k = next;
                }
            }
            for (; k != nullptr; ++moved) {
                std::size_t const begin = k->begin;
                k                       = all.before(*k);
                range const r           = space_.drop(all.at(i, begin));
                space_.join(pool, begin, {.end = r.end});
                if (r.pending) { space_.guard(begin, r); }
            }
        }
        return moved;
    }

    /// Places a block in the pool's list, and maps memory. Changes nothing if there are too few
    /// units.
    template <class Usable, class Follow>
    result map(result r, std::size_t bytes, std::size_t room, Usable const& usable,
               Follow const& follow) {
        lists&      all = space_.list;
        std::size_t in = all.before(pool, endless)->first.second, begin = in;
        if (key const* const k = fit(lists::by_size, bytes, usable)) {
            in = begin = k->begin;
        } else if (auto const last = all.before(guards, endless); last != all.none()) {
            // Other streams still use parts of the endless range. The block is placed behind them.
            begin = std::max(in, last->second.end);
        }
        if (bytes > endless - begin) { return r; }
        run const         block = space_.touched(begin, begin + bytes);
        std::size_t const need  = block.size() - space_.units.count(block);
        std::size_t const moved = gather(need, everywhere, block, usable);
        if (need - moved > room) { return r; }
        follow_guards(begin, begin + bytes, follow);
        for (spare_run const& s : spares_) {
            space_.for_guards(s.units.begin * unit(), s.units.end * unit(), follow);
        }
        space_.units.prepare(spares_.size() + 1);
        unback();
        space_.units.add(block);
        if (begin != in) {
            space_.drop(all.at(pool, in));
            space_.put(pool, in, {.end = begin});
            space_.put(pool, begin, {.end = endless});
        }
        unguard(begin, begin + bytes);
        r.made  = need - moved;
        r.moved = moved;
        return take(r, pool, begin, bytes);
    }

    /// Returns true if a backed unit of `in` has neither live nor pending bytes.
    [[nodiscard]] bool any_complete(run in) noexcept {
        if (backed() - live_ < unit()) { return false; }
        for (run r = space_.units.last_in(in); r.size() != 0;
             r     = space_.units.last_in({in.begin, r.begin})) {
            for (std::size_t u = r.end; u > r.begin; --u) {
                if (space_.is_complete(u - 1)) { return true; }
            }
        }
        return false;
    }
    /// Stores in `spares_` at most `most` backed units of `in` that are wholly free, and that
    /// `block` does not touch: those at the highest addresses. Returns their number.
    template <class Usable>
    std::size_t gather(std::size_t most, run in, run block, Usable const& usable) {
        std::size_t found = 0;
        auto const  add   = [&](std::size_t begin, run units) {
            if (!all_usable(units.begin * unit(), units.end * unit(), usable)) { return false; }
            spares_.push_back({begin, units});
            found += units.size();
            return true;
        };
        auto const add_all = [&](std::size_t begin, run in_range) {
            for (run last = space_.units.last_in(in_range); last.size() != 0 && found < most;
                 last     = space_.units.last_in({in_range.begin, last.begin})) {
                run top{last.end - std::min(last.size(), most - found), last.end};
                if (add(begin, top)) { continue; }
                for (; last.begin < last.end && found < most; --last.end) {
                    add(begin, {last.end - 1, last.end});
                }
            }
        };
        spares_.clear();
        std::size_t const above = in.end == endless ? endless : in.end * unit();
        key const*        k     = space_.list.before({lists::spare, pool, above, 0, 0});
        for (; k != nullptr && found < most; k = space_.list.before(*k)) {
            run left = space_.within(k->begin, space_.list.at(pool, k->begin)->second.end);
            if (left.end <= in.begin) { break; }
            left = {std::max(left.begin, in.begin), std::min(left.end, in.end)};
            add_all(k->begin, {std::max(left.begin, block.end), left.end});
            add_all(k->begin, {left.begin, std::min(left.end, block.begin)});
        }
        return found;
    }
    /// Takes the memory of the units in `spares_`.
    void unback() noexcept {
        for (spare_run const& s : spares_) { space_.units.remove(s.units); }
        for (spare_run const& s : spares_) { space_.flag(space_.list.at(pool, s.begin)); }
    }

    sim_free_space         space_;
    std::vector<spare_run> spares_;
    part                   last_ = {}; ///< what the last allocation took
    std::vector<part>      unguarded_; ///< the guards that it removed
    /// True if only units of `sim_free_space::changed` may be wholly free and complete.
    bool        searched_ = false;
    std::size_t blocks_   = 0; ///< number of live blocks
    std::size_t live_     = 0;
};

} // namespace detail
} // namespace vram
