// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slab_base` is the common part of `slab` and `binned`: heaps of one block size each, over one
/// upstream.

#include <vram/base/error.hpp> // report_error
#include <vram/concepts/core/and_upstream.hpp>
#include <vram/concepts/core/is_captured.hpp>
#include <vram/concepts/core/is_ending.hpp>
#include <vram/concepts/sited.hpp>
#include <vram/pool/core/growing_base.hpp>
#include <vram/pool/core/slab_heaps.hpp>
#include <vram/pool/core/stream_slabs.hpp>
#include <vram/pool/free_pieces.hpp>

#include <bit>      // countr_zero
#include <concepts> // assignable_from
#include <cstddef>
#include <utility>

namespace vram {
namespace detail {

/// The common part of `slab` and `binned`: any number of `slab_heap`s (each has blocks of one size)
/// with one lock.
///
/// Failure   As `slab`.
/// Threads   As `slab`.
template <synchronous_resource Upstream>
class slab_base : public growing_base<Upstream> {
    using base = growing_base<Upstream>;

public:
    using typename base::platform;
    using typename base::stream;

    /// Returns true if `p` lies in one of the chunks, in a live block or not.
    [[nodiscard]] bool owns(void const* p) const {
        auto const held = this->lock_.hold();
        return heaps_.owns(p);
    }
    /// Returns the usage. Cost: a walk over the blocks of each chunk with a freed block that a
    /// stream or captured graph may still use.
    [[nodiscard]] memory_usage usage() const {
        resource_call<platform> const own;
        auto const                    held = this->lock_.hold();
        return figures();
    }
    /// Returns the number and the sizes of the free pieces of memory. Cost: at most a look at every
    /// block.
    [[nodiscard]] free_pieces free_memory() const {
        auto const held = this->lock_.hold();
        return heaps_.free_memory();
    }
    /// Returns idle chunks (chunks without a live block) to the upstream while more than `keep`
    /// bytes are free. Then trims the upstream. The host may wait. Returns the number of bytes
    /// given back.
    std::size_t trim(std::size_t keep = 0) {
        auto const  seen  = this->seen();
        auto const  waits = seen.watch();
        std::size_t back  = 0;
        {
            auto held = this->lock_.hold();
            streams_.poll();
            for (slab_heap& heap : heaps_) {
                while (heaps_.free_bytes() > keep) {
                    slab_heap::chunk* const gone = streams_.idle(heap, held);
                    if (gone == nullptr) { break; }
                    back += gone->bytes;
                    drop(heap, gone, held);
                }
            }
        }
        return this->trim_beneath(back);
    }
    /// Must be called before a raw `cudaStream_t` is destroyed. Records an event behind the frees
    /// on `s`, so that other streams can reuse the freed memory.
    void retire(stream s) {
        resource_call<platform> const own;
        and_upstream::retire(this->upstream_, s, [&] {
            auto const held = this->lock_.hold();
            streams_.retire(s);
        });
    }
    /// Frees the memory that this resource keeps for captured graphs. Graphs that use this memory
    /// must not be launched again, and no running capture may use this resource. If there may be
    /// such memory, the host first waits for the devices of this resource's streams.
    ///
    /// Failure   An error of a wait is thrown, and the memory stays kept.
    /// Streams   Launches of these graphs on any other device must be complete before the call.
    void forget_captures() {
        auto const seen = this->seen();
        and_upstream::forget_captures(this->upstream_, [&] {
            auto const waits = seen.watch();
            auto       held  = this->lock_.hold();
            if (streams_.finish_graphs(held)) {
                for (slab_heap& heap : heaps_) { heap.end_captures(); }
            }
        });
    }

protected:
    using typename base::guard;
    using typename base::request;
    using entry = slab_heap::entry;

    slab_base(char const* name, Upstream upstream, std::size_t max_size, event_policy events,
              bool graphs)
        : base{name, std::move(upstream), max_size}, streams_{events, graphs} {}
    slab_base(slab_base&&) = default;
    slab_base& operator=(slab_base&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        base::operator=(std::move(other));
        streams_ = std::move(other.streams_);
        heaps_   = std::move(other.heaps_);
        return *this;
    }
    ~slab_base() { give_everything_back(); }

