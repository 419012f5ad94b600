// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_late_order` is the order that streams get from work that is queued after their wait.

#include <vram/sim/machine/vector_clock.hpp>
#include <vram/sim/sim_report.hpp> // sim_event_of

#include <algorithm> // any_of, max, min
#include <cstddef>
#include <cstdint>
#include <deque> // deque
#include <map>   // map
#include <set>   // set
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// The waits of streams for work that may be queued later: for a value that another stream writes,
/// or for the other ranks of a collective. A wait is *open* until that work is queued, and
/// *resolved* afterwards. If an open wait may order two accesses in conflict, the conflict is
/// stored until the wait is resolved.
///
/// Vector clocks identify each wait by an index and a number.
///
/// Threads   The caller holds the machine's lock.
class sim_late_order {
public:
    /// Two accesses that conflict unless work that is not queued yet orders them.
    struct conflict {
        sim_event_of   second;
        sim_event_of   first;
        vector_clock   clock; ///< the vector clock of `second`: what happens before it
        std::uintptr_t begin = 0;
        std::uintptr_t end   = 0;
        sim_block_of   block; ///< the block that contains the accessed memory
    };
    /// The answer to the question if waits of streams order two operations. `open`: this depends on
    /// work that is not queued yet. `lost`: this is unknown because `forget` removed a wait.
    enum class answer : unsigned char { unordered, ordered, open, lost };

    /// Adds a wait of a stream for work that is not queued yet. The index `slot` and the number
    /// `count` identify the wait in vector clocks.
    void begin(std::size_t slot, std::uint64_t count) {
        if (waits_.size() - open_ > most) { forget(); }
        waits_.push_back({slot, count, {}, {}, true});
        ++open_;
    }

    /// Records for each open wait in the vector clock `clock` that the operation `step` follows it.
    /// Open waits are for work that is not queued yet.
    void note(sim_event_of const& step, vector_clock const& clock) {
        if (open_ == 0) { return; }
        for (wait& w : waits_) {
            if (w.open && clock.includes(w.slot, w.count)) {
                w.followers.try_emplace(step.slot, step.count);
            }
        }
    }

    /// Determines if waits of streams order `first` before `second`. If both are accesses, the
    /// opposite order is also sufficient. `clock` is the vector clock of `second`.
    [[nodiscard]] answer ask(sim_event_of const& first, sim_event_of const& second,
                             vector_clock const& clock) const {
        if (waits_.empty()) { return answer::unordered; }
        bool         open = false;
        vector_clock all  = clock;
        bool const   gone = close(all, open);
        if (all.includes(first.slot, first.count)) { return answer::ordered; }
        bool const accesses = is_access(first) && is_access(second);
        for (wait const& w : waits_) {
            if (!accesses || !w.followed_by(first)) { continue; }
            open = open || w.open;
            if (!w.open && w.then.includes(second.slot, second.count)) { return answer::ordered; }
        }
        return open ? answer::open : gone ? answer::lost : answer::unordered;
    }
    /// Returns true if a stream waits for work that is not queued yet.
    [[nodiscard]] bool is_open() const noexcept { return open_ != 0; }
    /// Returns true if a stream has waited for work that was not queued yet.
    [[nodiscard]] bool used() const noexcept { return !waits_.empty(); }
    /// Returns true if one of the operations `a` and `b`, but not the other, follows a wait for
    /// work that is not queued yet.
    [[nodiscard]] bool between(sim_event_of const& a, sim_event_of const& b) const {
        if (open_ == 0) { return false; }
        return std::any_of(waits_.begin(), waits_.end(), [&](wait const& w) {
            return w.open && w.followed_by(a) != w.followed_by(b);
        });
    }
    void keep(conflict c) { kept_.push_back(std::move(c)); }

    /// Resolves the wait with the index `slot` and the number `count`. `then` is the vector clock
    /// of the awaited work, which is queued now. Returns the stored conflicts that no wait orders.
    [[nodiscard]] std::vector<conflict> resolve(std::size_t slot, std::uint64_t count,
                                                vector_clock then) {
        for (wait& w : waits_) {
            if (!w.open || w.slot != slot || w.count != count) { continue; }
            w.open = false;
            --open_;
            bool open = false;
            close(then, open);
            if (open) { pass_on(w, then); }
            w.then = std::move(then);
            break;
        }
        std::vector<conflict> unordered;
        std::erase_if(kept_, [&](conflict& c) {
            answer const now = ask(c.first, c.second, c.clock);
            if (now == answer::unordered) { unordered.push_back(std::move(c)); }
            if (now == answer::lost) { ++lost; }
            return now != answer::open;
        });
        return unordered;
    }

