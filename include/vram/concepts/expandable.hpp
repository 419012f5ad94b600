// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `expandable` is the power to let a block grow where it lies, and to move the memory behind
/// addresses.

#include <vram/concepts/resource.hpp> // synchronous_resource

#include <concepts> // same_as
#include <cstddef>  // size_t

namespace vram {

/// Blocks grow and shrink at their ends, in pages:
///
///     bool        extend(void* p, std::size_t bytes, std::size_t more) noexcept;
///     std::size_t shrink(void* p, std::size_t bytes, std::size_t less) noexcept;
///
/// `p` and `bytes` are a block as it is now; after `extend` said yes it is one of `bytes + more`,
/// all of it usable at once, and goes back as such. "No" changes nothing: the addresses behind it
/// are another's, or there is no memory. `shrink` makes it one of `bytes - less` and returns the
/// bytes that really went back. A size that is no multiple of `page_size()` takes the rest of its
/// page all the same.
template <class R>
concept expandable_resource = synchronous_resource<R> && requires(R& r, R const& c, void* p,
                                                                  std::size_t n) {
    { c.page_size() } -> std::same_as<std::size_t>;
    { r.extend(p, n, n) } -> std::same_as<bool>;
    { r.shrink(p, n, n) } -> std::same_as<std::size_t>;
    requires(noexcept(r.extend(p, n, n)) && noexcept(r.shrink(p, n, n))) || !detail::sees_noexcept;
};

/// And a block may have pages with nothing behind them:
///
///     bool        widen(void* p, std::size_t bytes, std::size_t more) noexcept;
///     std::size_t mapped(void const* q, std::size_t n) const;
///     bool        fill(void* q, std::size_t n) noexcept;
///     std::size_t drop(void* q, std::size_t n) noexcept;
///     std::size_t remap(void* from, std::size_t n, void* to, std::size_t m) noexcept;
///     void*       moved_to(void const* q) const noexcept;
///
/// `widen` is `extend` by addresses alone. `mapped` says how much of a range has memory. `fill`
/// gives memory to each page that the range touches and that has none, or to none of them. `drop`
/// gives the memory of the pages that lie wholly in a range back; `remap` moves it instead, to the
/// pages that the range `to` touches and that have none, until either runs out; both return the
/// bytes that went, and lose what was written there. All that is dropped or moved away must be out
/// of use: nothing here waits for a stream. `moved_to` is the page that has the memory now which
/// `q` had last, or null: when `remap` moves that page back, it is enough that whatever used it is
/// ordered before whatever will, and it should cost nothing.
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
