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

/// The heaps and regions of the resources that an observer hears of.
///
/// A chunk is a heap unless it lies in one: the chunks of the lowest observed resource are heaps. A
/// block is a region unless it is a chunk of another observed resource: the blocks of the uppermost
/// resource are regions. A block over the border of two chunks, which a chunk of virtual memory has
/// if it grew, is one region in each.
///
/// Memory stays a region for a graph until it is allocated outside of a capture, or its chunk ends:
/// memory that is freed during a capture, and memory that a capture allocates, if it is freed by
/// `all_freed`, or by `freed` with `until_reset`.
///
/// A free may be refused afterwards. So the record of a freed block stays until the memory is
/// allocated again, or its chunk ends.
///
/// Nothing is sent to the tool after the process has begun to end, and in a forked child.
///
/// Failure   The constructor throws `std::bad_alloc`. `follow` never throws. If there is no host
///           memory for the record of a block, the heaps in which the block lies end, and the tool
///           checks them as whole chunks.
/// Threads   Any thread may call any function. One lock.
class nvtx_heap_books {
    using address = std::uintptr_t;

public:
    nvtx_heap_books() { process_exit::watch(); }
    nvtx_heap_books(nvtx_heap_books&&) = delete;
    ~nvtx_heap_books() {
        if (may_call()) { drop_heaps(0, ~address{0}); }
    }

    /// Returns true if a tool has accepted a chunk that has not ended.
    [[nodiscard]] bool active() const noexcept { return active_.load(std::memory_order_relaxed); }

    template <class Stream>
    void follow(memory_event<Stream> const& e) noexcept {
        using kind = memory_event_kind;
        if (!may_call()) { return; }
        address const from = number(e.memory), to = from + e.bytes;
        switch (e.kind) {
        case kind::allocated: return allocate(from, to, e.name, captures(e));
        case kind::freed: return free(from, e.name, captures(e), e.until_reset);
        default: break;
        }
        std::lock_guard const held{mutex_};
        switch (e.kind) {
        case kind::free_refused: return restore(from, e.name);
        case kind::all_freed: return free_all(from, to);
        case kind::chunk_added: return add_chunk(from, to, e.name, e.resource);
        case kind::chunk_removed: return remove_chunk(from, to, e.name);
        case kind::pages_mapped: return cover(from, to); // parts that the tool refused
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
    };
    struct block {
        address     end        = 0;
        char const* resource   = "";
        unsigned    frees      = 0;     ///< number of frees that were not refused
        bool        has_region = true;  ///< false if its memory is in `kept_`
        bool        captured   = false; ///< a capture allocated the block
    };
    /// A chunk of a resource that lies in a heap.
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
    /// Returns true if the call of an event belongs to a capture.
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

    /// Registers a range as a region in each heap that it overlaps, with the name of a tag.
    void add_regions(address from, address to, memory_tag tag = {}) noexcept {
        for_overlapping(heaps_, from, to, [&](auto h) {
            address const begin = std::max(from, h->first);
            h->second.is.add_region(pointer(begin), std::min(to, h->second.end) - begin);
            if (tag.known()) { nvtx_heap::name_region(pointer(begin), tag.path()); }
        });
    }
    void remove_regions(address from, address to) noexcept {
        for_overlapping(heaps_, from, to, [&](auto h) {
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
    /// Ends the blocks that overlap [from, to), and the regions that are kept for graphs.
    void end_blocks(address from, address to) noexcept {
        for_overlapping(blocks_, from, to, [&](auto b) { end_block(b); });
        for_overlapping(kept_, from, to, [&](auto k) { end_kept(k); });
    }
    /// For memory without a record: ends the heaps that overlap [from, to), and those that share a
    /// block with them, so that the tool reports no valid use of the memory.
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
        drop_heaps(from, to);
    }
    void drop_heaps(address from, address to) noexcept {
        for_overlapping(heaps_, from, to, [&](auto h) {
            end_blocks(h->first, h->second.end);
            h->second.is.remove();
            heaps_.erase(h);
        });
        active_.store(!heaps_.empty(), std::memory_order_relaxed);
    }

    void allocate(address from, address to, char const* name, bool captured) noexcept {
        if (!active()) { return; }
        std::lock_guard const held{mutex_};
        bool                  any = false;
        for_overlapping(heaps_, from, to, [&](auto) { any = true; });
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
    /// For a block that is allocated outside of captures, in memory of graphs that were forgotten.
    /// The parts of that memory before and behind the block may belong to other graphs.
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
    /// For a block that a capture allocates in memory that it has freed: the graph accesses both
    /// blocks. Unites the kept memory that overlaps [from, to) with it. Returns false if there is
    /// none.
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
        // One region contains all.
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
    /// Moves the memory of a block, which has a region, to `kept_`.
    void keep_block(std::map<address, block>::iterator b) {
        kept_.insert_or_assign(b->first, b->second.end);
        b->second.has_region = false;
    }
    /// Ends the blocks that overlap [from, to), except for the memory of graphs.
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

    void add_chunk(address from, address to, char const* name, void const* resource) noexcept {
        bool within = false;
        for_overlapping(heaps_, from, from + 1, [&](auto) { within = true; });
        if (!within) { return cover(from, to); }
        try {
            inner_.push_back({from, to, name, resource});
        } catch (std::bad_alloc const&) { return forfeit(from, to); }
        // The block that contains the chunk is not used as a whole, so its region ends.
        for_overlapping(blocks_, from, from + 1, [&](auto b) { end_block(b); });
    }
    /// Registers the parts of [from, to) that are in no heap.
    void cover(address from, address to) noexcept {
        while (from < to) {
            auto const after = heaps_.upper_bound(from);
            if (after != heaps_.begin() && std::prev(after)->second.end > from) {
                from = std::prev(after)->second.end;
                continue;
            }
            address const   end  = after != heaps_.end() ? std::min(to, after->first) : to;
            nvtx_heap const made = nvtx_heap::add(pointer(from), end - from);
            try {
                if (made.known()) { heaps_.emplace_hint(after, from, heap{end, made}); }
            } catch (std::bad_alloc const&) { made.remove(); } // the tool checks it as a whole
            from = end;
        }
        active_.store(!heaps_.empty(), std::memory_order_relaxed);
    }
    void remove_chunk(address from, address to, char const* name) noexcept {
        // The upper of two resources removes its chunk first.
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
        end_blocks(from, to);
        if (!inner) { drop_heaps(from, to); }
    }

    owning_process             owner_;
    std::atomic<bool>          active_{false};
    std::mutex                 mutex_;
    std::map<address, heap>    heaps_;
    std::map<address, block>   blocks_;
    std::map<address, address> kept_; ///< regions without a block, for graphs
    std::vector<inner_chunk>   inner_;
};

} // namespace detail
} // namespace vram
