// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_room` finds memory for an allocation in a stream-ordered pool, or lets the pool grow.

#include <vram/base/align.hpp> // saturating_add
#include <vram/sim/machine/sim_call.hpp>
#include <vram/sim/machine/sim_pool.hpp>

#include <algorithm> // max, min, none_of
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// Takes memory of stream-ordered pools for allocations, and returns it to the device, within one
/// call of the simulated device.
///
/// Failure   Members throw `std::bad_alloc`, and take no memory then.
/// Threads   The calling thread holds the machine's lock.
class sim_room {
public:
    /// The result of `take`. `place` is the place of the block in `sim_pool::places`, if any.
    struct taken {
        bool        found = false;
        std::size_t place = sim_block::no_place;
    };

    explicit sim_room(sim_call& call) noexcept : call_{call}, m_{call.machine} {}

    /// Reserves `bytes` bytes of the device for a new pool, rounded up to whole units. Returns
    /// false if that is too much.
    bool reserve(sim_pool& pool, std::size_t bytes) {
        std::size_t const unit  = pool.step();
        std::size_t const units = bytes / unit + (bytes % unit != 0 ? 1 : 0);
        if (units > allowed(pool) / unit) { return false; }
        if (pool.places != nullptr) { pool.places->back(units); }
        call_.pay(m_.options.costs.grow_async, units * unit);
        grow(pool, units * unit);
        return true;
    }

    /// Finds `bytes` unused bytes in the pool for an allocation on `s`. If necessary, makes `s`
    /// wait for frees that are queued on streams, or lets the pool grow.
    taken take(sim_pool& pool, sim_stream_state& s, std::size_t bytes) {
        if (pool.places != nullptr) { return find_place(pool, s, bytes); }
        return {make_room(pool, s, bytes)};
    }
    /// Undoes the last `take`, whose memory was not used, except that the pool stays larger, and
    /// the stream waits for the frees of that memory.
    static void give_back(sim_pool& pool, taken const& t) noexcept {
        if (t.place != sim_block::no_place) { pool.places->undo(); }
    }

    /// Returns true if no operation on `s` is unfinished, except frees that were queued when this
    /// was true. Other streams may get the memory of a free at once then.
    [[nodiscard]] static bool idle(sim_stream_state const& s) noexcept {
        if (s.tail.pending() && s.tail.number != s.idle_free) { return false; }
        return std::none_of(s.waits.begin(), s.waits.end(),
                            [](sim_moment const& m) { return m.pending(); });
    }

    /// Returns how many more bytes the pool may reserve.
    [[nodiscard]] std::size_t allowed(sim_pool const& pool) const {
        std::size_t const left = pool.maximum - std::min(pool.maximum, pool.reserved);
        return std::min(m_.at(pool.device).free(), left);
    }
    /// Adds `bytes` bytes of the device to the reserved bytes of the pool.
    void grow(sim_pool& pool, std::size_t bytes) {
        pool.reserved += bytes;
        pool.peak_reserved = std::max(pool.peak_reserved, pool.reserved);
        m_.at(pool.device).used += bytes;
        note_used(pool.device);
    }
    /// Raises the peak in the figures of a device to its used bytes. Called after an allocation.
    void note_used(int device) {
        sim_figures& f = m_.schedule.figures(device);
        f.used         = m_.at(device).used;
        f.peak_used    = std::max(f.peak_used, f.used);
    }

