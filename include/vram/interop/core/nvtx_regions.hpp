// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `nvtx_regions` is the table of heaps and regions that a tool of NVTX knows.

#include <vram/base/tag.hpp> // current_tag, memory_tag
#include <vram/interop/core/nvtx_heap.hpp>
#include <vram/interop/core/overlapping.hpp> // end_of, for_overlapping

#include <algorithm> // max, min
#include <cstdint>
#include <cstring>  // strcmp
#include <iterator> // prev
#include <map>      // map
#include <new>      // bad_alloc

namespace vram {
namespace detail {

/// Returns true if two names of resources have equal text. Neither may be null.
[[nodiscard]] inline bool same_name(char const* a, char const* b) noexcept {
    return a == b || std::strcmp(a, b) == 0;
}

/// The heaps (memory that an NVTX tool, such as compute-sanitizer, checks) and regions (parts of
/// heaps that may be used), with a record of each block. A function that changes a heap or region
/// also tells the tool. Without host memory, the tool finds only accesses outside of a whole chunk.
/// A range is [from, to). One thread at a time.
class nvtx_regions {
    using address = std::uintptr_t;

public:
    nvtx_regions()               = default;
    nvtx_regions(nvtx_regions&&) = delete;

    /// Returns true if there is no heap (memory that the tool checks).
    [[nodiscard]] bool empty() const noexcept { return heaps_.empty(); }
    /// Returns true if the address lies in a heap (memory that the NVTX tool checks).
    [[nodiscard]] bool contains(address at) noexcept {
        bool within = false;
        for_overlapping(heaps_, at, at + 1, [&](auto) { within = true; });
        return within;
    }

    /// Registers the parts of a range that are in no heap as new heaps with the NVTX tool, which
    /// may refuse them.
    void cover(address from, address to) noexcept {
        while (from < to) {
            auto const after = heaps_.upper_bound(from);
            if (after != heaps_.begin() && std::prev(after)->second.end > from) {
                from = std::prev(after)->second.end;
                continue;
            }
            address const end = after != heaps_.end() ? std::min(to, after->first) : to;
            try {
                auto const made = heaps_.emplace_hint(after, from, heap{.end = end});
                made->second.is = nvtx_heap::add(pointer(from), end - from);
                if (!made->second.is.known()) { heaps_.erase(made); }
            } catch (std::bad_alloc const&) {} // the tool checks the chunk as a whole
            from = end;
        }
    }
    /// Removes the heaps that were kept for captured graphs and overlap the new chunk [from, to).
    /// `captured` is true if a capture allocated this chunk.
    void replace_ended(address from, address to, bool captured) noexcept {
        for_overlapping(heaps_, from, to, [&](auto h) {
            if (!h->second.ended) { return; }
            // A captured chunk reuses memory that CUDA has not freed: the tool still has the old
            // heap, which is removed there, too.
            if (captured) { return drop_heap(h); }
            // Without a capture, CUDA has freed the old memory, and the tool has removed its heap
            // by itself: erases only the records of this table.
            for_overlapping(blocks_, h->first, h->second.end, [&](auto b) { blocks_.erase(b); });
            for_overlapping(kept_, h->first, h->second.end, [&](auto k) { kept_.erase(k); });
            heaps_.erase(h);
        });
    }
    /// Removes the heaps that overlap [from, to) and their regions, here and at the NVTX tool.
    void drop_heaps(address from, address to) noexcept {
        for_overlapping(heaps_, from, to, [&](auto h) { drop_heap(h); });
    }
    /// If `ended` is true, removes the heaps (registered chunks) that are kept for captured graphs.
    /// If false, removes all others.
    void drop_all(bool ended) noexcept {
        for_overlapping(heaps_, 0, ~address{0}, [&](auto h) {
            if (h->second.ended == ended) { drop_heap(h); }
        });
    }
    /// Keeps the heaps (registered chunks) in [from, to) for a captured graph, after a capture has
    /// removed their chunks.
    void keep_heaps(address from, address to) noexcept {
        for_overlapping(heaps_, from, to, [&](auto h) { h->second.ended = true; });
    }

