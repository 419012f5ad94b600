// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `nvtx_heap_books` registers chunks as heaps and blocks as regions, by the events of an observer.

#include <vram/base/core/process_exit.hpp>
#include <vram/base/tag.hpp> // current_tag, memory_tag
#include <vram/concepts/core/owning_process.hpp>
#include <vram/concepts/observer.hpp> // memory_event, memory_event_kind
#include <vram/interop/core/nvtx_heap.hpp>

#include <algorithm>   // max, min
#include <atomic>      // atomic
#include <cstddef>     // size_t, ptrdiff_t
#include <cstdint>     // uintptr_t
#include <cstring>     // strcmp
#include <iterator>    // prev
#include <map>         // map
#include <mutex>       // mutex, lock_guard
#include <new>         // bad_alloc
#include <type_traits> // is_same_v
#include <utility>     // pair
#include <vector>      // vector

namespace vram {
namespace detail {

/// Registers chunks and blocks with a tool of NVTX, such as compute-sanitizer, by the events of an
/// observer. A *heap* is memory that the tool checks; a *region* is a part of a heap that may be
/// used.
///
/// A chunk is registered as a heap, unless it lies in a heap: so the heaps are the chunks of the
/// lowest observed resource. A block is registered as a region, unless it is a chunk of another
/// observed resource: so the regions are the blocks of the uppermost resource. A chunk of virtual
/// memory that grew has several heaps, and a block across their border is one region in each.
///
/// After its free, memory stays a region for a captured graph in two cases: if a capture frees the
/// memory; or if a capture has allocated the memory, and it is freed by `all_freed` or by `freed`
/// with `until_reset`. The region ends when the memory is allocated outside of a capture, or when
/// its chunk is removed outside of a capture. If a capture removes the chunk, the upstream keeps
/// the memory for the graph, and the heap stays until `forget_captures`, or until a chunk is added
/// that overlaps it. The tool removes a heap by itself if CUDA frees its memory: a later call for
/// the heap would be an error.
///
/// A free may be refused afterwards. So the record of a freed block stays until the memory is
/// allocated again, or its chunk is removed.
///
/// Nothing is sent to the tool after the process has begun to end, and in a forked child.
///
/// Failure   The constructor throws `std::bad_alloc`. `follow` never throws. If there is no host
///           memory for the record of a block, each heap in which the block lies becomes one
///           region, so that the tool checks it as a whole.
/// Threads   Any thread may call any function. One lock.
class nvtx_heap_books {
    using address = std::uintptr_t;

public:
    nvtx_heap_books() { process_exit::watch(); }
    nvtx_heap_books(nvtx_heap_books&&) = delete;
    ~nvtx_heap_books() {
        if (!may_call()) { return; }
        for_overlapping(heaps_, 0, ~address{0}, [&](auto h) {
            if (!h->second.ended) { drop_heap(h); } // CUDA has freed the others, or will
        });
    }

    /// Returns true if a chunk is registered as a heap with an NVTX tool.
    [[nodiscard]] bool active() const noexcept { return active_.load(std::memory_order_relaxed); }

    /// Removes the heaps of the chunks that captures have removed, because the upstream is about to
    /// free their memory.
    void forget_captures() noexcept {
        if (!may_call()) { return; }
        std::lock_guard const held{mutex_};
        for_overlapping(heaps_, 0, ~address{0}, [&](auto h) {
            if (h->second.ended) { drop_heap(h); }
        });
        active_.store(!heaps_.empty(), std::memory_order_relaxed);
    }
    template <class Stream>
    void follow(memory_event<Stream> const& e) noexcept {
        using kind = memory_event_kind;
        if (!may_call()) { return; }
        address const from = number(e.memory), to = from + e.bytes;
        switch (e.kind) {
        case kind::allocated: return allocate(from, to, e.name, captures(e));
        case kind::freed: return free(from, e.name, captures(e), e.until_reset);
        case kind::chunk_added: return add_chunk(from, to, e.name, e.resource, captures(e));
        case kind::chunk_removed: return remove_chunk(from, to, e.name, captures(e));
        default: break;
        }
        std::lock_guard const held{mutex_};
        switch (e.kind) {
        case kind::free_refused: return restore(from, e.name);
        case kind::all_freed: return free_all(from, to);
        // The tool may have refused the memory as long as it had no pages.
        case kind::pages_mapped: return cover(from, to);
        default: return;
        }
    }

private:
    [[nodiscard]] bool may_call() const noexcept {
        return owner_.is_current() && !process_exit::began();
    }

