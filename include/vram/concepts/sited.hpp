// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sited` calls a resource with the line of the caller, if the resource takes one.

#include <vram/base/align.hpp> // default_alignment
#include <vram/base/call_site.hpp>
#include <vram/concepts/resource.hpp> // resource, synchronous_resource

#include <cstddef>

namespace vram {

namespace detail {
// clang-format off
template <class R>
concept allocates_at = requires(R& r, typename R::platform::stream s, std::size_t n, call_site at) {
    r.allocate(s, n, n, at);
};
template <class R>
concept allocates_sync_at = requires(R& r, std::size_t n, call_site at) {
    r.allocate_sync(n, n, at);
};
template <class R>
concept tries_at = requires(R& r, typename R::platform::stream s, std::size_t n, call_site at) {
    r.try_allocate(s, n, n, at);
};
template <class R>
concept tries_sync_at = requires(R& r, std::size_t n, call_site at) {
    r.try_allocate_sync(n, n, at);
};
template <class R>
concept readies_at = requires(R& r, typename R::platform::stream s, std::size_t n, call_site at) {
    r.try_allocate_ready(s, n, n, at);
};
template <class R>
concept deallocates_at =
    requires(R& r, typename R::platform::stream s, void* p, std::size_t n, call_site at) {
        r.deallocate(s, p, n, n, at);
    };
template <class R>
concept deallocates_sync_at = requires(R& r, void* p, std::size_t n, call_site at) {
    r.deallocate_sync(p, n, n, at);
};
// clang-format on
} // namespace detail

/// Calls functions of a resource. If a function takes a `call_site`, `sited` passes `at`, the
/// source line of the program that called vram. Layers use `sited` to pass this line to their
/// upstream.
///
///     sited{this->upstream_, at}.deallocate(s, p, bytes, alignment);
template <class R>
class sited {
public:
    constexpr explicit sited(R& upstream, call_site at = {}) noexcept : r_{upstream}, at_{at} {}

    template <class Stream>
    [[nodiscard, gnu::always_inline]] void*
    allocate(Stream s, std::size_t bytes, std::size_t alignment = default_alignment) const {
        if constexpr (detail::allocates_at<R>) {
            return r_.allocate(s, bytes, alignment, at_);
        } else {
            return r_.allocate(s, bytes, alignment);
        }
    }
    [[nodiscard, gnu::always_inline]] void*
    allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment) const {
        if constexpr (detail::allocates_sync_at<R>) {
            return r_.allocate_sync(bytes, alignment, at_);
        } else {
            return r_.allocate_sync(bytes, alignment);
        }
    }
    template <class Stream>
    [[nodiscard, gnu::always_inline]] void*
    try_allocate(Stream s, std::size_t bytes,
                 std::size_t alignment = default_alignment) const noexcept {
        if constexpr (detail::tries_at<R>) {
            return r_.try_allocate(s, bytes, alignment, at_);
        } else {
            return r_.try_allocate(s, bytes, alignment);
        }
    }
    [[nodiscard, gnu::always_inline]] void*
    try_allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment) const noexcept {
        if constexpr (detail::tries_sync_at<R>) {
            return r_.try_allocate_sync(bytes, alignment, at_);
        } else {
            return r_.try_allocate_sync(bytes, alignment);
        }
    }
    template <class Stream>
    [[nodiscard, gnu::always_inline]] void*
    try_allocate_ready(Stream s, std::size_t bytes,
                       std::size_t alignment = default_alignment) const {
        if constexpr (detail::readies_at<R>) {
            return r_.try_allocate_ready(s, bytes, alignment, at_);
        } else {
            return r_.try_allocate_ready(s, bytes, alignment);
        }
    }
    template <class Stream>
    [[gnu::always_inline]] void
    deallocate(Stream s, void* p, std::size_t bytes,
               std::size_t alignment = default_alignment) const noexcept {
        if constexpr (detail::deallocates_at<R>) {
            r_.deallocate(s, p, bytes, alignment, at_);
        } else {
            r_.deallocate(s, p, bytes, alignment);
        }
    }
    [[gnu::always_inline]] void
    deallocate_sync(void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) const noexcept {
        if constexpr (detail::deallocates_sync_at<R>) {
            r_.deallocate_sync(p, bytes, alignment, at_);
        } else {
            r_.deallocate_sync(p, bytes, alignment);
        }
    }

private:
    R&                              r_;
    [[no_unique_address]] call_site at_;
};

} // namespace vram