    /// Number of stored conflicts that remain undecided because `forget` has removed a wait.
    /// `sim_checker::end_wait` reads the number and sets it to 0.
    std::uint64_t lost = 0;

private:
    struct wait {
        std::size_t   slot;
        std::uint64_t count;
        vector_clock  then; ///< vector clock of the work that happens before the wait's end
        /// For each stream or thread, its first step that follows this wait. The key is the index
        /// of the stream or thread in vector clocks.
        std::map<std::size_t, std::uint64_t> followers;
        bool                                 open;

        [[nodiscard]] bool followed_by(sim_event_of const& e) const {
            auto const found = followers.find(e.slot);
            return found != followers.end() && found->second <= e.count;
        }
    };

    /// Returns true for a read, a write or an atomic access; false for an allocation or a free.
    [[nodiscard]] static bool is_access(sim_event_of const& e) noexcept {
        return e.what != sim_event_of::kind::allocation && e.what != sim_event_of::kind::release;
    }

    /// If more than this many resolved waits (for work that is queued by now) are stored, the next
    /// `begin` removes the older half.
    static constexpr std::size_t most = 256;

    /// A summary of the waits of one stream that `forget` has removed to save memory: their first
    /// and last number in vector clocks, and what happens before them.
    struct forgotten {
        std::uint64_t first; ///< smallest number of a wait that `forget` removed
        std::uint64_t last;
        /// Vector clock of all work that happens before the end of a wait that `forget` removed.
        vector_clock then;
    };

    /// Adds the awaited work of each wait in `clock` to `clock`. Repeats this for the waits in the
    /// added work. Sets `open` to true if one of these waits is open. Returns true if some work may
    /// be missing, because `forget` has removed a wait.
    bool close(vector_clock& clock, bool& open) const {
        std::vector<bool>     done(waits_.size());
        std::set<std::size_t> joined;
        for (bool more = true; more;) {
            more = false;
            for (auto const& [slot, f] : forgotten_) {
                if (!clock.includes(slot, f.last) || !joined.insert(slot).second) { continue; }
                more = true;
                clock.join(f.then);
            }
            for (std::size_t i = 0; i < waits_.size(); ++i) {
                wait const& w = waits_[i];
                if (done[i] || !clock.includes(w.slot, w.count)) { continue; }
                done[i] = more = true;
                open           = open || w.open;
                clock.join(w.then);
            }
        }
        return std::any_of(forgotten_.begin(), forgotten_.end(), [&](auto const& each) {
            auto const& [slot, f] = each;
            return clock.includes(slot, f.first) && !clock.includes(slot, f.last);
        });
    }
    /// Called when the wait `resolved` was resolved. `then` is the vector clock of its awaited
    /// work. Records that operations after `resolved` also follow each open wait in `then`.
    void pass_on(wait const& resolved, vector_clock const& then) {
        for (wait& w : waits_) {
            if (!w.open || !then.includes(w.slot, w.count)) { continue; }
            for (auto const& [slot, count] : resolved.followers) {
                std::uint64_t& first = w.followers.try_emplace(slot, count).first->second;
                if (count < first) { first = count; }
            }
        }
    }
    /// Removes the older half of the resolved waits to save memory. Adds each removed wait to the
    /// summary of the stream that waited.
    void forget() {
        std::size_t const half = (waits_.size() - open_) / 2;
        std::size_t       left = half;
        for (wait const& w : waits_) {
            if (w.open || left == 0) { continue; }
            --left;
            auto const it = forgotten_.try_emplace(w.slot, forgotten{w.count, w.count, {}}).first;
            it->second.first = std::min(it->second.first, w.count);
            it->second.last  = std::max(it->second.last, w.count);
            it->second.then.join(w.then);
        }
        left = half;
        std::erase_if(waits_, [&](wait const& w) { return !w.open && left != 0 && left-- != 0; });
    }

    /// For each stream, a summary of its removed waits. The key is the index of the stream's waits
    /// in vector clocks.
    std::map<std::size_t, forgotten> forgotten_;
    std::deque<wait>                 waits_;
    std::vector<conflict>            kept_;
    std::size_t                      open_ = 0;
};

} // namespace detail
} // namespace vram
