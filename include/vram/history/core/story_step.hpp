// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `story_step` is one step of a `block_story`.

#include <vram/base/requirements.hpp>

#include <cstdint>

namespace vram {
namespace detail {

/// One step of a `block_story` (the events of a record, made consistent for profilers): a change of
/// a block or of a segment (a chunk), or another event.
struct story_step {
    enum class action : unsigned char {
        none, ///< no change, to be skipped, such as a free that was refused
        allocated,
        /// The program freed the block. According to the record, no stream uses the block any more.
        freed,
        free_requested, ///< the program freed the block; a stream may still use it
        free_completed,
        segment_added,
        segment_grown, ///< `bytes` bytes at `memory` were added to the end of a segment
        segment_removed,
        refused,
        marked,
        other,
    };

    static constexpr std::uint32_t unknown = ~std::uint32_t{0};

    action what = action::none;
    /// Index in `history_record::events` of the event that caused the step.
    std::uint32_t event = 0;
    /// Index of the event that allocated the block; `unknown` if the block is older than the
    /// record, or the step has no block.
    std::uint32_t origin = unknown;
    std::uint64_t memory = 0;
    std::uint64_t bytes  = 0;
};

} // namespace detail
} // namespace vram
