// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pool_search` finds memory for a request that the cache of a pool cannot serve.

#include <vram/concepts/core/is_captured.hpp>
#include <vram/concepts/powers.hpp> // reusing_resource

namespace vram {
namespace detail {

/// The ways in which a pool looks for memory, from the cheapest to the most expensive. The
/// functions get the `pool_core` as an argument, with its lock held.
///
/// Failure   The functions return null if all ways fail. They throw `std::bad_alloc` if host memory
///           cannot be allocated, and errors of the platform.
/// Threads   Any number of threads may call concurrently.
/// Streams   For a stream that is being captured, ways that query or wait are left out.
/// Cost      `take` searches the free lists by size. `make_room` may call the upstream and wait on
///           the host.
struct pool_search {
    /// Allocates a block from the reserved memory. If all blocks found need a wait, allocates a
    /// chunk that the upstream (if it has `try_allocate_ready`) has ready for the stream. If there
    /// is no such chunk, makes the stream, or the host for a request without a stream, wait for a
    /// block. Returns null if a search of limited length finds no block. Returns with the lock
    /// held.
    template <class Core>
    static void* take(Core& core, typename Core::request const& r, typename Core::guard& held) {
        if constexpr (reusing_resource<typename Core::upstream_type>) {
            bool must_wait = false;
            if (r.on != nullptr) {
                void* const p = core.heap_.take(r, held, false, &must_wait);
                if (p != nullptr || !must_wait) { return p; }
                held.unlock();
                void* const beneath = core.growth_.ready_chunk(core, r);
                held.lock();
                if (beneath != nullptr) { return beneath; }
            }
        }
        return core.heap_.take(r, held, false);
    }
    /// Tries all other ways, in this order: free blocks whose missing pages can be mapped, a query
    /// of the streams, a hole between large blocks, growing, for a small request the heap for large
    /// blocks (or the reverse), growing after another thread has remapped pages, growing after idle
    /// chunks were returned, waiting for everything that was freed. May return without the lock.
    template <class Core>
    static void* make_room(Core& core, typename Core::request const& r,
                           typename Core::guard& held) {
        auto&      chunks   = core.growth_.chunks();
        bool const captured = is_captured<typename Core::platform>(r.on);
        if (void* const p = chunks.take_partly_backed(core, r, captured, held)) { return p; }
        if (!captured) { core.heap_.poll_all(); }
        if (void* const p = core.heap_.take(r, held, true)) { return p; }
        if (!captured) {
            if (void* const p = chunks.take_in_hole(core, r)) { return p; }
        }
        held.unlock();
        if (void* const p = core.growth_.enlarge(core, r, captured)) { return p; }
        held.lock();
        void* p = core.heap_.take_elsewhere(r, held);
        // Waits while another thread changes mappings, because that may leave memory that can be
        // mapped.
        while (p == nullptr && !captured && chunks.await_others(held)) {
            held.unlock();
            p = chunks.grow_in_place(core, r, false, false);
            held.lock();
        }
        held.unlock();
        if (p != nullptr || captured) { return p; }
        if (core.trim() != 0) {
            if ((p = chunks.grow_in_place(core, r, false, false)) != nullptr) { return p; }
            if ((p = core.growth_.template new_chunk<false>(core, r, r.bytes, &r)) != nullptr) {
                return p;
            }
        }
        held.lock();
        core.heap_.finish(held);
        p = core.heap_.take(r, held, true);
        if (p == nullptr) { p = core.heap_.take_elsewhere(r, held); }
        held.unlock();
        return p;
    }
};

} // namespace detail
} // namespace vram
