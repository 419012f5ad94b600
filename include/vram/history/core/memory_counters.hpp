// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `memory_counters` follows the steps of a story and sums bytes: live, reserved, and for each tag.

#include <vram/history/core/block_story.hpp> // block_story, story_step
#include <vram/history/history_record.hpp>

#include <cstddef>
#include <cstdint>
#include <vector> // vector

namespace vram {
namespace detail {

/// Sums of the live and reserved bytes, and of the live bytes of each tag, after each step of a
/// `block_story`. A block older than the record counts as live only if the record contains its
/// free, and counts for no tag.
class memory_counters {
    using action = story_step::action;

public:
    memory_counters(history_record const& from, block_story const& story)
        : from_{from},
          live_{story.first_live()},
          reserved_{story.first_reserved()},
          of_tag_(from.tags.size()) {}

    /// Updates the counters after a step, such as an allocation: live bytes, reserved bytes, and
    /// live bytes of a tag. A freed block is not live, even if a stream may still use the block.
    void follow(story_step const& step) noexcept {
        live_changed_ = reserved_changed_ = false;
        tag_                              = 0;
        switch (step.what) {
        case action::allocated:
            tag_ = from_.events[step.event].tag;
            live_ += step.bytes;
            of_tag_[tag_] += step.bytes;
            live_changed_ = true;
            return;
        case action::freed:
        case action::free_requested:
            live_ -= step.bytes;
            if (step.origin != story_step::unknown) {
                tag_ = from_.events[step.origin].tag;
                of_tag_[tag_] -= step.bytes;
            }
            live_changed_ = true;
            return;
        case action::segment_added:
        case action::segment_grown:
            reserved_ += step.bytes;
            reserved_changed_ = true;
            return;
        case action::segment_removed:
            reserved_ -= step.bytes;
            reserved_changed_ = true;
            return;
        default: return;
        }
    }

    [[nodiscard]] std::uint64_t live() const noexcept { return live_; }
    [[nodiscard]] std::uint64_t reserved() const noexcept { return reserved_; }
    [[nodiscard]] std::uint64_t of_tag(std::uint32_t tag) const noexcept { return of_tag_[tag]; }
    [[nodiscard]] bool          live_changed() const noexcept { return live_changed_; }
    [[nodiscard]] bool          reserved_changed() const noexcept { return reserved_changed_; }
    /// Returns the index in `history_record::tags` of the tag of the block that the last step
    /// allocated or freed. Returns 0 if this block has no tag or an unknown one, and after any
    /// other step, such as `free_completed`.
    [[nodiscard]] std::uint32_t tag() const noexcept { return tag_; }

private:
    history_record const&      from_;
    std::uint64_t              live_;
    std::uint64_t              reserved_;
    std::vector<std::uint64_t> of_tag_;
    bool                       live_changed_     = false;
    bool                       reserved_changed_ = false;
    std::uint32_t              tag_              = 0;
};

/// Returns a name for profilers if the event of the step is a refusal, a retry, a wait or a mark,
/// otherwise null.
[[nodiscard]] inline char const* name_of_instant(history_record const& from,
                                                 story_step const&     step) noexcept {
    history_record::event const& e = from.events[step.event];
    switch (e.kind) {
    case memory_event_kind::refused: return "refused";
    case memory_event_kind::retried: return "retried";
    case memory_event_kind::stream_waited: return e.has_stream ? "stream waits" : "host waits";
    case memory_event_kind::marked: return from.resources[e.resource].name.c_str();
    default: return nullptr;
    }
}

} // namespace detail
} // namespace vram
