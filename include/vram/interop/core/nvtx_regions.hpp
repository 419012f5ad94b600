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

/// A table of the memory that an NVTX tool, such as compute-sanitizer, checks. A heap is a range of
/// addresses that the tool checks. A region is a part of a heap that kernels may use. The functions
/// also register heaps and regions with the tool, and remove them there. A range is [from, to).
/// Only one thread at a time may call a function.
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
    /// Called when a chunk [from, to) is added. Removes the old heaps at these addresses, which
    /// were kept for captured graphs. `captured`: true if a capture allocated the new chunk.
    void replace_ended(address from, address to, bool captured) noexcept {
        for_overlapping(heaps_, from, to, [&](auto h) {
            if (!h->second.ended) { return; }
            // CUDA has not freed the memory of the old chunk, so the tool still has the old heap.
            // Removes the old heap here and at the tool.
            if (captured) { return drop_heap(h); }
            // CUDA has freed the memory of the old chunk, and the tool has removed the old heap by
            // itself. Erases the records of this table.
            for_overlapping(blocks_, h->first, h->second.end, [&](auto b) { blocks_.erase(b); });
            for_overlapping(kept_, h->first, h->second.end, [&](auto k) { kept_.erase(k); });
            heaps_.erase(h);
        });
    }
    /// Removes the heaps that overlap [from, to) and their regions, here and at the NVTX tool.
    void drop_heaps(address from, address to) noexcept {
        for_overlapping(heaps_, from, to, [&](auto h) { drop_heap(h); });
    }
    /// If `ended` is true, removes only the heaps that are kept for captured graphs. If `ended` is
    /// false, removes only the other heaps.
    void drop_all(bool ended) noexcept {
        for_overlapping(heaps_, 0, ~address{0}, [&](auto h) {
            if (h->second.ended == ended) { drop_heap(h); }
        });
    }
    /// Marks the heaps that overlap [from, to) as kept, because a captured graph may use the
    /// memory. Such a heap stays registered with the tool although its chunk is removed.
    void keep_heaps(address from, address to) noexcept {
        for_overlapping(heaps_, from, to, [&](auto h) { h->second.ended = true; });
    }

    /// Registers the block [from, to) of the resource `name` as memory that kernels may use.
    /// `captured`: true if a capture allocated the block.
    void allocate(address from, address to, char const* name, bool captured) noexcept {
        bool any = false;
        for_overlapping(heaps_, from, to, [&](auto h) { any |= !h->second.whole; });
        if (!any) { return; }
        for_overlapping(blocks_, from, to, [&](auto b) { end_block(b); });
        try {
            block made{.end = to, .resource = name, .captured = captured, .tag = current_tag()};
            made.has_region = !(captured && reuse_kept(from, to));
            if (made.has_region) { take_kept(from, to); }
            blocks_.insert_or_assign(from, made);
            if (made.has_region) { add_regions(from, to, made.tag); }
        } catch (std::bad_alloc const&) { forfeit(from, to); }
    }
    /// Called when the resource `name` frees the block at `from`. Removes the region of the block,
    /// unless a captured graph may use the block. Keeps the record of the block, because `restore`
    /// needs the record if the resource refuses the free.
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
    /// Removes the records and regions of the blocks that overlap [from, to). The region of a live
    /// block stays if a capture allocated the block, because the captured graph may be launched
    /// later.
    void free_all(address from, address to) noexcept {
        try {
            for_overlapping(blocks_, from, to, [&](auto b) {
                block const& is = b->second;
                if (is.captured && is.has_region && is.frees == 0) { keep_block(b); }
                end_block(b);
            });
        } catch (std::bad_alloc const&) { forfeit(from, to); }
    }
    /// Undoes one `free` of the block at `from`, which the resource `name` has refused.
    void restore(address from, char const* name) noexcept {
        auto const b = blocks_.find(from);
        if (b == blocks_.end() || !same_name(b->second.resource, name)) { return; }
        block& is = b->second;
        if (is.frees > 0 && --is.frees == 0 && is.has_region) { add_regions(from, is.end, is.tag); }
    }

    /// Removes the records of the blocks that overlap [from, to), and their regions at the tool.
    void remove_blocks(address from, address to) noexcept {
        for_overlapping(blocks_, from, to, [&](auto b) { end_block(b); });
    }
    /// Removes the blocks that overlap [from, to) from this table and from the NVTX tool. Also
    /// removes the overlapping regions that are kept for captured graphs.
    void end_blocks(address from, address to) noexcept {
        remove_blocks(from, to);
        for_overlapping(kept_, from, to, [&](auto k) { end_kept(k); });
    }
    /// Returns true if a captured graph may use memory in [from, to). Also returns true if
    /// `forfeit` has dropped the records of a heap there, so that the table cannot tell.
    [[nodiscard]] bool keeps(address from, address to) noexcept {
        bool any = false;
        for_overlapping(kept_, from, to, [&](auto) { any = true; });
        for_overlapping(heaps_, from, to, [&](auto h) { any |= h->second.whole; });
        return any;
    }
    /// Removes the regions in [from, to) that are kept for captured graphs, here and at the tool.
    /// If a region extends beyond the range, its outer part stays.
    void forget_kept(address from, address to) noexcept {
        try {
            take_kept(from, to);
        } catch (std::bad_alloc const&) { forfeit(from, to); }
    }
    /// Called if there is no host memory for a record. Makes each heap that overlaps [from, to) one
    /// region, so that the tool permits every access to the heap.
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
            // Permits access to the whole heap. If the heap were removed instead, compute-sanitizer
            // 13.0 would report each access to the chunk.
            add_regions(h->first, h->second.end);
            h->second.whole = true;
        });
    }

