// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `align` rounds sizes and addresses to multiples of an alignment, without overflow.

#include <vram/base/requirements.hpp>

#include <cstddef>
#include <cstdint>
#include <limits> // numeric_limits

namespace vram {

/// The default alignment of an allocation in bytes, which is that of `cudaMalloc`.
inline constexpr std::size_t default_alignment = 256;

/// The result of a size computation that would overflow. No resource has this much memory, so
/// allocating this size fails.
inline constexpr std::size_t unsatisfiable = std::numeric_limits<std::size_t>::max();

/// Returns true if `alignment` is a power of two.
[[nodiscard]] constexpr bool valid_alignment(std::size_t alignment) noexcept {
    // Not `std::has_single_bit`: it counts the bits, which may be a function call if the program is
    // compiled for CPUs without the instruction popcnt.
    return alignment != 0 && (alignment & (alignment - 1)) == 0;
}

/// Returns `bytes` rounded up to a multiple of `alignment`, a power of two. If that overflows,
/// returns `unsatisfiable`, the largest `std::size_t`.
[[nodiscard]] constexpr std::size_t align(std::size_t bytes, std::size_t alignment) noexcept {
    std::size_t const mask = alignment - 1;
    return bytes > unsatisfiable - mask ? unsatisfiable : (bytes + mask) & ~mask;
}

/// Returns `bytes` rounded down to a multiple of `alignment`, a power of two.
[[nodiscard]] constexpr std::size_t align_down(std::size_t bytes, std::size_t alignment) noexcept {
    return bytes & ~(alignment - 1);
}

/// Returns `a + b`, or `unsatisfiable` on overflow.
[[nodiscard]] constexpr std::size_t saturating_add(std::size_t a, std::size_t b) noexcept {
    return a > unsatisfiable - b ? unsatisfiable : a + b;
}

/// Returns true if `p` is a multiple of `alignment`, a power of two.
[[nodiscard]] inline bool is_aligned(void const* p, std::size_t alignment) noexcept {
    return (reinterpret_cast<std::uintptr_t>(p) & (alignment - 1)) == 0;
}

/// Returns the first address at or after `p` that is a multiple of `alignment`, a power of two.
[[nodiscard]] inline void* align_address(void* p, std::size_t alignment) noexcept {
    auto const address = reinterpret_cast<std::uintptr_t>(p);
    return static_cast<std::byte*>(p) + (align(address, alignment) - address);
}

} // namespace vram
