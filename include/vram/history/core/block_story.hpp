// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_story` turns the events of a record into blocks and segments without contradictions.

#include <vram/concepts/observer.hpp> // memory_event_kind
#include <vram/history/core/first_chunks.hpp>
#include <vram/history/core/story_step.hpp>
#include <vram/history/history_record.hpp>

#include <algorithm> // max, min, rotate, sort
#include <cstddef>
#include <cstdint>
#include <iterator>      // prev
#include <map>           // map
#include <numeric>       // iota
#include <unordered_map> // unordered_map
#include <unordered_set> // unordered_set
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// Turns the events of a record into steps for profilers: allocations and frees of blocks, and
/// changes of segments (the chunks of a resource). An observed resource may allocate its chunks
/// from another observed resource. The steps then contain the blocks of the first and the chunks of
/// the second. The events of a record may contradict each other.
class block_story {
    using kind   = memory_event_kind;
    using action = story_step::action;

public:
    struct block {
        std::uint64_t memory = 0;
        std::uint64_t bytes  = 0;
        /// Index of an event in `history_record::events`: the event that allocated the block or, if
        /// `pending` is true, the event that freed the block.
        std::uint32_t event = 0;
        /// True if the program has freed the block, but a stream may still use the block.
        bool pending = false;
    };
    struct segment {
        std::uint64_t      memory   = 0;
        std::uint64_t      bytes    = 0;
        std::uint32_t      resource = 0;
        std::vector<block> blocks; ///< sorted by address
    };

    explicit block_story(history_record const& from) : from_{from} {
        for (history_record::event const& e : from.events) {
            if (e.kind == kind::free_completed) { completing_.insert(e.resource); }
            if (e.kind == kind::pages_mapped) { growing_.insert(e.resource); }
        }
        for (history_record::chunk const& c : from.chunks) {
            if (c.grows) { growing_.insert(c.resource); }
        }
        begin();
        std::vector<std::uint32_t> order(from.events.size());
        std::iota(order.begin(), order.end(), 0U);
        steps_.reserve(order.size() + order.size() / 8);
        for (std::size_t i = 0; i != order.size(); ++i) {
            free_first(order, i);
            follow(order[i]);
        }
        end();
    }

    [[nodiscard]] std::vector<story_step> const& steps() const noexcept { return steps_; }
    /// Returns the segments (chunks) at the end of the `history_record`, sorted by address.
    [[nodiscard]] std::vector<segment> const& segments() const noexcept { return segments_; }
    /// Returns the bytes of all segments that exist at the start of the `history_record`.
    [[nodiscard]] std::uint64_t first_reserved() const noexcept { return first_reserved_; }
    /// Returns the bytes of blocks that are live at the start of the `history_record`. Counts only
    /// blocks that an event of the record frees.
    [[nodiscard]] std::uint64_t first_live() const noexcept { return first_live_; }

private:
    using key = std::pair<std::uint32_t, std::uint64_t>; ///< resource index and address of a chunk

    struct live_block {
        std::size_t   step;
        std::uint32_t resource;
        std::uint64_t bytes;
    };
    static constexpr std::size_t   first_step    = ~std::size_t{0};
    static constexpr std::uint32_t all_resources = ~std::uint32_t{0};

    /// A block that one resource allocated and another resource uses as a chunk. If `lender` is
    /// true, `resource` allocated the block. Otherwise `resource` uses the block as a chunk.
    struct lent {
        std::uint32_t resource;
        bool          lender;
    };
    struct range {
        std::uint64_t bytes;
        std::uint32_t resource;
        /// Number of bytes of the segment that the resource has returned, and has not got again
        /// since. Once all bytes are returned, the segment ends.
        std::uint64_t removed = 0;
        /// Index in `steps_` of the step that added the segment. The value is `first_step` if the
        /// segment existed at the start of the record.
        std::size_t step = first_step;
        /// Number of steps that `steps_` had just after the latest step that added or extended the
        /// segment. The value is 0 if there is no such step.
        std::size_t last = 0;
    };

    void begin() {
        for (history_record::chunk const& c : first_chunks(from_)) {
            add_chunk(c.memory, c.bytes, c.resource, 0, false);
        }
        for (auto const& [memory, r] : ranges_) { first_reserved_ += r.bytes; }
    }