    /// Returns unused memory of `pool` to the device until `keep` bytes are reserved, or less than
    /// one unit more. Units that are not wholly free, and pending memory, stay. Takes no simulated
    /// time, though it may merge free ranges. Returns the number of bytes that the device got.
    static std::size_t trim(sim_machine& m, sim_pool& pool, std::size_t keep) noexcept {
        std::size_t const excess = pool.reserved - std::min(pool.reserved, keep);
        std::size_t const bytes  = pool.reserved - pool.backed();
        std::size_t const needed = pool.live_elsewhere() + pool.pending_bytes;
        std::size_t       gone   = std::min(excess, bytes - std::min(bytes, needed));
        if (std::size_t const units = (excess - gone) / pool.step();
            pool.places != nullptr && units != 0) {
            gone += pool.places->trim(units) * pool.step();
        }
        pool.reserved -= gone;
        m.at(pool.device).used -= gone;
        return gone;
    }
    /// Returns unused memory of `pool` to the device if more than its threshold is reserved.
    static void shrink(sim_machine& m, sim_pool& pool) noexcept {
        if (pool.reserved > pool.threshold) { trim(m, pool, pool.threshold); }
    }

private:
    /// Returns true if `s` is ordered after the free `w`.
    [[nodiscard]] static bool ordered(sim_stream_state const& s, sim_pool::waiting const& w) {
        return w.slot == s.slot || s.vclock.includes_fully(w.slot, w.count);
    }

    /// `take` for a pool that counts bytes.
    bool make_room(sim_pool& pool, sim_stream_state& s, std::size_t bytes) {
        std::size_t const more = allowed(pool);
        if (bytes > saturating_add(pool.reserved - pool.live, more)) { return false; }
        std::size_t room = pool.reserved - pool.live - pool.pending_bytes;
        while (room < bytes) {
            sim_pool::waiting* const w =
                pool.first([&](sim_pool::waiting const& free) { return ordered(s, free); });
            if (w == nullptr) { break; }
            room += w->bytes;
            claim(pool, s, *w);
        }
        if (room >= bytes) { return true; }
        while (bytes - room > more && !pool.pending.empty()) {
            sim_pool::waiting const& oldest = pool.pending.begin()->second;
            room += oldest.bytes;
            s.vclock.join_by_resource(oldest.vclock);
            claim(pool, s, oldest);
            if (room >= bytes) { return true; }
        }
        if (bytes - room > more) { return false; }
        call_.pay(m_.options.costs.grow_async, bytes - room);
        grow(pool, bytes - room);
        return true;
    }
    static void claim(sim_pool& pool, sim_stream_state& s, sim_pool::waiting const& w) {
        follow(s, w);
        pool.remove(w.ticket);
    }
    static void follow(sim_stream_state& s, sim_pool::waiting const& w) {
        if (w.place.pending()) { s.waits.push_back(w.place); }
    }

    /// `take` for a pool with places. If the device has no memory for more units, `s` waits for one
    /// queued free after the other, the oldest first.
    taken find_place(sim_pool& pool, sim_stream_state& s, std::size_t bytes) {
        sim_places&       places = *pool.places;
        std::size_t const unused = places.backed() - places.live();
        if (bytes > saturating_add(unused, allowed(pool))) { return {}; }
        auto const usable = [&](std::size_t, std::uint64_t ticket) {
            auto const free = pool.pending.find(ticket);
            return free != pool.pending.end() && ordered(s, free->second);
        };
        auto const wait = [&](std::size_t, std::uint64_t ticket) {
            follow(s, pool.pending.find(ticket)->second);
        };
        for (auto next = pool.pending.begin();;) {
            sim_places::result const r =
                places.allocate(bytes, s.slot, allowed(pool) / places.unit(), usable, wait);
            call_.pay(m_.options.costs.merge_async * static_cast<std::int64_t>(r.merged));
            if (r.found) {
                std::size_t const mapped = (r.made + r.moved) * places.unit();
                if (mapped != 0) { call_.pay(m_.options.costs.grow_async, mapped); }
                grow(pool, r.made * places.unit());
                return {true, r.begin};
            }
            while (next != pool.pending.end() && ordered(s, next->second)) { ++next; }
            if (next == pool.pending.end()) { return {}; }
            follow(s, next->second);
            s.vclock.join_by_resource(next->second.vclock);
        }
    }

    sim_call&    call_;
    sim_machine& m_;
};

} // namespace detail
} // namespace vram
