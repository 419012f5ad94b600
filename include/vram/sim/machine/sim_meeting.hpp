// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_meeting` is one collective: an operation of each rank, which all run at the same time.

#include <vram/sim/machine/vector_clock.hpp>
#include <vram/sim/sim_time.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>          // shared_ptr
#include <source_location> // source_location
#include <string>          // string, to_string
#include <string_view>     // string_view
#include <vector>          // vector

namespace vram {
namespace detail {

struct sim_operation;
struct sim_stream_state;

/// One collective operation of several ranks, which ends when all ranks have reached it and the
/// longest duration has passed.
struct sim_meeting {
    struct party {
        sim_stream_state* stream; ///< the stream on which the rank queued its operation
        std::uint64_t     id;     ///< id of the rank's stream
        /// Index of a counter in vector clocks. It counts the waits of the rank's stream for work
        /// that may be queued later. The wait for the other ranks has the number `count`.
        std::size_t   slot;
        std::uint64_t count;
    };

    std::size_t        ranks = 0;
    std::vector<party> queued; ///< the ranks that have queued their part of the collective
    /// Vector clock of all work before the parts that are queued so far. When every rank has queued
    /// its part, all this work happens before the end of each part.
    vector_clock                vclock;
    std::vector<sim_operation*> arrived;
    sim_time                    duration{};
    /// True after a deadlock was reported: later operations of the collective do not wait for other
    /// ranks.
    bool given_up = false;
};

/// The collectives of a communicator (a group of ranks). The n-th collectives of all ranks are
/// parts of one operation.
struct sim_meetings {
    struct issued {
        char const*          name;
        std::source_location where;
    };

    /// Adds `call`, the next collective that `rank` queues. Returns the object that stands for this
    /// collective on all ranks. If `add` throws `std::bad_alloc`, the collectives of `rank` are
    /// unchanged.
    std::shared_ptr<sim_meeting> add(std::size_t rank, issued const& call) {
        std::size_t const index = by_rank[rank].size();
        if (index == meetings.size()) {
            meetings.push_back(std::make_shared<sim_meeting>());
            meetings.back()->ranks = by_rank.size();
        }
        by_rank[rank].push_back(call);
        return meetings[index];
    }
    void remove_last(std::size_t rank) noexcept { by_rank[rank].pop_back(); }

    /// Compares the last collective of `rank` with the collective at the same position of each
    /// other rank. Returns a text about the first difference of their names, or an empty text.
    [[nodiscard]] std::string difference(std::size_t rank) const {
        std::size_t const      index = by_rank[rank].size() - 1;
        std::string_view const name  = by_rank[rank][index].name;
        for (std::size_t other = 0; other < by_rank.size(); ++other) {
            auto const& theirs = by_rank[other];
            if (theirs.size() <= index || theirs[index].name == name) { continue; }
            return order_of(other) + "; " + order_of(rank) +
                   "; the ranks must queue the same collectives in the same order";
        }
        return {};
    }

    /// Returns a text with the names and source lines of the collectives that `rank` queued, in
    /// order, at most the last eight.
    [[nodiscard]] std::string order_of(std::size_t rank) const {
        std::vector<issued> const& all   = by_rank[rank];
        std::size_t const          first = all.size() > 8 ? all.size() - 8 : 0;
        std::string                text  = "rank " + std::to_string(rank) + " queued ";
        for (std::size_t i = first; i < all.size(); ++i) {
            text += (i == first ? "`" : ", `") + std::string{all[i].name} + "` (" +
                    all[i].where.file_name() + ":" + std::to_string(all[i].where.line()) + ")";
        }
        return text;
    }

    std::vector<std::vector<issued>>          by_rank;
    std::vector<std::shared_ptr<sim_meeting>> meetings;
};

} // namespace detail
} // namespace vram