    /// If the event `order[i]` allocates an address that is live in the same resource, moves the
    /// event of the free before `order[i]`: two threads may have sent these events in the wrong
    /// order. If the next 63 events contain no such free, adds a step that frees the live block.
    void free_first(std::vector<std::uint32_t>& order, std::size_t i) {
        history_record::event const& e = from_.events[order[i]];
        if (e.kind != kind::allocated) { return; }
        auto const found = live_.find(e.memory);
        if (found == live_.end() || found->second.resource != e.resource) { return; }
        std::size_t const end = std::min(order.size(), i + 64);
        for (std::size_t j = i + 1; j < end; ++j) {
            history_record::event const& later = from_.events[order[j]];
            if (later.kind != kind::freed || later.memory != e.memory ||
                later.resource != e.resource) {
                continue;
            }
            auto const at = [&](std::size_t n) {
                return order.begin() + static_cast<std::ptrdiff_t>(n);
            };
            std::rotate(at(i), at(j), at(j + 1));
            return;
        }
        free_block(order[i], e.memory, found->second.bytes);
    }

    void follow(std::uint32_t i) {
        history_record::event const& e = from_.events[i];
        switch (e.kind) {
        case kind::allocated:
            push(action::allocated, i, e.memory, e.bytes, i);
            live_[e.memory] = {steps_.size() - 1, e.resource, e.bytes};
            freed_.erase(e.memory);
            return join_ranges(e);
        case kind::freed: return follow_free(i, e);
        case kind::free_refused: return undo_free(e);
        case kind::free_completed: return complete(i, e);
        case kind::all_freed: return free_range(i, e.memory, e.bytes, e.resource);
        case kind::chunk_added: return add_chunk(e.memory, e.bytes, e.resource, i, true);
        case kind::chunk_removed: return remove_chunk(e.memory, e.bytes, e.resource, i);
        case kind::refused: return push(action::refused, i, 0, e.bytes);
        case kind::marked: return push(action::marked, i, 0, 0);
        default: return push(action::other, i, e.memory, e.bytes);
        }
    }

    /// If the new block of the event `e` lies in several adjacent segments of one resource, joins
    /// these segments into one.
    void join_ranges(history_record::event const& e) {
        auto next = ranges_.upper_bound(e.memory);
        if (next == ranges_.begin()) { return; }
        auto const its = std::prev(next);
        while (next != ranges_.end() && e.memory - its->first + e.bytes > its->second.bytes &&
               its->first + its->second.bytes == next->first &&
               its->second.resource == next->second.resource) {
            // Turns the step that added the second segment into a growth of the first segment.
            if (next->second.step != first_step && its->second.last <= next->second.step) {
                steps_[next->second.step].what = action::segment_grown;
            }
            its->second.bytes += next->second.bytes;
            its->second.removed += next->second.removed;
            its->second.last = std::max(its->second.last, next->second.last);
            growing_.insert(its->second.resource);
            next = ranges_.erase(next);
        }
    }

