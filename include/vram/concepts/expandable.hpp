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
    // Gives physical memory to each page without it that overlaps the range. If it returns false,
    // no page got memory.
    { r.fill(p, n) } -> std::same_as<bool>;
    // Releases the memory of the pages entirely in the range, and returns its bytes.
    { r.drop(p, n) } -> std::same_as<std::size_t>;
    // `remap(from, n, to, m)` moves memory of pages entirely in [from, from + n) to unbacked pages
    // that overlap [to, to + m). Returns the bytes moved; their contents are lost.
    { r.remap(p, n, p, n) } -> std::same_as<std::size_t>;
    // Returns the other page that now has the physical memory which last backed the page of `q`, or
    // null. If `remap` moves that memory back, the host need not wait for earlier uses of `q`, but
    // they must be ordered before later ones.
    { c.moved_to(q) } -> std::same_as<void*>;
    requires(noexcept(r.widen(p, n, n)) && noexcept(c.mapped(q, n)) && noexcept(r.fill(p, n)) &&
             noexcept(r.drop(p, n)) && noexcept(r.remap(p, n, p, n)) && noexcept(c.moved_to(q))) ||
                !detail::sees_noexcept;
};

} // namespace vram
