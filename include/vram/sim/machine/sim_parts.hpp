// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_parts` holds the blocks that resources, such as pools, allocated in their chunks.

#include <vram/sim/machine/sim_history.hpp> // sim_history, interval_map
#include <vram/sim/machine/sorted_map.hpp>
#include <vram/sim/sim_report.hpp> // sim_event_of, sim_block_of

#include <algorithm> // max, min
#include <cstddef>
#include <cstdint>
#include <iterator> // prev
#include <map>      // map
#include <memory>   // unique_ptr
#include <utility>

namespace vram {
namespace detail {

class sim_parts;

/// Record of a block that a pool or other resource allocated in a chunk. Stays after the free,
/// until the memory is allocated again or its chunk is removed, so that a use after free is
/// reported.
struct sim_inner_block {
    std::uintptr_t begin = 0; ///< first address of the block
    std::size_t    bytes = 0;
    /// Exclusive end of the piece of the block that this record describes. Less than `end()` if the
    /// memory behind was allocated again or has another record.
    std::uintptr_t last     = 0;
    char const*    resource = ""; ///< name of the resource, such as "pool"
    bool           freed    = false;
    /// True if the block was allocated or freed during a capture, so launches of the captured graph
    /// may access it.
    bool graph = false;
    /// True if only launches of graphs may still access the block, for example after a free during
    /// a capture.
    bool graph_freed = false;
    /// True if the block was allocated during a capture, in memory of an earlier block of a
    /// captured graph. After its free, launches may still access it (`graph_freed`).
    bool shared = false;
    /// True after a double free. It is unknown which of the two frees the resource refused, so
    /// later allocations are not checked against `released`.
    bool         disputed = false;
    sim_event_of allocated{};
    sim_event_of released{};
    sim_event_of before{}; ///< the free of the memory at `begin` before this allocation, if known
    interval_map<sim_history> history{};
    /// The chunks and blocks in this block if another resource divides it; null if none does.
    std::unique_ptr<sim_parts> parts{};

    [[nodiscard]] std::uintptr_t end() const noexcept { return begin + bytes; }
    /// Returns true if the block has this range, and no part of it was allocated again.
    [[nodiscard]] bool is_whole(std::uintptr_t from, std::size_t size) const noexcept {
        return begin == from && bytes == size && last == end();
    }
    /// Prepares this record for a new block in the same range. The caller sets the other members
    /// and the access history.
    void restart() noexcept {
        freed = graph = graph_freed = shared = disputed = false;
        parts                                           = nullptr;
    }
    [[nodiscard]] sim_block_of description() const noexcept {
        bool const gone = freed || graph_freed;
        return {resource, begin, bytes, allocated, gone ? released : sim_event_of{},
                before,   {},    {},    {}};
    }
};

/// The chunks in a block that a resource divides, and the blocks that the resource allocated in
/// them. Other memory of a chunk is not accessible. Adjacent chunks count as one.
///
/// Failure   A function that throws `std::bad_alloc` may have lost blocks.
/// Threads   The caller holds the machine's lock.
class sim_parts {
public:
    /// The chunk that contains an address, or the gap between chunks if `found` is false.
    struct range {
        std::uintptr_t begin, end;
        bool           found;
    };

    [[nodiscard]] range chunk_at(std::uintptr_t p) const {
        auto const           after = chunks_.upper_bound(p);
        std::uintptr_t const next  = after == chunks_.end() ? ~std::uintptr_t{} : after->first;
        if (after == chunks_.begin()) { return {0, next, false}; }
        auto const [begin, end] = *std::prev(after);
        return p < end ? range{begin, end, true} : range{end, next, false};
    }
    [[nodiscard]] bool empty() const noexcept { return chunks_.empty(); }