    /// Registers the block [from, to) of the resource `name` as memory that kernels may use. If
    /// `captured` (allocated in a capture), it may share a region kept for graphs.
    void allocate(address from, address to, char const* name, bool captured) noexcept {
        bool any = false;
        for_overlapping(heaps_, from, to, [&](auto h) { any |= !h->second.whole; });
        if (!any) { return; }
        for_overlapping(blocks_, from, to, [&](auto b) { end_block(b); });
        try {
            block made{.end = to, .resource = name, .captured = captured};
            made.has_region = !(captured && reuse_kept(from, to));
            if (made.has_region) { take_kept(from, to); }
            blocks_.insert_or_assign(from, made);
            if (!made.has_region) { return; }
        } catch (std::bad_alloc const&) { return forfeit(from, to); }
        add_regions(from, to, current_tag());
    }
    /// Removes the region of the block at `from`, which the resource `name` frees. The region stays
    /// if a captured graph may use it. The record stays for `restore`.
    void free(address from, char const* name, bool captured, bool until_reset) noexcept {
        auto const b = blocks_.find(from);
        if (b == blocks_.end() || !same_name(b->second.resource, name)) { return; }
        block& is = b->second;
        if (is.frees == 0 && is.has_region) {
            if (!captured && !(until_reset && is.captured)) {
                remove_regions(from, is.end);
            } else {
                try {
                    keep_block(b);
                } catch (std::bad_alloc const&) { return forfeit(from, is.end); }
            }
        }
        ++is.frees;
    }
    /// Removes the records and regions of the blocks that overlap [from, to). Keeps the region of a
    /// live block that a capture allocated, because its graph may use it later.
    void free_all(address from, address to) noexcept {
        try {
            for_overlapping(blocks_, from, to, [&](auto b) {
                block const& is = b->second;
                if (is.captured && is.has_region && is.frees == 0) { keep_block(b); }
                end_block(b);
            });
        } catch (std::bad_alloc const&) { forfeit(from, to); }
    }
    /// Undoes a call of `free` for the block at `from`, which the resource `name` then refused.
    void restore(address from, char const* name) noexcept {
        auto const b = blocks_.find(from);
        if (b == blocks_.end() || !same_name(b->second.resource, name) || b->second.frees == 0) {
            return;
        }
        if (--b->second.frees == 0 && b->second.has_region) { add_regions(from, b->second.end); }
    }

    /// Removes the records of the blocks that overlap [from, to), and their regions at the tool.
    void remove_blocks(address from, address to) noexcept {
        for_overlapping(blocks_, from, to, [&](auto b) { end_block(b); });
    }
    /// Removes all blocks, and all regions kept for captured graphs, that overlap [from, to), from
    /// this table and from the tool.
    void end_blocks(address from, address to) noexcept {
        remove_blocks(from, to);
        for_overlapping(kept_, from, to, [&](auto k) { end_kept(k); });
    }
    /// Returns true if captured graphs may use freed memory in [from, to): a region there is kept
    /// for them, or `forfeit` has made a heap one region.
    [[nodiscard]] bool keeps(address from, address to) noexcept {
        bool any = false;
        for_overlapping(kept_, from, to, [&](auto) { any = true; });
        for_overlapping(heaps_, from, to, [&](auto h) { any |= h->second.whole; });
        return any;
    }
    /// Removes [from, to) from the regions kept for captured graphs, also at the tool. The rest of
    /// such a region stays.
    void forget_kept(address from, address to) noexcept {
        try {
            take_kept(from, to);
        } catch (std::bad_alloc const&) { forfeit(from, to); }
    }
    /// For a lack of host memory for records: makes each heap that overlaps [from, to) one region,
    /// in which the tool permits every access.
    void forfeit(address from, address to) noexcept {
        address    begin = from, end = to;
        auto const widen = [&](auto range) {
            begin = std::min(begin, range->first);
            end   = std::max(end, end_of(*range));
        };
        do {
            from = begin;
            to   = end;
            for_overlapping(heaps_, from, to, widen);
            for_overlapping(blocks_, from, to, widen);
            for_overlapping(kept_, from, to, widen);
        } while (begin != from || end != to);
        end_blocks(from, to);
        for_overlapping(heaps_, from, to, [&](auto h) {
            // The heap stays registered: if it were removed, compute-sanitizer 13.0 would report
            // each access to the chunk.
            add_regions(h->first, h->second.end);
            h->second.whole = true;
        });
    }

private:
    struct heap {
        address   end = 0;
        nvtx_heap is{};
        bool      ended = false; ///< true if removed during a capture, and kept for its graph
        bool      whole = false; ///< true if a lack of host memory made the whole heap one region
    };
    struct block {
        address     end        = 0;
        char const* resource   = "";
        unsigned    frees      = 0;     ///< number of frees, without refused ones; 0 if live
        bool        has_region = true;  ///< false: a region in `kept_` has the memory
        bool        captured   = false; ///< true if a capture allocated the block
    };

