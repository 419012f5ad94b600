// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `loader_error` is an error of a loader, with the batch and the reason.

#include <vram/transfer/slot_states.hpp> // slot_states

#include <cstddef>   // size_t
#include <exception> // exception

namespace vram {

/// What was wrong. The numbers are those of the batch that was asked for.
///
/// After `all_held`, `capturing` and `timed_out` the batch is still to come: the loop may put right
/// what was wrong, and ask again.
class loader_error : public std::exception {
public:
    enum class reason {
        too_large,     ///< the source gave more than a slot holds: `bytes` against `limit`
        all_held,      ///< every slot is held by a batch that was kept: another one can never come
        capturing,     ///< the consumer's stream is being captured into a graph
        already_begun, ///< a loader is read once, from one `begin()`, until `restart()`
        wrong_alignment, ///< `span<T>` of no whole number of `T`: `bytes` against `limit`
        not_ended,       ///< `restart()` before the end, and without a `stop()`
        timed_out,       ///< no batch within `loader_options::timeout`: `states` says who waits
        no_size,         ///< a shuffle of a source that does not say how many batches it has
        no_index,        ///< a shard of a source that is not told which batch to bring
        ended,           ///< a result is sent, and the unloader is gone
        forked,          ///< this process is the child of the one that made the loader
    };

    explicit loader_error(reason why, std::size_t index = 0, std::size_t bytes = 0,
                          std::size_t limit = 0, slot_states const& states = {}) noexcept
        : why_{why}, index_{index}, bytes_{bytes}, limit_{limit}, states_{states} {}

    [[nodiscard]] reason             why() const noexcept { return why_; }
    [[nodiscard]] std::size_t        index() const noexcept { return index_; }
    [[nodiscard]] std::size_t        bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::size_t        limit() const noexcept { return limit_; }
    [[nodiscard]] slot_states const& states() const noexcept { return states_; }

    [[nodiscard]] char const* what() const noexcept override {
        switch (why_) {
        case reason::too_large: return "vram: a batch is larger than the loader's slots";
        case reason::all_held: return "vram: all slots of the loader are held by batches in use";
        case reason::capturing: return "vram: a loader cannot be read while its stream is captured";
        case reason::already_begun: return "vram: a loader can be read once";
        case reason::wrong_alignment: return "vram: a batch is no whole number of elements";
        case reason::not_ended: return "vram: a loader restarts after its end, or a stop";
        case reason::timed_out: return "vram: no batch came within the loader's timeout";
        case reason::no_size: return "vram: a source that does not say its size is not shuffled";
        case reason::no_index: return "vram: a source that is not told the index has no shards";
        case reason::ended: return "vram: the unloader that the result was for has ended";
        case reason::forked: return "vram: a forked process has none of its parent's loaders";
        }
        return "vram: loader";
    }

private:
    reason      why_;
    std::size_t index_;
    std::size_t bytes_;
    std::size_t limit_;
    slot_states states_;
};

} // namespace vram