    void follow_free(std::uint32_t i, history_record::event const& e) {
        auto const found = live_.find(e.memory);
        if (found != live_.end() && found->second.resource == e.resource) {
            return free_block(i, e.memory, found->second.bytes);
        }
        auto const chunk = lent_.find(e.memory);
        if (chunk != lent_.end() &&
            (chunk->second.resource == e.resource) == chunk->second.lender) {
            lent_.erase(chunk); // the block was another resource's chunk, so its free is not listed
            return;
        }
        // Lists no step for an invalid free: the address is live in another resource, or is free
        // already. An event `free_refused` will follow.
        if (found != live_.end() || freed_.contains(e.memory)) {
            ++invalid_[e.memory];
            return;
        }
        push(action::freed, i, e.memory, e.bytes); // the record does not contain the allocation
        first_live_ += e.bytes;
        undo_.erase(e.memory);
        freed_[e.memory] = steps_.size() - 1;
    }
    void free_block(std::uint32_t i, std::uint64_t memory, std::uint64_t bytes) {
        auto const found = live_.find(memory);
        push(action::freed, i, memory, bytes, steps_[found->second.step].event);
        freed_[memory] = steps_.size() - 1;
        undo_[memory]  = found->second;
        live_.erase(found);
    }
    void undo_free(history_record::event const& e) {
        auto const invalid = invalid_.find(e.memory);
        if (invalid != invalid_.end()) {
            if (--invalid->second == 0) { invalid_.erase(invalid); }
            return;
        }
        auto const freed = freed_.find(e.memory);
        auto const held  = undo_.find(e.memory);
        if (freed == freed_.end()) { return; }
        story_step& step = steps_[freed->second];
        if (step.what != action::freed || from_.events[step.event].resource != e.resource) {
            return;
        }
        step.what = action::none;
        if (held != undo_.end()) {
            live_[e.memory] = held->second;
            undo_.erase(held);
        } else {
            first_live_ -= step.bytes;
        }
        freed_.erase(freed);
    }
    void complete(std::uint32_t i, history_record::event const& e) {
        auto const freed = freed_.find(e.memory);
        if (freed == freed_.end()) { return; }
        story_step& step = steps_[freed->second];
        if (step.what != action::freed || from_.events[step.event].resource != e.resource) {
            return;
        }
        step.what                  = action::free_requested;
        std::uint32_t const origin = step.origin; // a copy, because `push` may invalidate `step`
        push(action::free_completed, i, e.memory, step.bytes, origin);
    }
    /// Adds a step that frees a block, for each live block of `resource` that begins in the address
    /// range. The default value means all resources. `i`: index of the event that causes this.
    void free_range(std::uint32_t i, std::uint64_t memory, std::uint64_t bytes,
                    std::uint32_t resource = all_resources) {
        std::vector<std::pair<std::uint64_t, std::uint64_t>> ended;
        for (auto each = live_.lower_bound(memory);
             each != live_.end() && each->first - memory < bytes; ++each) {
            if (resource == all_resources || each->second.resource == resource) {
                ended.emplace_back(each->first, each->second.bytes);
            }
        }
        for (auto const& [at, size] : ended) { free_block(i, at, size); }
    }

