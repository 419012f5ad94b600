// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_actors` numbers the streams and threads of vector clocks.

#include <vram/sim/machine/vector_clock.hpp>

#include <algorithm> // min
#include <cstddef>
#include <cstdint>
#include <vector> // vector

namespace vram {
namespace detail {

/// Gives each stream and host thread its index in vector clocks (records of what happens before
/// what), and reuses the indices of ended ones.
///
/// Threads   The caller holds the machine's lock.
class sim_actors {
public:
    /// Returns an index in vector clocks for a new stream or host thread. `creator`: vector clock
    /// of the creating thread. The index of an ended stream or thread is reused only if `creator`
    /// includes all steps of the ended one.
    std::size_t take(vector_clock const& creator) {
        // Looks for an ended stream or thread with an index that can be reused. To save time,
        // examines at most 16 of them: the last eight in `over_`, and eight others in turn.
        for (std::size_t i = 0; i < std::min<std::size_t>(over_.size(), 16); ++i) {
            std::size_t const at = i < 8 ? over_.size() - 1 - i : next_++ % over_.size();
            ended const       it = over_[at];
            if (!creator.includes(it.slot, it.count)) { continue; }
            over_[at] = over_.back();
            over_.pop_back();
            return it.slot;
        }
        // Reserves the memory that `retire` needs for this index, because `retire` must not fail.
        if (over_.capacity() < count_ + 1) { over_.reserve(2 * (count_ + 1)); }
        return count_++;
    }
    /// Records that the stream or thread with the index `slot` has ended after `count` steps, so
    /// that `take` may return the index again.
    void retire(std::size_t slot, std::uint64_t count) noexcept { over_.push_back({slot, count}); }

private:
    struct ended {
        std::size_t   slot;
        std::uint64_t count;
    };

    std::vector<ended> over_;
    std::size_t        count_ = 0; ///< number of different indices that `take` has returned
    /// Counter that selects the element of `over_` (the ended streams and threads) that `take`
    /// examines next. The element has the index `next_ % over_.size()`.
    std::size_t next_ = 0;
};

} // namespace detail
} // namespace vram
