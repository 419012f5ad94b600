// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_word` is a 32-bit word in memory that streams write and wait for.

#include <vram/sim/machine/vector_clock.hpp>

#include <algorithm> // all_of, any_of, count_if, find_if, for_each
#include <cstddef>
#include <cstdint>
#include <list>          // list
#include <optional>      // optional
#include <unordered_map> // unordered_map
#include <vector>        // vector

namespace vram {
namespace detail {

struct sim_stream_state;

/// What an operation does with a word in memory: it writes `value`, or waits for it.
struct sim_word_use {
    std::uintptr_t where = 0;
    std::uint32_t  value = 0;
    bool           waits = false;
    /// For a wait: true if only exactly `value` ends it, false if greater values (in cyclic order)
    /// also do.
    bool equal = false;

    /// Returns true if the value `seen` ends this wait. The order of values is cyclic, as in CUDA.
    [[nodiscard]] bool ends_at(std::uint32_t seen) const noexcept {
        return equal ? seen == value : static_cast<std::int32_t>(seen - value) >= 0;
    }
};

/// A 32-bit word in memory that streams write or wait for. Stores recent writes and waits, by which
/// the race check knows what happens before a wait ends.
struct sim_word {
    struct write {
        /// Number of the operation that writes; 0 for a write by the host.
        std::uint64_t number = 0;
        std::uint32_t value  = 0;
        /// Index of the writing stream or thread in vector clocks. `count` is its step that writes.
        std::size_t   slot  = 0;
        std::uint64_t count = 0;
        vector_clock  vclock;

        [[nodiscard]] bool is_in(vector_clock const& clock) const noexcept {
            return clock.includes(slot, count);
        }
    };
    /// A wait of a stream for a value. It is open until a write that ends it is queued.
    struct wait {
        sim_word_use use;
        /// Index and counter in vector clocks: those of the wait itself
        /// (`sim_stream_state::wait_slot`) if it was ever open, otherwise those of the waiting
        /// operation.
        std::size_t       slot;
        std::uint64_t     count;
        sim_stream_state* stream = nullptr;
        std::uint64_t     id     = 0; ///< id of the waiting stream; 0 if `open` was always false
        /// Once the wait has ended: a write that may have ended it, as the writer's index in vector
        /// clocks and its step (`by_count`).
        std::size_t   by_slot  = 0;
        std::uint64_t by_count = 0;
        bool          open     = true;

        void end(write const& w) noexcept {
            by_slot  = w.slot;
            by_count = w.count;
            open     = false;
        }
        /// Returns true if the write `w` may also have ended this ended wait: its value fits, and
        /// it happens neither after the wait nor after the write that ended it.
        [[nodiscard]] bool may_end_at(write const& w) const noexcept {
            return use.ends_at(w.value) && !w.vclock.includes(slot, count) &&
                   !w.vclock.includes(by_slot, by_count);
        }
    };

    std::uint32_t    value = 0; ///< value of the last executed write; the word may differ by now
    std::list<write> done;      ///< the last executed writes, at most `most`
    std::list<write> queued;
    /// Waits of streams for a value of this word, kept for the race check: the open ones, and the
    /// last `most` that ended.
    std::vector<wait> waits;
    /// Notification counters of the `sim_gate`s at which threads wait for this word. A write by a
    /// stream increments each and wakes the threads.
    std::vector<std::uint64_t*> gates;

    /// Returns true if the present value `seen` is that of the last executed write.
    [[nodiscard]] bool is_written(std::uint32_t seen) const noexcept {
        return !done.empty() && value == seen;
    }

    /// What is known about the end of a wait: the work before it (`clock`), and a write that may
    /// cause it (`by`). `by` is null if the program stored the value itself.
    struct ending {
        vector_clock clock;
        write const* by = nullptr;
    };

    /// Returns the work before the end of the wait `use` of a stream with the vector clock `clock`,
    /// or null if nothing ends it yet. `seen` is the word's present value; `plain` means that host
    /// code can store to the word directly.
    [[nodiscard]] std::optional<ending> before(sim_word_use const& use, std::uint32_t seen,
                                               bool plain, vector_clock const& clock) const {
        // For each writer (stream or thread): its last write that `clock` includes (`known`), and
        // its first write that may end the wait (`found`).
        std::vector<write const*> known, found;
        bool const                written = is_written(seen);
        auto const                each    = [&](auto const& visit) {
            if (written) { std::for_each(done.begin(), done.end(), visit); }
            std::for_each(queued.begin(), queued.end(), visit);
        };
        auto const same = [](std::vector<write const*>& all, write const& w) {
            return std::find_if(all.begin(), all.end(),
                                [&](write const* one) { return one->slot == w.slot; });
        };
        each([&](write const& w) {
            if (!w.is_in(clock)) { return; }
            auto const at = same(known, w);
            at == known.end() ? known.push_back(&w) : static_cast<void>(*at = &w);
        });
        each([&](write const& w) {
            bool const gone = std::any_of(known.begin(), known.end(), [&](write const* later) {
                return later != &w && w.is_in(later->vclock);
            });
            if (!gone && use.ends_at(w.value) && same(found, w) == found.end()) {
                found.push_back(&w);
            }
        });
        bool const stored = !written && known.empty() && use.ends_at(seen);
        if (stored && (plain || found.empty())) { return ending{}; }
        if (found.empty()) { return {}; }
        return ending{common(found), found.front()};
    }
    /// Returns the work that precedes every recorded write of `seen`, the value that a host thread
    /// with the vector clock `clock` has read. Null if `clock` includes the last write, or that
    /// write stored another value.
    [[nodiscard]] std::optional<ending> before_read(std::uint32_t       seen,
                                                    vector_clock const& clock) const {
        if (!is_written(seen) || done.back().is_in(clock)) { return {}; }
        return before({.value = seen, .equal = true}, seen, true, clock);
    }
    /// Removes the oldest waits that have ended, until at most `most` of them are left.
    void forget_waits() noexcept {
        auto const ended = [](wait const& w) { return !w.open; };
        auto count = static_cast<std::size_t>(std::count_if(waits.begin(), waits.end(), ended));
        for (; count > most; --count) {
            waits.erase(std::find_if(waits.begin(), waits.end(), ended));
        }
    }
    /// Moves the write by the operation `number` from `queued` to `done`. `seen` is the value of
    /// the word before the write.
    void executed(std::uint64_t number, std::uint32_t seen) {
        auto const found = std::find_if(queued.begin(), queued.end(),
                                        [&](write const& w) { return w.number == number; });
        if (found == queued.end()) { return; }
        // The program has changed the word: no wait may end at an earlier write any more.
        if (seen != value) { done.clear(); }
        done.splice(done.end(), queued, found);
        if (done.size() > most) { done.pop_front(); }
    }

    /// Largest number of executed writes, and of ended waits, that are stored.
    static constexpr std::size_t most = 16;

private:
    /// Returns the vector clock of the work that happens before every one of `writes`.
    [[nodiscard]] static vector_clock common(std::vector<write const*> const& writes) {
        for (write const* const first : writes) {
            bool const in_all = std::all_of(writes.begin(), writes.end(), [&](write const* w) {
                return w == first || first->is_in(w->vclock);
            });
            if (in_all) { return first->vclock; }
        }
        vector_clock all = writes.front()->vclock;
        for (write const* const w : writes) { all = all.common(w->vclock); }
        return all;
    }
};

/// The words in memory that streams write or wait for, by their addresses.
using sim_words = std::unordered_map<std::uintptr_t, sim_word>;

} // namespace detail
} // namespace vram
