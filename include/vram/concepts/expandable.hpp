// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `expandable` is a resource with blocks that grow and shrink in place; a `remappable` one can
/// also move physical pages between addresses.

#include <vram/concepts/resource.hpp> // synchronous_resource

#include <concepts> // same_as
#include <cstddef>

namespace vram {

/// A resource whose live blocks grow and shrink at their end, in whole pages. `p` and `bytes` are
/// the start and the present size of a block:
///
///     bool        extend(void* p, std::size_t bytes, std::size_t more) noexcept;
///     std::size_t shrink(void* p, std::size_t bytes, std::size_t less) noexcept;
///
/// If `extend` returns false, nothing changed. `shrink` returns the bytes released. The block must
/// be freed with its new size.
template <class R>
concept expandable_resource = synchronous_resource<R> && requires(R& r, R const& c, void* p,
                                                                  std::size_t n) {
    { c.page_size() } -> std::same_as<std::size_t>;
    { r.extend(p, n, n) } -> std::same_as<bool>;
    { r.shrink(p, n, n) } -> std::same_as<std::size_t>;
    requires(noexcept(r.extend(p, n, n)) && noexcept(r.shrink(p, n, n))) || !detail::sees_noexcept;
};

/// An expandable resource whose blocks may contain pages without physical memory of their own
/// (unbacked pages). `drop` and `remap` take memory from pages without a wait: the caller ensures
/// that no stream still uses those pages.
template <class R>
concept remappable_resource = expandable_resource<R> && requires(R& r, R const& c, void* p,
                                                                 void const* q, std::size_t n) {
    // `widen(p, bytes, more)` extends a block by `more` bytes of addresses without physical memory.
    // If it returns false, nothing changed.
    { r.widen(p, n, n) } -> std::same_as<bool>;
    // Returns how many bytes of a range have physical memory.
    { c.mapped(q, n) } -> std::same_as<std::size_t>;
    // Maps physical memory to the pages that overlap the range and have no physical memory yet. If
    // `fill` returns false, no page got memory.
    { r.fill(p, n) } -> std::same_as<bool>;
    // Takes the physical memory from the pages that lie entirely in the range. Returns the number
    // of bytes taken.
    { r.drop(p, n) } -> std::same_as<std::size_t>;
    // `remap(from, n, to, m)` moves memory of pages entirely in [from, from + n) to unbacked pages
    // that overlap [to, to + m). Returns the bytes moved; their contents are lost.
    { r.remap(p, n, p, n) } -> std::same_as<std::size_t>;
    // Returns the address of the page that now has the memory that the page at `q` had last.
    // Returns null if no other page has this memory. `remap` may move this memory back to the page
    // at `q`. New uses of the page must then be ordered after its earlier uses.
    { c.moved_to(q) } -> std::same_as<void*>;
    requires(noexcept(r.widen(p, n, n)) && noexcept(c.mapped(q, n)) && noexcept(r.fill(p, n)) &&
             noexcept(r.drop(p, n)) && noexcept(r.remap(p, n, p, n)) && noexcept(c.moved_to(q))) ||
                !detail::sees_noexcept;
};

} // namespace vram
