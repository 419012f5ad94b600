// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pool_search` finds memory for a request that the cache of a pool cannot serve.

#include <vram/concepts/core/is_captured.hpp>
#include <vram/concepts/powers.hpp> // reusing_resource

namespace vram {
namespace detail {

/// The ways in which a pool looks for memory, from the cheapest to the most expensive. Functions
/// return null if all ways fail.
///
/// Failure   `std::bad_alloc` and errors of the platform are thrown.
/// Threads   Any number of threads may call concurrently.
struct pool_search {
    /// Allocates a free block for `r`. If the block needs a wait for other streams, the stream of
    /// `r` first tries to get a new chunk without a wait, if the upstream has `try_allocate_ready`.
    /// If that fails, waits. Returns null if no free block can be allocated.
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
    /// Tries all other ways to allocate `r`: growth, `trim`, waits. Returns null if all fail.
    /// Callers must check afterwards if `held` still owns the lock.
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
        // Another thread may be changing mappings. Waits until that thread is done, and tries
        // again, because there may then be free memory that can be mapped for `r`.
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
