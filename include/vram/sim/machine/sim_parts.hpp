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

/// Record of a block that a pool or other resource allocated in a chunk (a large block that the
/// resource divides). The record stays after the free, so that a use after free is reported. It is
/// removed when the memory is allocated again, or when the chunk is removed.
struct sim_inner_block {
    std::uintptr_t begin = 0; ///< first address of the block
    std::size_t    bytes = 0;
    /// First address after the memory that this record describes. It is less than `end()` if the
    /// rest of the block was allocated again, or if another record describes that rest.
    std::uintptr_t last     = 0;
    char const*    resource = ""; ///< name of the resource, such as "pool"
    bool           freed    = false;
    /// True if the block was allocated or freed during a capture, so launches of the captured graph
    /// may access it.
    bool graph = false;
    /// True if the block was freed, but launches of captured graphs may still access it. This
    /// happens, for example, if the free itself is captured.
    bool graph_freed = false;
    /// True if a capture allocated the block in memory of an earlier block of a captured graph.
    /// When this block is freed, `graph_freed` is set, because launches may still access the
    /// memory.
    bool shared = false;
    /// True after the block was freed twice. The resource refuses one of these frees, but it is
    /// unknown which. Therefore, a later allocation of the memory need not happen after `released`.
    bool         disputed = false;
    sim_event_of allocated{};
    sim_event_of released{};
    sim_event_of before{}; ///< the free of the memory at `begin` before this allocation, if known
    interval_map<sim_history> history{};
    /// The chunks and blocks in this block if another resource divides it; null if none does.
    std::unique_ptr<sim_parts> parts{};

    [[nodiscard]] std::uintptr_t end() const noexcept { return begin + bytes; }
    /// Returns true if the block begins at `from` and has `size` bytes, and if no part of the block
    /// was allocated again.
    [[nodiscard]] bool is_whole(std::uintptr_t from, std::size_t size) const noexcept {
        return begin == from && bytes == size && last == end();
    }
    /// Prepares this record for a new block at the same addresses. The caller sets the other
    /// members, such as `allocated` and `history`.
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

/// The chunks (memory that a resource divides) in one enclosing block, and the blocks that the
/// resource allocated in the chunks. Memory of a chunk that is in none of these blocks is not
/// accessible. Adjacent chunks are merged into one.
///
/// Failure   A function that throws `std::bad_alloc` may have lost records of blocks.
/// Threads   The caller holds the machine's lock.
class sim_parts {
public:
    /// A range of addresses. If `found` is true, the range is a chunk (memory that a resource
    /// divides). If `found` is false, the range is in no chunk.
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
    /// Removes the addresses from `begin` to `end` from the chunks and from the records of blocks.
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
    /// Returns the record of memory with the largest first address that is at most `p`. Returns
    /// null if there is none.
    [[nodiscard]] sim_inner_block* before(std::uintptr_t p) { return parts_.before(p); }
    /// Calls `visit(part, from, to)` for each record `part` of memory between `begin` and `end`.
    /// `from` and `to` are the bounds of this memory, limited to the range from `begin` to `end`.
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
    /// Called by `cut` if the record `part` also describes memory from the address `from` on. Adds
    /// a record for that memory if the block was freed or is in a captured graph.
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

    /// The end of each chunk (memory that a resource divides), by its first address.
    std::map<std::uintptr_t, std::uintptr_t> chunks_;
    /// The records of blocks, each by the first address of the memory that it describes.
    sorted_map<sim_inner_block> parts_;
};

} // namespace detail
} // namespace vram
