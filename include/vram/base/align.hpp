// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `align` rounds a size or an address up to where it may stand.

#include <cstddef> // size_t
#include <cstdint> // uintptr_t
#include <limits>  // numeric_limits

namespace vram {

/// The alignment, in bytes, of every allocation that names none: what cudaMalloc gives.
inline constexpr std::size_t default_alignment = 256;

/// The largest size that can be asked for: what does not fit when it is rounded becomes this, and
/// no resource has that much, so an overflow ends as `out_of_memory` and never as a small block.
inline constexpr std::size_t unsatisfiable = std::numeric_limits<std::size_t>::max();

/// Whether `alignment` can be asked for: a power of two.
[[nodiscard]] constexpr bool valid_alignment(std::size_t alignment) noexcept {
    return alignment != 0 && (alignment & (alignment - 1)) == 0; // no call for want of popcnt
}

/// `bytes` rounded up to a multiple of `alignment` (a power of two); `unsatisfiable` on overflow.
[[nodiscard]] constexpr std::size_t align(std::size_t bytes, std::size_t alignment) noexcept {
    std::size_t const mask = alignment - 1;
    return bytes > unsatisfiable - mask ? unsatisfiable : (bytes + mask) & ~mask;
}

/// `bytes` rounded down to a multiple of `alignment` (a power of two).
[[nodiscard]] constexpr std::size_t align_down(std::size_t bytes, std::size_t alignment) noexcept {
    return bytes & ~(alignment - 1);
}

/// `a + b`; `unsatisfiable` on overflow.
[[nodiscard]] constexpr std::size_t saturating_add(std::size_t a, std::size_t b) noexcept {
    return a > unsatisfiable - b ? unsatisfiable : a + b;
}

/// Whether `p` stands on a multiple of `alignment` (a power of two).
[[nodiscard]] inline bool is_aligned(void const* p, std::size_t alignment) noexcept {
    return (reinterpret_cast<std::uintptr_t>(p) & (alignment - 1)) == 0;
}

/// The first address at or after `p` that is a multiple of `alignment` (a power of two).
[[nodiscard]] inline void* align_address(void* p, std::size_t alignment) noexcept {
    auto const address = reinterpret_cast<std::uintptr_t>(p);
    return static_cast<std::byte*>(p) + (align(address, alignment) - address);
}

} // namespace vram