    /// Allocates a block of `heap`, from its free blocks or a new chunk. On failure, throws if
    /// `Throwing`, and otherwise returns null.
    template <bool Throwing>
    void* get(slab_heap& heap, request const& r) {
        std::size_t count = 0;
        {
            auto held = this->lock_.hold();
            if (void* const p = take_unwaited(heap, r, held)) { return p; }
            if (void* const p = take(heap, r, held)) { return p; }
            count = heap.wanted();
        }
        for (; count != 0; count /= 2) {
            if (void* const p = grow_by<false>(heap, count, r)) { return p; }
        }
        // `trim` may make the host wait, which is not allowed during a capture.
        if (!is_captured<platform>(r.on)) {
            if (trim() != 0) {
                if (void* const p = grow_by<false>(heap, 1, r)) { return p; }
            }
        }
        {
            // Tries once more: other threads may have freed blocks since the lock was released.
            auto held = this->lock_.hold();
            if (void* const p = take(heap, r, held)) { return p; }
        }
        if constexpr (Throwing) {
            return this->or_throw(
                r, [&] { return grow_by<true>(heap, 1, r); },
                [&] { return heaps_.largest_free(); });
        } else {
            return nullptr;
        }
    }
    /// Allocates a chunk of `count` blocks, and returns one of its blocks for the request `r`.
    /// Returns null if the chunk would exceed `max_size`. If the upstream refuses the chunk, throws
    /// if `Throwing`, and otherwise returns null.
    template <bool Throwing>
    void* grow_by(slab_heap& heap, std::size_t count, request const& r) {
        std::size_t const   size  = count * heap.stride();
        stream const* const order = this->order_of(r.on);
        return this->template grow<Throwing>(size, heap.alignment(), order, [&](void* at) {
            return hand_out(heap, streams_.add(heap, at, size, order, r.on), r);
        });
    }
    /// Allocates chunks for `heap` until this resource has reserved `bytes` bytes, or until another
    /// block would exceed `max_size`.
    void grow_ahead(slab_heap& heap, std::size_t bytes) {
        while (this->budget_.usage.reserved < bytes) {
            std::size_t const missing = bytes - this->budget_.usage.reserved;
            std::size_t const whole   = (missing - 1) / heap.stride() + 1;
            std::size_t const room    = this->room() / heap.stride();
            std::size_t const count   = whole < room ? whole : room;
            if (count == 0) { return; } // another whole block would exceed `max_size`
            std::size_t const size = heap.stride() * (count < heap.most() ? count : heap.most());
            void* const       added =
                this->template grow<true>(size, heap.alignment(), nullptr, [&](void* at) {
                    heap.add(at, size, nullptr);
                    return at;
                });
            if (added == nullptr) { return; } // other threads have reserved up to `max_size`
        }
    }

    /// Frees the live block of `heap` at `p`. Returns false for an invalid free. The lock must be
    /// held.
    bool put(slab_heap& heap, void* p, std::size_t bytes, std::size_t alignment,
             stream const* on) noexcept {
        entry* const n = heap.find(p);
        if (n == nullptr || n->asked != bytes || std::size_t{1} << n->shift != alignment) {
            return false;
        }
        if (streams_.give(heap, n, on)) { this->count_back(bytes, heap.stride()); }
        return true;
    }
    /// Returns the usage. The lock must be held.
    [[nodiscard]] memory_usage figures() const {
        memory_usage now = this->budget_.usage;
        now.events       = streams_.events();
        now.waits        = streams_.waits();
        now.largest_free = heaps_.largest_free();
        for (slab_heap const& heap : heaps_) {
            now.pending += streams_.pending(heap) * heap.stride();
        }
        return now;
    }
    /// Reports live blocks as leaks, waits for the streams, and returns all chunks to the upstream.
    /// Does nothing if the process is ending.
    void give_everything_back() noexcept {
        if (is_ending<platform>() || heaps_.chunk_count() == 0) { return; }
        std::size_t const out = this->budget_.usage.live;
        if (out != 0) {
            report_error({.kind     = error_kind::leak,
                          .bytes    = out,
                          .blocks   = heaps_.blocks_live(),
                          .resource = this->name_});
        }
        auto       held  = this->lock_.hold();
        auto const seen  = this->seen();
        auto const waits = seen.watch();
        streams_.wait_for_all(out != 0, held);
        held.unlock();
        if (out != 0) { this->await_memory(); }
        for (slab_heap& heap : heaps_) {
            for (slab_heap::chunk const* c : heap.chunks()) {
                seen.notify(memory_event_kind::chunk_removed, c->base, c->bytes);
                sited{this->upstream_}.deallocate_sync(c->base, c->bytes, heap.alignment());
            }
        }
        heaps_.clear();
    }

    stream_slabs<platform> streams_;
    slab_heaps             heaps_;

private:
    void* take(slab_heap& heap, request const& r, guard& held) {
        entry* const n = streams_.take(heap, r.on, held);
        return n != nullptr ? hand_out(heap, n, r) : nullptr;
    }
    /// Allocates a free block that needs no wait. If all free blocks need a wait, allocates a block
    /// in a new chunk from `try_allocate_ready` instead. Returns null on failure, or if the
    /// upstream does not have `try_allocate_ready`.
    void* take_unwaited(slab_heap& heap, request const& r, guard& held) {
        if constexpr (reusing_resource<Upstream>) {
            bool         must_wait = false;
            entry* const n =
                r.on != nullptr ? streams_.take(heap, r.on, held, &must_wait) : nullptr;
            if (n != nullptr) { return hand_out(heap, n, r); }
            if (!must_wait) { return nullptr; }
            std::size_t const most = heap.wanted();
            held.unlock();
            void* p = grow_ready_by(heap, most, r);
            if (p == nullptr && most > 1) { p = grow_ready_by(heap, 1, r); }
            held.lock();
            return p;
        }
        return nullptr;
    }
    void* grow_ready_by(slab_heap& heap, std::size_t count, request const& r)
        requires reusing_resource<Upstream>
    {
        std::size_t const size = count * heap.stride();
        return this->grow_ready(size, heap.alignment(), *r.on, [&](void* at) {
            return hand_out(heap, streams_.add(heap, at, size, r.on, r.on), r);
        });
    }
    void* hand_out(slab_heap& heap, entry* n, request const& r) noexcept {
        n->asked = r.asked;
        n->shift = static_cast<unsigned char>(std::countr_zero(r.alignment));
        this->count_out(r.asked, heap.stride());
        return n->address;
    }
    void drop(slab_heap& heap, slab_heap::chunk* gone, guard& held) {
        void* const       at   = gone->base;
        std::size_t const size = gone->bytes;
        heap.remove(gone);
        this->give_back(at, size, heap.alignment(), held);
    }
};

} // namespace detail
} // namespace vram