    [[nodiscard]] static void const* pointer(address at) noexcept {
        return reinterpret_cast<void const*>(at);
    }
    /// Registers [from, to) with the NVTX tool as memory that kernels may access: a region in each
    /// heap, named by `tag`.
    void add_regions(address from, address to, memory_tag tag = {}) noexcept {
        for_overlapping(heaps_, from, to, [&](auto h) {
            if (h->second.whole) { return; }
            address const begin = std::max(from, h->first);
            h->second.is.add_region(pointer(begin), std::min(to, h->second.end) - begin);
            if (tag.known()) { nvtx_heap::name_region(pointer(begin), tag.path()); }
        });
    }
    void remove_regions(address from, address to) noexcept {
        for_overlapping(heaps_, from, to, [&](auto h) {
            if (h->second.whole) { return; }
            nvtx_heap::remove_region(pointer(std::max(from, h->first)));
        });
    }
    void end_block(std::map<address, block>::iterator b) noexcept {
        if (b->second.has_region && b->second.frees == 0) {
            remove_regions(b->first, b->second.end);
        }
        blocks_.erase(b);
    }
    void end_kept(std::map<address, address>::iterator k) noexcept {
        remove_regions(k->first, k->second);
        kept_.erase(k);
    }
    void drop_heap(std::map<address, heap>::iterator h) noexcept {
        end_blocks(h->first, h->second.end);
        if (h->second.whole) { nvtx_heap::remove_region(pointer(h->first)); }
        h->second.is.remove();
        heaps_.erase(h);
    }
    /// Removes [from, to) from the regions kept for captured graphs, also at the tool. The rest of
    /// such a region stays kept, because other graphs may use it.
    void take_kept(address from, address to) {
        for_overlapping(kept_, from, to, [&](auto k) {
            auto const [begin, end] = *k;
            end_kept(k);
            if (begin < from) { keep(begin, from); }
            if (to < end) { keep(to, end); }
        });
    }
    void keep(address from, address to) {
        kept_.insert_or_assign(from, to);
        add_regions(from, to);
    }
    /// If regions kept for graphs overlap the block [from, to), merges them into one that contains
    /// the block, and returns true. Otherwise returns false.
    [[nodiscard]] bool reuse_kept(address from, address to) {
        address begin = from, end = to;
        bool    any = false;
        for_overlapping(kept_, from, to, [&](auto k) {
            any   = true;
            begin = std::min(begin, k->first);
            end   = std::max(end, k->second);
        });
        if (!any) { return false; }
        auto const first = kept_.find(begin);
        // One kept region contains the block already, so the tool needs no change.
        if (first != kept_.end() && first->second == end) { return true; }
        for_overlapping(kept_, from, to, [&](auto k) { end_kept(k); });
        keep(begin, end);
        return true;
    }
    /// Leaves the region of the block `b` registered with the tool when the block is freed: `kept_`
    /// takes it over, because a captured graph may use the memory.
    void keep_block(std::map<address, block>::iterator b) {
        kept_.insert_or_assign(b->first, b->second.end);
        b->second.has_region = false;
    }

    std::map<address, heap>  heaps_;
    std::map<address, block> blocks_;
    /// Begin and end of each region that is kept because a captured graph may use the memory.
    std::map<address, address> kept_;
};

} // namespace detail
} // namespace vram
