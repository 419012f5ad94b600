// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_word` is a 32-bit word in memory that streams write and wait for.

#include <vram/sim/machine/vector_clock.hpp>

#include <algorithm>     // find_if
#include <cstddef>       // size_t
#include <cstdint>       // uint32_t, int32_t, uint64_t, uintptr_t
#include <deque>         // deque
#include <unordered_map> // unordered_map
#include <utility>       // move
#include <vector>        // vector

namespace vram {
namespace detail {

struct sim_stream_state;

/// What an operation does with a word in memory: it writes `value`, or waits for it.
struct sim_word_use {
    std::uintptr_t where = 0;
    std::uint32_t  value = 0;
    bool           waits = false;
    bool           equal = false; ///< true: a wait ends at exactly `value`, not at `value` or more

    /// Returns true if the value `seen` ends this wait. The order of values is cyclic, as in CUDA.
    [[nodiscard]] bool ends_at(std::uint32_t seen) const noexcept {
        return equal ? seen == value : static_cast<std::int32_t>(seen - value) >= 0;
    }
};

/// A word in memory that streams write or wait for, with the writes by which waits are ordered.
struct sim_word {
    struct write {
        /// Number of the operation that writes; 0 for a write by the host.
        std::uint64_t number = 0;
        std::uint32_t value  = 0;
        vector_clock  vclock;
    };
    /// A wait of a stream for a value that no queued write has.
    struct open_wait {
        sim_word_use use;
        /// Index and number of the wait, in vector clocks (records of the happens-before order).
        std::size_t       slot;
        std::uint64_t     count;
        sim_stream_state* stream;
        std::uint64_t     id; ///< id of the stream that waits
    };

    write                  last; ///< the last write that was executed
    std::deque<write>      queued;
    std::vector<open_wait> open;
    /// Notification counters of the gates (`sim_gate`) at which threads wait for the word.
    std::vector<std::uint64_t*> gates;
    bool                        written = false;

    /// Returns a write of a value that ends the wait `use`, or null: the last executed write if the
    /// word still has its value (`seen` is the present value), otherwise the first suitable queued
    /// write.
    [[nodiscard]] write const* find(sim_word_use const& use, std::uint32_t seen) const {
        if (written && last.value == seen && use.ends_at(seen)) { return &last; }
        auto const found = std::find_if(queued.begin(), queued.end(),
                                        [&](write const& w) { return use.ends_at(w.value); });
        return found == queued.end() ? nullptr : &*found;
    }
    /// Records that the queued write with the operation number `number` was executed.
    void executed(std::uint64_t number) {
        auto const found = std::find_if(queued.begin(), queued.end(),
                                        [&](write const& w) { return w.number == number; });
        if (found == queued.end()) { return; }
        last    = std::move(*found);
        written = true;
        queued.erase(found);
    }
};

/// The words in memory that streams write or wait for, by their addresses.
using sim_words = std::unordered_map<std::uintptr_t, sim_word>;

} // namespace detail
} // namespace vram
