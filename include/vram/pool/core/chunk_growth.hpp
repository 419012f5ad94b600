// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `chunk_growth` is the interface of the two ways in which a pool obtains memory from its
/// upstream.

#include <vram/base/requirements.hpp>

#include <concepts> // same_as, convertible_to
#include <cstddef>

namespace vram {
namespace detail {

/// How the chunks of a pool get and return memory: as whole chunks (`whole_chunks`), or page by
/// page (`paged_chunks`). `core` is the pool, `r` a request, and `held` the guard of the pool's
/// lock. If `captured`, a stream is being captured, so the call must not wait. Functions that
/// allocate return null on failure. `grow_in_place` is called without the lock.
///
///     grow_in_place(core, r, captured, more)      // maps memory, and allocates `r` there
///     take_partly_backed(core, r, captured, held) // allocates `r` in a free block
///     take_in_hole(core, r)                       // allocates a small block near large ones
///     await_others(held)                          // waits for a thread that changes mappings
///     trim_within(core, keep, held)               // returns free pages; keeps `keep` free bytes
///     resident(block)                             // returns the bytes that have memory
template <class G, class Core>
concept chunk_growth =
    requires(G g, G const& c, Core& core, typename G::request const& r, typename G::guard& held,
             typename G::chunk const& gone, typename G::heap& heap, void* base, std::size_t n) {
        { G::idle_chunks_make_room } -> std::convertible_to<bool>;
        { g.attach(heap) } noexcept;
        { c.unit() } -> std::same_as<std::size_t>;
        { c.chunk_size(n) } -> std::same_as<std::size_t>;
        g.add(base, n);
        { g.remove(gone) } -> std::same_as<std::size_t>;
        { g.grow_in_place(core, r, true, true) } -> std::same_as<void*>;
        { g.take_partly_backed(core, r, true, held) } -> std::same_as<void*>;
        { g.take_in_hole(core, r) } -> std::same_as<void*>;
        { g.await_others(held) } -> std::same_as<bool>;
        { g.trim_within(core, n, held) } -> std::same_as<std::size_t>;
        { c.resident(*gone.first) } -> std::same_as<std::size_t>;
    };

} // namespace detail
} // namespace vram