    struct heap {
        address   end = 0;
        nvtx_heap is{};
        bool      ended = false; ///< a capture has removed its chunk: a graph uses the memory
        bool      whole = false; ///< it is one region, because host memory was lacking
    };
    struct block {
        address     end        = 0;
        char const* resource   = "";
        unsigned    frees      = 0;     ///< number of frees that were not refused; 0 if live
        bool        has_region = true;  ///< false if a region of `kept_` contains the block
        bool        captured   = false; ///< true if a capture allocated the block
    };
    /// A chunk that is not registered as a heap, because it lies in a chunk that is one.
    struct inner_chunk {
        address     begin;
        address     end;
        char const* name;
        void const* resource;
    };

    [[nodiscard]] static address number(void const* p) noexcept {
        return reinterpret_cast<address>(p);
    }
    [[nodiscard]] static void const* pointer(address at) noexcept {
        return reinterpret_cast<void const*>(at);
    }
    [[nodiscard]] static bool same(char const* a, char const* b) noexcept {
        return a == b || std::strcmp(a, b) == 0;
    }
    /// Returns true if the stream of the event is being captured.
    template <class Stream>
    [[nodiscard]] bool captures([[maybe_unused]] memory_event<Stream> const& e) const noexcept {
        if constexpr (requires(Stream const& s) { s.capturing(); }) {
            try {
                return active() && e.stream.has_value() && e.stream->capturing();
            } catch (...) {} // a stream that was destroyed is not captured
        }
        return false;
    }

    /// Calls `visit(range)` for each range of a map that overlaps [from, to). `visit` may erase it.
    template <class Ranges, class Visit>
    static void for_overlapping(Ranges& ranges, address from, address to, Visit const& visit) {
        auto each = ranges.lower_bound(from);
        if (each != ranges.begin() && end_of(*std::prev(each)) > from) { --each; }
        while (each != ranges.end() && each->first < to) {
            auto const now = each++;
            visit(now);
        }
    }
    template <class Value>
    [[nodiscard]] static address end_of(std::pair<address const, Value> const& range) noexcept {
        if constexpr (std::is_same_v<Value, address>) {
            return range.second;
        } else {
            return range.second.end;
        }
    }

