// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_free_space` is the address space of a stream-ordered pool: free ranges and their memory.

#include <vram/sim/machine/sim_free_lists.hpp>
#include <vram/sim/machine/sim_units.hpp>

#include <algorithm> // max, min
#include <cstddef>

namespace vram {
namespace detail {

/// The address space of a stream-ordered pool: its free ranges, in one list for each stream and one
/// for the pool, and the units that have physical memory (the backed ones). A range of a stream's
/// list is pending until the stream has reached its last free. A guard is a pending part of a range
/// of the pool's list.
///
/// Each unit that a block, or a range of a stream's list, touches is backed.
///
/// Failure   Only `stock` throws, `std::bad_alloc`; the other members need it to be called before
///           each new block.
/// Cost      O(log ranges). Members that visit, add or remove guards cost as much for each guard.
class sim_free_space {
public:
    using lists    = sim_free_lists;
    using range    = lists::range;
    using iterator = lists::ranges::iterator;
    using run      = sim_units::run;

    /// End of the address space.
    static constexpr std::size_t endless = std::size_t{1} << 62;
    /// Numbers of lists. Those of streams are smaller.
    static constexpr std::size_t guards = std::size_t{1} << 62;
    static constexpr std::size_t pool   = guards + 1;

    explicit sim_free_space(std::size_t bytes_of_unit) : unit{bytes_of_unit} {
        stock(0);
        put(pool, 0, {.end = endless});
    }

    /// Allocates the host memory that all frees and merges of `blocks` live blocks, and the
    /// allocation of one more, may need.
    void stock(std::size_t blocks) {
        list.stock(2 * (blocks + 1) + in_streams_ + 1,
                   4 * (blocks + 1) + 2 * (in_streams_ + in_pool_) + 3);
    }

    /// Adds a range to the list with this number.
    void put(std::size_t to, std::size_t begin, range r) noexcept {
        r.whole = r.spare = false;
        list.add(to, begin, r);
        auto const at = list.at(to, begin);
        if (r.pending) { pending_ += size(at); }
        if (to == guards) { return list.mark(ticket_key(at)); }
        list.mark(size_key(at));
        if (to == pool) {
            ++in_pool_;
            flag(at);
        } else {
            ++in_streams_;
            list.mark(ticket_key(at));
        }
    }
    /// Removes a range from its list, and returns it.
    range drop(iterator at) noexcept {
        range const r = at->second;
        if (r.pending) { pending_ -= size(at); }
        if (at->first.first != guards) { list.unmark(size_key(at)); }
        if (at->first.first == pool) {
            --in_pool_;
            set(at->second.whole, false, size_key(at, lists::whole));
            set(at->second.spare, false, spare_key(at));
        } else {
            if (at->first.first != guards) { --in_streams_; }
            list.unmark(ticket_key(at));
        }
        list.remove(at);
        return r;
    }
    /// Adds a range to a list, merged with its neighbours there.
    void join(std::size_t to, std::size_t begin, range r) noexcept {
        if (auto const next = list.at(to, r.end); next != list.none()) {
            r.end = next->second.end;
            drop(next);
        }
        auto const last = list.before(to, begin);
        if (last != list.none() && last->second.end == begin) {
            begin = last->first.second;
            drop(last);
        }
        put(to, begin, r);
    }
    /// Called after `units` has changed within a range of the pool's list. Finds out if the range
    /// is backed everywhere, and if it contains a backed unit.
    void flag(iterator at) noexcept {
        std::size_t const begin = at->first.second, end = at->second.end;
        set(at->second.whole, end != endless && units.contains(touched(begin, end)),
            size_key(at, lists::whole));
        set(at->second.spare, units.last_in(within(begin, end)).size() != 0, spare_key(at));
    }