    void add_chunk(std::uint64_t memory, std::uint64_t bytes, std::uint32_t resource,
                   std::uint32_t i, bool seen) {
        chunks_[{resource, memory}] = bytes;
        auto const above            = live_.upper_bound(memory);
        // If the chunk begins in a live block of another resource, removes the step that allocated
        // that block. Otherwise profilers would count the same memory twice.
        if (above != live_.begin()) {
            auto const held = std::prev(above);
            if (held->second.resource != resource && memory - held->first < held->second.bytes) {
                steps_[held->second.step].what = action::none;
                lent_[held->first]             = {held->second.resource, true};
                live_.erase(held);
            }
        }
        auto const after = ranges_.upper_bound(memory);
        if (after != ranges_.begin()) {
            auto const          before   = std::prev(after);
            std::uint64_t const distance = memory - before->first;
            range&              r        = before->second;
            if (r.resource == resource && growing_.contains(resource) && distance <= r.bytes) {
                // The first `back` bytes of the chunk lie in the segment, and are no longer counted
                // as removed. The other bytes extend the segment, at most up to the next one.
                std::uint64_t const back = std::min(bytes, r.bytes - distance);
                std::uint64_t const most =
                    (after != ranges_.end() ? after->first : ~std::uint64_t{0}) - before->first;
                std::uint64_t const more = std::min(bytes - back, most - std::min(most, r.bytes));
                r.removed -= std::min(r.removed, back);
                if (more != 0 && seen) {
                    push(action::segment_grown, i, before->first + r.bytes, more);
                    r.last = steps_.size();
                }
                r.bytes += more;
                return;
            }
            // Segments must not overlap. Ignores a chunk that begins in another segment.
            if (distance < r.bytes) { return; }
        }
        // Segments must not overlap. Ignores a chunk that extends into the next segment.
        if (after != ranges_.end() && after->first - memory < bytes) { return; }
        ranges_[memory] = {bytes, resource};
        if (seen) {
            push(action::segment_added, i, memory, bytes);
            ranges_[memory].step = steps_.size() - 1;
            ranges_[memory].last = steps_.size();
        }
    }
    void remove_chunk(std::uint64_t memory, std::uint64_t bytes, std::uint32_t resource,
                      std::uint32_t i) {
        free_range(i, memory, bytes, resource);
        auto const first = chunks_.lower_bound({resource, memory});
        auto       last  = first;
        while (last != chunks_.end() && last->first.first == resource &&
               last->first.second - memory < bytes) {
            ++last;
        }
        chunks_.erase(first, last);
        bool ours = false;
        auto each = ranges_.upper_bound(memory);
        if (each != ranges_.begin()) { --each; }
        while (each != ranges_.end() && (each->first < memory || each->first - memory < bytes)) {
            range&              r     = each->second;
            std::uint64_t const begin = each->first < memory ? memory : each->first;
            std::uint64_t const end =
                std::min(each->first + r.bytes, memory + std::min(bytes, ~memory));
            if (r.resource != resource || begin >= end) {
                ++each;
                continue;
            }
            ours = true;
            r.removed += end - begin;
            if (r.removed < r.bytes) {
                ++each;
                continue;
            }
            free_range(i, each->first, r.bytes);
            push(action::segment_removed, i, each->first, r.bytes);
            each = ranges_.erase(each);
        }
        // The resource has no segment here, so the chunk is probably a block of another observed
        // resource. The later free of that block must not be listed, so stores its address.
        if (!ours) { lent_.try_emplace(memory, lent{resource, false}); }
    }
    /// Lists the segments at the end of the record with their blocks. A freed block is listed too
    /// if it fills a whole chunk and the event `free_completed` for it has not come yet.
    void end() {
        std::map<std::uint64_t, block> blocks;
        for (auto const& [memory, b] : live_) {
            blocks[memory] = {memory, b.bytes, steps_[b.step].event, false};
        }
        for (auto const& [memory, at] : freed_) {
            story_step&                  step = steps_[at];
            history_record::event const& e    = from_.events[step.event];
            if (step.what != action::freed || !completing_.contains(e.resource)) { continue; }
            auto const chunk = chunks_.find({e.resource, memory});
            if (chunk == chunks_.end() || chunk->second != step.bytes) { continue; }
            if (!blocks.contains(memory)) {
                step.what      = action::free_requested;
                blocks[memory] = {memory, step.bytes, step.event, true};
            }
        }
        for (auto const& [memory, r] : ranges_) {
            segment       made{memory, r.bytes, r.resource, {}};
            std::uint64_t end = memory;
            for (auto each = blocks.lower_bound(memory);
                 each != blocks.end() && each->first - memory < r.bytes; ++each) {
                block const& b = each->second;
                if (b.memory < end || b.bytes > memory + r.bytes - b.memory) { continue; }
                end = b.memory + b.bytes;
                made.blocks.push_back(b);
            }
            segments_.push_back(std::move(made));
        }
    }

    void push(action what, std::uint32_t i, std::uint64_t memory, std::uint64_t bytes,
              std::uint32_t origin = story_step::unknown) {
        steps_.push_back({what, i, origin, memory, bytes});
    }

    history_record const&   from_;
    std::vector<story_step> steps_;
    std::vector<segment>    segments_;
    std::uint64_t           first_reserved_ = 0;
    std::uint64_t           first_live_     = 0;

    std::unordered_set<std::uint32_t>   completing_; ///< resources that send `free_completed`
    std::unordered_set<std::uint32_t>   growing_;    ///< indices of resources with chunks that grow
    std::map<std::uint64_t, live_block> live_;
    /// Freed blocks, by address. The event `free_refused` makes such a block live again.
    std::unordered_map<std::uint64_t, live_block>  undo_;
    std::unordered_map<std::uint64_t, std::size_t> freed_; ///< freed address to index in `steps_`
    /// By address: blocks that one resource allocated and another resource uses as chunks.
    std::unordered_map<std::uint64_t, lent> lent_;
    /// By address: number of invalid frees for which no event `free_refused` has come yet.
    std::unordered_map<std::uint64_t, std::size_t> invalid_;
    std::map<key, std::uint64_t>                   chunks_;
    std::map<std::uint64_t, range>                 ranges_; ///< segments that exist, by address
};

} // namespace detail
} // namespace vram