    /// Registers [from, to) with the NVTX tool as memory that may be used: as one region in each
    /// heap (registered chunk) that it overlaps. The regions get the name of the tag, if it has
    /// one.
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
    /// Removes the records and the regions of the blocks that overlap [from, to), and the regions
    /// of freed memory there that were kept for captured graphs.
    void end_blocks(address from, address to) noexcept {
        for_overlapping(blocks_, from, to, [&](auto b) { end_block(b); });
        for_overlapping(kept_, from, to, [&](auto k) { end_kept(k); });
    }
    /// Called if there is no host memory for a record of memory in [from, to). Makes one region of
    /// each heap (registered chunk) that overlaps the range, and of those that share a block with
    /// it, so that memcheck reports no valid access to these chunks. A heap that was removed would
    /// not do: compute-sanitizer 13.0 then reports every access to its memory.
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
            if (h->second.ended) { return; }
            add_regions(h->first, h->second.end);
            h->second.whole = true;
        });
    }
    void drop_heap(std::map<address, heap>::iterator h) noexcept {
        end_blocks(h->first, h->second.end);
        if (h->second.whole) { nvtx_heap::remove_region(pointer(h->first)); }
        h->second.is.remove();
        heaps_.erase(h);
    }
    void drop_heaps(address from, address to) noexcept {
        for_overlapping(heaps_, from, to, [&](auto h) { drop_heap(h); });
        active_.store(!heaps_.empty(), std::memory_order_relaxed);
    }

    void allocate(address from, address to, char const* name, bool captured) noexcept {
        if (!active()) { return; }
        std::lock_guard const held{mutex_};
        bool                  any = false;
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
    /// Ends the regions in [from, to) that were kept for captured graphs, because the resource has
    /// forgotten these graphs. The parts of such regions before `from` and behind `to` stay: other
    /// graphs may use them.
    void take_kept(address from, address to) {
        for_overlapping(kept_, from, to, [&](auto k) {
            auto const [begin, end] = *k;
            end_kept(k);
            if (begin < from) { keep(begin, from); }
            if (to < end) { keep(to, end); }
        });
    }
    void forget_kept(address from, address to) noexcept {
        try {
            take_kept(from, to);
        } catch (std::bad_alloc const&) { forfeit(from, to); }
    }
    void keep(address from, address to) {
        kept_.insert_or_assign(from, to);
        add_regions(from, to);
    }
    /// Called for a block [from, to) that a capture allocates. If it overlaps freed memory that is
    /// kept for a captured graph, unites the block and that memory to one region, because the graph
    /// uses both. Returns false if there is no such memory.
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
        // One kept region already contains the block.
        if (first != kept_.end() && first->second == end) { return true; }
        for_overlapping(kept_, from, to, [&](auto k) { end_kept(k); });
        keep(begin, end);
        return true;
    }
    void free(address from, char const* name, bool captured, bool until_reset) noexcept {
        if (!active()) { return; }
        std::lock_guard const held{mutex_};
        auto const            b = blocks_.find(from);
        if (b == blocks_.end() || !same(b->second.resource, name)) { return; }
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
    /// Keeps the region of a block for a captured graph: records it in `kept_`.
    void keep_block(std::map<address, block>::iterator b) {
        kept_.insert_or_assign(b->first, b->second.end);
        b->second.has_region = false;
    }
    /// Removes the blocks that overlap [from, to), and their regions. The region of a live block
    /// that a capture allocated stays, because the captured graph may use it.
    void free_all(address from, address to) noexcept {
        try {
            for_overlapping(blocks_, from, to, [&](auto b) {
                block const& is = b->second;
                if (is.captured && is.has_region && is.frees == 0) { keep_block(b); }
                end_block(b);
            });
        } catch (std::bad_alloc const&) { forfeit(from, to); }
    }
    /// Restores the block at `from`, the free of which was refused.
    void restore(address from, char const* name) noexcept {
        auto const b = blocks_.find(from);
        if (b == blocks_.end() || !same(b->second.resource, name) || b->second.frees == 0) {
            return;
        }
        if (--b->second.frees == 0 && b->second.has_region) { add_regions(from, b->second.end); }
    }

    void add_chunk(address from, address to, char const* name, void const* resource,
                   bool captured) noexcept {
        std::lock_guard const held{mutex_};
        for_overlapping(heaps_, from, to, [&](auto h) {
            if (!h->second.ended) { return; }
            // In a capture the memory was not freed by CUDA: the upstream reuses it for the graph.
            if (captured) { return drop_heap(h); }
            for_overlapping(blocks_, h->first, h->second.end, [&](auto b) { blocks_.erase(b); });
            for_overlapping(kept_, h->first, h->second.end, [&](auto k) { kept_.erase(k); });
            heaps_.erase(h);
        });
        bool within = false;
        for_overlapping(heaps_, from, from + 1, [&](auto) { within = true; });
        if (!within) { return cover(from, to); }
        try {
            inner_.push_back({from, to, name, resource});
        } catch (std::bad_alloc const&) { return forfeit(from, to); }
        // Only blocks in the chunk may be used, so the region of the upstream's block, which
        // contains the chunk, ends.
        for_overlapping(blocks_, from, from + 1, [&](auto b) { end_block(b); });
    }
    /// Registers the parts of [from, to) that are in no heap as new heaps with the NVTX tool.
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
        active_.store(!heaps_.empty(), std::memory_order_relaxed);
    }
    void remove_chunk(address from, address to, char const* name, bool captured) noexcept {
        std::lock_guard const held{mutex_};
        // Two resources with one name may have chunks in the range. The upper resource removes its
        // chunks first, and these are the last ones in `inner_`.
        void const* owner = nullptr;
        bool        inner = false;
        for (std::size_t i = inner_.size(); i-- != 0;) {
            inner_chunk const& c = inner_[i];
            if (c.begin < from || c.end > to || !same(c.name, name)) { continue; }
            if (inner && c.resource != owner) { continue; }
            owner = c.resource;
            inner = true;
            inner_.erase(inner_.begin() + static_cast<std::ptrdiff_t>(i));
        }
        for_overlapping(blocks_, from, to, [&](auto b) { end_block(b); });
        bool in_graph = false;
        if (captured) {
            for_overlapping(kept_, from, to, [&](auto) { in_graph = true; });
        }
        if (in_graph) {
            if (inner) { return; }
            for_overlapping(heaps_, from, to, [&](auto h) { h->second.ended = true; });
        } else if (inner) {
            forget_kept(from, to);
        } else {
            end_blocks(from, to);
            drop_heaps(from, to);
        }
    }

    owning_process           owner_;
    std::atomic<bool>        active_{false};
    std::mutex               mutex_;
    std::map<address, heap>  heaps_;
    std::map<address, block> blocks_;
    /// By address, the end of each region that is kept for captured graphs.
    std::map<address, address> kept_;
    std::vector<inner_chunk>   inner_;
};

} // namespace detail
} // namespace vram
