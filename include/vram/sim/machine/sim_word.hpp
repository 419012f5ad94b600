// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_word` is a 32-bit word in memory that streams write and wait for.

#include <vram/sim/machine/vector_clock.hpp>

#include <algorithm> // all_of, any_of, count_if, find_if, for_each
#include <atomic>    // atomic
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

    /// Returns true if the word's value `seen` ends this wait for `value`. Values are in cyclic
    /// order, as in CUDA.
    [[nodiscard]] bool ends_at(std::uint32_t seen) const noexcept {
        return equal ? seen == value : static_cast<std::int32_t>(seen - value) >= 0;
    }
};

/// A 32-bit word in memory that streams write, or wait for. Stores recent writes and waits. The
/// race check uses them to find the work that happens before the end of a wait.
struct sim_word {
    struct write {
        /// Number of the operation that writes; 0 for a write by the host.
        std::uint64_t number = 0;
        std::uint32_t value  = 0;
        /// Index in vector clocks of the stream or thread that writes. The write is the step with
        /// the number `count` of this stream or thread.
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
        /// Index and value of a counter in vector clocks that identify the wait. If no known write
        /// could end the wait when it was queued, they are `wait_slot` and `waits_so_far` of the
        /// stream. Otherwise, they identify the operation that waits.
        std::size_t       slot;
        std::uint64_t     count;
        sim_stream_state* stream = nullptr;
        std::uint64_t     id     = 0; ///< id of `stream`, or 0 if `stream` is null
        /// `by_slot` and `by_count`: index and counter in vector clocks of a write that may have
        /// ended the wait. Both are 0 while the wait is open.
        std::size_t   by_slot  = 0;
        std::uint64_t by_count = 0;
        bool          open     = true;

        void end(write const& w) noexcept {
            by_slot  = w.slot;
            by_count = w.count;
            open     = false;
        }
        /// Called after a known write has ended this wait. Returns true if the write `w` may have
        /// ended the wait instead. The value of `w` then satisfies the wait, and `w` happens
        /// neither after the wait nor after the known write.
        [[nodiscard]] bool may_end_at(write const& w) const noexcept {
            return use.ends_at(w.value) && !w.vclock.includes(slot, count) &&
                   !w.vclock.includes(by_slot, by_count);
        }
    };

    std::uint32_t    value = 0; ///< value of the last executed write; the word may differ by now
    std::list<write> done;      ///< the last executed writes, at most `most`
    std::list<write> queued;
    /// Waits of streams for a value of this word, which the race check needs. All open waits are
    /// stored, and the last `most` of the waits that have ended.
    std::vector<wait> waits;
    /// Counters of notifications, one for each `sim_gate` (condition variable) at which a thread
    /// waits for this word. Each write by a stream increments the counters and wakes the threads.
    std::vector<std::atomic<std::uint64_t>*> gates;

    /// Returns true if the present value `seen` is that of the last executed write.
    [[nodiscard]] bool is_written(std::uint32_t seen) const noexcept {
        return !done.empty() && value == seen;
    }

    /// The end of a wait. `clock` is the vector clock of work that is known to happen before the
    /// end. `by` is a write that may end the wait, or null if the program itself stored the value.
    struct ending {
        vector_clock clock;
        write const* by = nullptr;
    };

    /// Returns the end of the wait `use` of a stream. Returns null if nothing is known to end the
    /// wait yet. `seen` is the present value of the word. `plain` is true if host code can store to
    /// the word directly. `clock` is the vector clock of the stream.
    [[nodiscard]] std::optional<ending> before(sim_word_use const& use, std::uint32_t seen,
                                               bool plain, vector_clock const& clock) const {
        // `known`: for each stream or thread, its last write that happens before the wait. `found`:
        // for each stream or thread, its first write that may end the wait.
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
    /// Called after a host thread with the vector clock `clock` has read the value `seen`. Returns
    /// the work that happens before all of the writes that may have stored this value. Returns null
    /// if the read does not order the thread after any further work.
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
        // If the last write by a stream stored another value than `seen`, the program itself has
        // changed the word since. The earlier writes then cannot end a wait any more.
        if (seen != value) { done.clear(); }
        done.splice(done.end(), queued, found);
        if (done.size() > most) { done.pop_front(); }
    }

    /// Largest number of executed writes, and of ended waits, that are stored.
    static constexpr std::size_t most = 16;

private:
    /// Returns the vector clock of the work that happens before every write in `writes`.
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
