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

/// The way in which the chunks of a pool get and return memory. `whole_chunks` implements it for
/// chunks that never change, `paged_chunks` for virtual memory, where chunks grow, and pages get
/// and lose physical memory. `Core` is the `pool_core` that has such an object as a member; it
/// passes itself to the functions that allocate.
///
///     std::size_t unit() const;                      // chunk sizes are multiples of it
///     std::size_t chunk_size(std::size_t n) const;   // `n` rounded up for a new chunk
///     void        add(void* base, std::size_t n);    // records a new chunk
///     std::size_t remove(chunk const& c);            // removes it; returns its physical bytes
///     void*       grow_in_place(Core&, r, captured, more);
///     void*       take_partly_backed(Core&, r, captured, guard&);
///     void*       take_in_hole(Core&, r);
///     bool        await_others(guard&);
///     std::size_t trim_within(Core&, keep, guard&);
///     std::size_t resident(block const& b) const;
///
/// Three functions allocate the request `r`, and return null if they cannot. `grow_in_place` is
/// called without the lock. It maps memory to a free block that lacks some, or extends a chunk at
/// its end: if `more`, by the size that the growth policy wants, and otherwise by the needed bytes.
/// `take_partly_backed` allocates a free block if its pages have memory or can get it back without
/// a wait. `take_in_hole` allocates a small block from a free block among the large blocks.
/// `captured`: the stream of the request is being captured, so it must neither wait nor be queried.
/// `await_others` waits for another thread that changes mappings, and returns false if there is
/// none. `trim_within` returns free memory of chunks that are in use until at most `keep` free
/// bytes are reserved, and returns the number of bytes returned. `resident` returns the bytes of a
/// block that have physical memory.
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
