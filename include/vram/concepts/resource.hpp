// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `resource` is the concept of an object that allocates and frees memory. Each layer and pool of
/// vram takes one and is one.

#include <vram/base/align.hpp>        // default_alignment
#include <vram/concepts/property.hpp> // properties

#include <concepts> // same_as, equality_comparable
#include <cstddef>

namespace vram {

namespace detail {
/// True if concepts require `noexcept` of functions. False under nvcc, which assumes that a call
/// with the default argument `source_location::current()` may throw.
#if defined __CUDACC__ && !defined __clang__
inline constexpr bool sees_noexcept = false;
#else
inline constexpr bool sees_noexcept = true;
#endif
} // namespace detail

/// A resource without stream order. Memory may be used once the allocation returns. It must be
/// freed only after every stream and thread has finished with it.
///
///     void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment);
///     void  deallocate_sync(void* p, std::size_t bytes,
///                           std::size_t alignment = default_alignment) noexcept;
///
/// Zero bytes give null. `allocate_sync` throws `out_of_memory`, or the platform's error.
/// `deallocate_sync` reports errors to the error sink. Two resources are equal if each can free the
/// memory of the other.
template <class R>
concept synchronous_resource =
    std::equality_comparable<R> && requires(R& r, void* p, std::size_t n) {
        typename R::platform;
        typename R::properties;
        { r.allocate_sync(n, n) } -> std::same_as<void*>;
        { r.deallocate_sync(p, n, n) } -> std::same_as<void>;
        requires noexcept(r.deallocate_sync(p, n, n)) || !detail::sees_noexcept;
    };

/// A resource with stream order. Later work of the stream may use memory of `allocate`. Work
/// submitted to a stream `s` before `deallocate(s, ...)` may still use the memory.
///
///     void* allocate(stream s, std::size_t bytes, std::size_t alignment = default_alignment);
///     void  deallocate(stream s, void* p, std::size_t bytes,
///                      std::size_t alignment = default_alignment) noexcept;
///
/// The caller orders uses on other streams before the free. `deallocate_sync` may free a block of
/// `allocate` too, once every stream and thread has finished with the block.
template <class R>
concept resource = synchronous_resource<R> &&
                   requires(R& r, typename R::platform::stream s, void* p, std::size_t n) {
                       { r.allocate(s, n, n) } -> std::same_as<void*>;
                       { r.deallocate(s, p, n, n) } -> std::same_as<void>;
                       requires noexcept(r.deallocate(s, p, n, n)) || !detail::sees_noexcept;
                   };

} // namespace vram
