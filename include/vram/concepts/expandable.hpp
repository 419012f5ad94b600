// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `expandable` is a resource with blocks that grow and shrink in place; a `remappable` one can
/// also move physical pages between addresses.

#include <vram/concepts/resource.hpp> // synchronous_resource

#include <concepts> // same_as
#include <cstddef>

namespace vram {

/// A resource whose blocks grow and shrink at their end, in whole pages:
///
///     bool        extend(void* p, std::size_t bytes, std::size_t more) noexcept;
///     std::size_t shrink(void* p, std::size_t bytes, std::size_t less) noexcept;
///
/// `p` and `bytes` are the start and the current size of a live block. If `extend` returns true,
/// the block has `bytes + more` bytes, all usable when the call returns, and must be freed with
/// that size. If it returns false, nothing changed: the addresses after the block are in use, or
/// there is no memory. `shrink` leaves a block of `bytes - less` bytes and returns the number of
/// bytes that were released. If a size is not a multiple of `page_size()`, no other block uses the
/// rest of the last page.
template <class R>
concept expandable_resource = synchronous_resource<R> && requires(R& r, R const& c, void* p,
                                                                  std::size_t n) {
    { c.page_size() } -> std::same_as<std::size_t>;
    { r.extend(p, n, n) } -> std::same_as<bool>;
    { r.shrink(p, n, n) } -> std::same_as<std::size_t>;
    requires(noexcept(r.extend(p, n, n)) && noexcept(r.shrink(p, n, n))) || !detail::sees_noexcept;
};

/// An expandable resource whose blocks may contain pages that are not backed by physical memory:
///
///     bool        widen(void* p, std::size_t bytes, std::size_t more) noexcept;
///     std::size_t mapped(void const* q, std::size_t n) const;
///     bool        fill(void* q, std::size_t n) noexcept;
///     std::size_t drop(void* q, std::size_t n) noexcept;
///     std::size_t remap(void* from, std::size_t n, void* to, std::size_t m) noexcept;
///     void*       moved_to(void const* q) const noexcept;
///
/// `widen` extends a block by addresses that are not backed. `mapped` returns how many bytes of a
/// range are backed. `fill` backs every unbacked page that overlaps the range; if it returns false,
/// it backed none. `drop` releases the physical memory of the pages that lie entirely in the range.
/// `remap` moves the physical memory of the pages that lie entirely in [from, from + n) to the
/// unbacked pages that overlap [to, to + m), until one of the two ranges is exhausted. Both return
/// the number of bytes released or moved; the contents are lost. `drop` and `remap` do not wait for
/// streams: the caller ensures that no stream still uses the pages that they release or move away.
/// `moved_to` returns the page that now has the physical memory which last backed the page of `q`,
/// or null if that was not moved. If `remap` moves that memory back to `q`, earlier uses of `q`
/// need not be complete, only ordered before the later ones, and the call should cost nothing.
template <class R>
concept remappable_resource = expandable_resource<R> && requires(R& r, R const& c, void* p,
                                                                 void const* q, std::size_t n) {
    { r.widen(p, n, n) } -> std::same_as<bool>;
    { c.mapped(q, n) } -> std::same_as<std::size_t>;
    { r.fill(p, n) } -> std::same_as<bool>;
    { r.drop(p, n) } -> std::same_as<std::size_t>;
    { r.remap(p, n, p, n) } -> std::same_as<std::size_t>;
    { c.moved_to(q) } -> std::same_as<void*>;
    requires(noexcept(r.widen(p, n, n)) && noexcept(c.mapped(q, n)) && noexcept(r.fill(p, n)) &&
             noexcept(r.drop(p, n)) && noexcept(r.remap(p, n, p, n)) && noexcept(c.moved_to(q))) ||
                !detail::sees_noexcept;
};

} // namespace vram
