// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `nvtx_heap_books` registers chunks as heaps and blocks as regions, by the events of an observer.

#include <vram/base/core/process_exit.hpp>
#include <vram/concepts/core/owning_process.hpp>
#include <vram/concepts/observer.hpp>         // memory_event, memory_event_kind
#include <vram/interop/core/nvtx_regions.hpp> // nvtx_regions, same_name

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>
#include <mutex>  // mutex, lock_guard
#include <new>    // bad_alloc
#include <vector> // vector

namespace vram {
namespace detail {

/// Tells an NVTX tool that checks accesses, such as compute-sanitizer, which memory may be used.
/// `follow` is called with each event of an observer. It registers each chunk of the lowest
/// resource as a *heap* (memory that the tool checks). It registers each block of the uppermost
/// resource as a *region* (a part of a heap that may be used). Any thread may call any function.
class nvtx_heap_books {
    using address = std::uintptr_t;

public:
    nvtx_heap_books() { process_exit::watch(); }
    nvtx_heap_books(nvtx_heap_books&&) = delete;
    ~nvtx_heap_books() {
        if (!may_call()) { return; }
        // Removes the heaps from the tool, except those that are kept for captured graphs. The tool
        // removes a kept heap by itself when CUDA frees the memory.
        table_.drop_all(false);
    }

    /// Returns true if at least one chunk is registered with an NVTX tool as a heap (memory that
    /// the tool checks).
    [[nodiscard]] bool active() const noexcept { return active_.load(std::memory_order_relaxed); }

    /// Removes the heaps from the tool that were kept for captured graphs. Called before the
    /// upstream frees their memory.
    void forget_captures() noexcept {
        if (!may_call()) { return; }
        std::lock_guard const held{mutex_};
        table_.drop_all(true);
        update_active();
    }
    /// Tells the NVTX tool about an event. If the event adds a block or a chunk, registers its
    /// memory. If the event frees a block or removes a chunk, removes its memory from the tool.
    template <class Stream>
    void follow(memory_event<Stream> const& e) noexcept {
        using kind = memory_event_kind;
        if (!may_call()) { return; }
        address const from = number(e.memory), to = from + e.bytes;
        bool const    adds = e.kind == kind::chunk_added || e.kind == kind::pages_mapped;
        if (!adds && !active()) { return; }
        bool const of_stream = e.kind == kind::allocated || e.kind == kind::freed ||
                               e.kind == kind::chunk_added || e.kind == kind::chunk_removed;
        bool const            captured = of_stream && captures(e);
        std::lock_guard const held{mutex_};
        switch (e.kind) {
        case kind::allocated: return table_.allocate(from, to, e.name, captured);
        case kind::freed: return table_.free(from, e.name, captured, e.until_reset);
        case kind::free_refused: return table_.restore(from, e.name);
        case kind::all_freed: return table_.free_all(from, to);
        case kind::chunk_added: add_chunk(from, to, e.name, e.resource, captured); break;
        case kind::chunk_removed: remove_chunk(from, to, e.name, captured); break;
        // Registers the mapped addresses that are in no heap yet. The tool may have refused them
        // before, when they had no physical memory.
        case kind::pages_mapped: table_.cover(from, to); break;
        default: return;
        }
        update_active();
    }

private:
    [[nodiscard]] bool may_call() const noexcept {
        return owner_.is_current() && !process_exit::began();
    }

    /// A chunk that is also a block of an observed upstream. It is no heap of its own, because its
    /// memory already belongs to a heap: a chunk of the upstream.
    struct inner_chunk {
        address     begin;
        address     end;
        char const* name;
        void const* resource;
    };

    [[nodiscard]] static address number(void const* p) noexcept {
        return reinterpret_cast<address>(p);
    }
    /// Returns true if the stream of the event `e` is being captured. Returns false if no heap is
    /// registered.
    template <class Stream>
    [[nodiscard]] bool captures([[maybe_unused]] memory_event<Stream> const& e) const noexcept {
        if constexpr (requires(Stream const& s) { s.capturing(); }) {
            try {
                return active() && e.stream.has_value() && e.stream->capturing();
            } catch (...) {} // a stream that was destroyed is not captured
        }
        return false;
    }

    void update_active() noexcept { active_.store(!table_.empty(), std::memory_order_relaxed); }
    void add_chunk(address from, address to, char const* name, void const* resource,
                   bool captured) noexcept {
        table_.replace_ended(from, to, captured);
        if (!table_.contains(from)) { return table_.cover(from, to); }
        try {
            inner_.push_back({from, to, name, resource});
        } catch (std::bad_alloc const&) { return table_.forfeit(from, to); }
        // The new chunk is also a block of an observed upstream. Removes the region of this block:
        // kernels may use only the blocks that the new chunk is divided into.
        table_.remove_blocks(from, from + 1);
    }
    void remove_chunk(address from, address to, char const* name, bool captured) noexcept {
        // The resource of the inner chunks that the loop erases. If two resources have the same
        // name, it is the upper one, which added its chunks last and removes its chunks first.
        void const* owner = nullptr;
        bool        inner = false;
        for (std::size_t i = inner_.size(); i-- != 0;) {
            inner_chunk const& c = inner_[i];
            if (c.begin < from || c.end > to || !same_name(c.name, name)) { continue; }
            if (inner && c.resource != owner) { continue; }
            owner = c.resource;
            inner = true;
            inner_.erase(inner_.begin() + static_cast<std::ptrdiff_t>(i));
        }
        table_.remove_blocks(from, to);
        if (captured && table_.keeps(from, to)) {
            if (!inner) { table_.keep_heaps(from, to); }
        } else if (inner) {
            table_.forget_kept(from, to);
        } else {
            table_.end_blocks(from, to);
            table_.drop_heaps(from, to);
        }
    }

    owning_process           owner_;
    std::atomic<bool>        active_{false};
    std::mutex               mutex_;
    nvtx_regions             table_;
    std::vector<inner_chunk> inner_;
};

} // namespace detail
} // namespace vram