    /// Calls `visit(stream, ticket)` for each guard between `begin` and `end`.
    template <class Visit>
    void for_guards(std::size_t begin, std::size_t end, Visit const& visit) {
        all_guards(begin, end, [&](std::size_t stream, std::size_t ticket) {
            visit(stream, ticket);
            return true;
        });
    }
    /// Returns true if `test(stream, ticket)` is true for each guard between `begin` and `end`.
    template <class Test>
    bool all_guards(std::size_t begin, std::size_t end, Test const& test) {
        auto at = list.before(guards, begin);
        if (at == list.none() || at->second.end <= begin) { at = list.from(guards, begin); }
        while (at != list.none() && at->first.second < end) {
            if (!test(at->second.stream, at->second.ticket)) { return false; }
            at = list.from(guards, at->second.end);
        }
        return true;
    }
    /// Adds a guard. Merges it with neighbours of the same stream; the newest ticket counts then.
    void guard(std::size_t begin, range r) noexcept {
        if (auto const next = list.at(guards, r.end); follows(next, r.stream)) {
            r.ticket = std::max(r.ticket, next->second.ticket);
            r.end    = drop(next).end;
        }
        auto const last = list.before(guards, begin);
        if (follows(last, r.stream) && last->second.end == begin) {
            r.ticket = std::max(r.ticket, last->second.ticket);
            begin    = last->first.second;
            drop(last);
        }
        put(guards, begin, r);
    }
    /// Removes the guards between `begin` and `end`. No guard contains bytes on both sides of
    /// `begin`. Calls `removed(first, r)` for each removed part, which begins at `first`.
    template <class Removed>
    void unguard(std::size_t begin, std::size_t end, Removed const& removed) noexcept {
        for (auto at = list.from(guards, begin); at != list.none() && at->first.second < end;
             at      = list.from(guards, begin)) {
            std::size_t const first = at->first.second;
            range             r     = drop(at);
            if (r.end > end) { put(guards, end, r); }
            r.end = std::min(r.end, end);
            removed(first, r);
        }
    }
    /// The range with this ticket of a stream's list, and the guards with this ticket, are no
    /// longer pending.
    void complete(std::size_t stream, std::size_t ticket) noexcept {
        auto const* k = list.first(lists::by_ticket, stream, ticket);
        if (k != nullptr && k->value == ticket) {
            auto const at = list.at(stream, k->begin);
            if (at->second.pending) { pending_ -= size(at); }
            at->second.pending = false;
            note(k->begin, at->second.end);
        }
        auto const guard = [&] { return list.first(lists::by_ticket, of_guards(stream), ticket); };
        for (k = guard(); k != nullptr && k->value == ticket; k = guard()) {
            std::size_t const begin = k->begin;
            note(begin, drop(list.at(guards, begin)).end);
        }
    }
    /// Adds the units that a range touches to `changed`.
    void note(std::size_t begin, std::size_t end) noexcept {
        run const r = touched(begin, end);
        changed     = changed.size() == 0
                          ? r
                          : run{std::min(changed.begin, r.begin), std::max(changed.end, r.end)};
    }

    /// Returns true if all bytes of a unit are in complete ranges of the lists, and in no guard.
    /// Cost: O(log ranges) for each list and each range in the unit.
    [[nodiscard]] bool is_complete(std::size_t number) noexcept {
        std::size_t const end = (number + 1) * unit;
        bool all = all_guards(number * unit, end, [](std::size_t, std::size_t) { return false; });
        for (std::size_t at = number * unit, from = at; all && at < end; from = at) {
            for (std::size_t i = list.next_list(0); i <= pool; i = list.next_list(i + 1)) {
                auto const last = i == guards ? list.none() : list.before(i, at + 1);
                if (last != list.none() && !last->second.pending) {
                    at = std::max(at, last->second.end);
                }
            }
            all = at != from;
        }
        return all;
    }

    /// Returns the units that the bytes from `begin` to `end` touch.
    [[nodiscard]] run touched(std::size_t begin, std::size_t end) const noexcept {
        return {begin / unit, (end + unit - 1) / unit};
    }
    /// Returns the units whose bytes are all between `begin` and `end`.
    [[nodiscard]] run within(std::size_t begin, std::size_t end) const noexcept {
        return {(begin + unit - 1) / unit, end / unit};
    }
    [[nodiscard]] static lists::key size_key(iterator    at,
                                             lists::kind what = lists::by_size) noexcept {
        return {what, at->first.first, size(at), at->second.age, at->first.second};
    }
    /// Returns the bytes of pending ranges and guards.
    [[nodiscard]] std::size_t pending() const noexcept { return pending_; }

    std::size_t const unit; ///< bytes of a unit
    sim_units         units;
    sim_free_lists    list;
    run               changed; ///< from the first to the last unit that ranges made complete touch

private:
    [[nodiscard]] static std::size_t size(iterator at) noexcept {
        return at->second.end - at->first.second;
    }
    /// Returns the list under which the keys of guards of this stream are stored.
    [[nodiscard]] static std::size_t of_guards(std::size_t stream) noexcept {
        return pool + 1 + stream;
    }
    [[nodiscard]] static lists::key ticket_key(iterator at) noexcept {
        auto const [in, begin] = at->first;
        return {lists::by_ticket, in == guards ? of_guards(at->second.stream) : in,
                at->second.ticket, 0, begin};
    }
    [[nodiscard]] static lists::key spare_key(iterator at) noexcept {
        return {lists::spare, pool, at->first.second, 0, at->first.second};
    }
    [[nodiscard]] bool follows(iterator at, std::size_t stream) noexcept {
        return at != list.none() && at->second.stream == stream;
    }
    void set(bool& is, bool wanted, lists::key const& k) noexcept {
        if (is == wanted) { return; }
        is = wanted;
        wanted ? list.mark(k) : list.unmark(k);
    }

    std::size_t in_streams_ = 0, in_pool_ = 0; ///< number of ranges in the lists
    std::size_t pending_ = 0;
};

} // namespace detail
} // namespace vram