    void add_chunk(std::uintptr_t begin, std::uintptr_t end) {
        for (auto it = chunks_.upper_bound(end); it != chunks_.begin();) {
            --it;
            if (it->second < begin) { break; }
            begin = std::min(begin, it->first);
            end   = std::max(end, it->second);
            it    = chunks_.erase(it);
        }
        chunks_.emplace(begin, end);
    }
    /// Removes the range from the chunks, with all blocks there.
    void remove_chunk(std::uintptr_t begin, std::uintptr_t end) {
        cut(begin, end);
        for (range c = chunk_at(begin); begin < end; c = chunk_at(begin)) {
            if (c.found) {
                chunks_.erase(c.begin);
                if (c.begin < begin) { chunks_.emplace(c.begin, begin); }
                if (end < c.end) { chunks_.emplace(end, c.end); }
            }
            begin = c.end;
        }
    }

    /// Returns the block (live or freed) with memory at `p`, or null if there is none.
    [[nodiscard]] sim_inner_block* at(std::uintptr_t p) {
        sim_inner_block* const part = before(p);
        return part != nullptr && p < part->last ? part : nullptr;
    }
    /// Returns the last block with memory that begins at `p` or before it, or null if there is
    /// none.
    [[nodiscard]] sim_inner_block* before(std::uintptr_t p) { return parts_.before(p); }
    /// Calls `visit(part, begin, end)` for each piece (what is left of a block), with its bounds
    /// limited to the range.
    template <class Visit>
    void for_each(std::uintptr_t begin, std::uintptr_t end, Visit visit) {
        for (auto it = first_in(begin); it != parts_.end() && it.key() < end; ++it) {
            visit(*it, std::max(begin, it.key()), std::min(end, it->last));
        }
    }
    /// Adds a block. It replaces what is left of earlier blocks in its range.
    sim_inner_block& put(sim_inner_block part) {
        part.last       = part.end();
        auto const same = parts_.find(part.begin);
        if (same != parts_.end() && same->last == part.last) { return *same = std::move(part); }
        cut(part.begin, part.last);
        return parts_[part.begin] = std::move(part);
    }

private:
    /// Returns the position of the first piece (what is left of a block) that ends after `p`.
    [[nodiscard]] sorted_map<sim_inner_block>::iterator first_in(std::uintptr_t p) {
        auto const it = parts_.upper_bound(p);
        if (auto last = it; it != parts_.begin() && (--last)->last > p) { return last; }
        return it;
    }
    /// Removes all pieces (what is left of blocks) in the range. A piece that is only partly in the
    /// range is cut.
    void cut(std::uintptr_t begin, std::uintptr_t end) {
        auto it = first_in(begin);
        while (it != parts_.end() && it.key() < end) {
            std::uintptr_t const at   = it.key();
            sim_inner_block&     part = *it;
            if (end < part.last) {
                keep(part, end);
                it = parts_.find(at);
            }
            if (at < begin) {
                part.last = begin;
                ++it;
            } else {
                it = parts_.erase(it);
            }
        }
    }
    /// Called to cut a range out of `part`: adds a record of the piece behind the range, from
    /// `from` on, if the block was freed or a captured graph may access it.
    void keep(sim_inner_block const& part, std::uintptr_t from) {
        if (!part.freed && !part.graph) { return; }
        sim_inner_block& rest = parts_[from];
        rest.begin            = part.begin;
        rest.bytes            = part.bytes;
        rest.last             = part.last;
        rest.resource         = part.resource;
        rest.freed            = part.freed;
        rest.graph            = part.graph;
        rest.graph_freed      = part.graph_freed;
        rest.shared           = part.shared;
        rest.disputed         = part.disputed;
        rest.allocated        = part.allocated;
        rest.released         = part.released;
        rest.before           = part.before;
    }

    std::map<std::uintptr_t, std::uintptr_t> chunks_; ///< the end of each chunk, by its begin
    /// What is left of each block, by its first address.
    sorted_map<sim_inner_block> parts_;
};

} // namespace detail
} // namespace vram
