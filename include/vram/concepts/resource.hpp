// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `resource` is the concept of an object that allocates and frees memory: every part of vram takes
/// and is one.

#include <vram/base/align.hpp>        // default_alignment
#include <vram/concepts/property.hpp> // properties

#include <concepts> // same_as, equality_comparable
#include <cstddef>  // size_t

namespace vram {

namespace detail {
/// nvcc's own front end (13.0) holds a call whose default argument is `source_location::current()`
/// for one that may throw; the host compiler behind it sees the promise, and checks it.
#if defined __CUDACC__ && !defined __clang__
inline constexpr bool sees_noexcept = false;
#else
inline constexpr bool sees_noexcept = true;
#endif
} // namespace detail

/// Memory that may be used as soon as the call returns, and given back when nobody uses it any
/// more.
///
///     void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment);
///     void  deallocate_sync(void* p, std::size_t bytes,
///                           std::size_t alignment = default_alignment) noexcept;
///
/// `alignment` is any power of two. Zero bytes give `nullptr`, and giving back `nullptr` does
/// nothing. `allocate_sync` throws `out_of_memory`, or the platform's error where the machine
/// itself fails. What goes wrong in `deallocate_sync` goes to the error sink. Two resources are
/// equal when each can take back what the other gave.
template <class R>
concept synchronous_resource =
    std::equality_comparable<R> && requires(R& r, void* p, std::size_t n) {
        typename R::platform;
        typename R::properties;
        { r.allocate_sync(n, n) } -> std::same_as<void*>;
        { r.deallocate_sync(p, n, n) } -> std::same_as<void>;
        requires noexcept(r.deallocate_sync(p, n, n)) || !detail::sees_noexcept;
    };

/// Memory in stream order: what `allocate` returns may be used by work that is later on that
/// stream, and what is given to `deallocate` may still be used by work that is earlier on the
/// stream it names.
///
///     void* allocate(stream s, std::size_t bytes, std::size_t alignment = default_alignment);
///     void  deallocate(stream s, void* p, std::size_t bytes,
///                      std::size_t alignment = default_alignment) noexcept;
///
/// The caller orders everything else: work on other streams that used the memory comes before the
/// free on `s`. The synchronous pair is there too; the two may be mixed for one block, as long as
/// the same holds.
template <class R>
concept resource = synchronous_resource<R> &&
                   requires(R& r, typename R::platform::stream s, void* p, std::size_t n) {
                       { r.allocate(s, n, n) } -> std::same_as<void*>;
                       { r.deallocate(s, p, n, n) } -> std::same_as<void>;
                       requires noexcept(r.deallocate(s, p, n, n)) || !detail::sees_noexcept;
                   };

} // namespace vram