private:
    struct heap {
        address   end = 0;
        nvtx_heap is{};
        bool      ended = false; ///< true if kept for a captured graph after its chunk was removed
        bool      whole = false; ///< true if one region covers the heap (see `forfeit`)
    };
    struct block {
        address     end        = 0;
        char const* resource   = "";
        unsigned    frees      = 0;     ///< number of frees that were not refused; 0 if live
        bool        has_region = true;  ///< false if a region in `kept_` contains the block
        bool        captured   = false; ///< true if a capture allocated the block
        memory_tag  tag{};
    };
    /// A region that is kept because a captured graph may use the memory.
    struct kept_region {
        address    end = 0;
        memory_tag tag{}; ///< unknown if the region was merged from several
    };

    [[nodiscard]] static void const* pointer(address at) noexcept {
        return reinterpret_cast<void const*>(at);
    }
    /// Registers the parts of [from, to) that lie in heaps as regions with the name of `tag`. Skips
    /// a heap that one region covers already.
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
    void end_kept(std::map<address, kept_region>::iterator k) noexcept {
        remove_regions(k->first, k->second.end);
        kept_.erase(k);
    }
    void drop_heap(std::map<address, heap>::iterator h) noexcept {
        end_blocks(h->first, h->second.end);
        if (h->second.whole) { nvtx_heap::remove_region(pointer(h->first)); }
        h->second.is.remove();
        heaps_.erase(h);
    }
    /// Removes the regions in [from, to) from `kept_`. If a region extends beyond the range, its
    /// outer part stays. Throws `std::bad_alloc`.
    void take_kept(address from, address to) {
        for_overlapping(kept_, from, to, [&](auto k) {
            auto const [begin, old] = *k;
            end_kept(k);
            if (begin < from) { keep(begin, kept_region{from, old.tag}); }
            if (to < old.end) { keep(to, old); }
        });
    }
    void keep(address from, kept_region is) {
        kept_.insert_or_assign(from, is);
        add_regions(from, is.end, is.tag);
    }
    /// Looks for regions that are kept for captured graphs and overlap the block [from, to). If
    /// there are any, joins them and the block to one kept region, and returns true.
    [[nodiscard]] bool reuse_kept(address from, address to) {
        address begin = from, end = to;
        bool    any = false;
        for_overlapping(kept_, from, to, [&](auto k) {
            any   = true;
            begin = std::min(begin, k->first);
            end   = std::max(end, k->second.end);
        });
        if (!any) { return false; }
        auto const first = kept_.find(begin);
        // The block lies in one kept region already, so the tool needs no change.
        if (first != kept_.end() && first->second.end == end) { return true; }
        for_overlapping(kept_, from, to, [&](auto k) { end_kept(k); });
        keep(begin, kept_region{end, {}});
        return true;
    }
    /// Moves the region of the block `b` to `kept_`, because a captured graph may use the memory.
    /// The region then stays registered with the tool when the block is freed.
    void keep_block(std::map<address, block>::iterator b) {
        kept_.insert_or_assign(b->first, kept_region{b->second.end, b->second.tag});
        b->second.has_region = false;
    }

    std::map<address, heap>        heaps_;
    std::map<address, block>       blocks_;
    std::map<address, kept_region> kept_;
};

} // namespace detail
} // namespace vram
