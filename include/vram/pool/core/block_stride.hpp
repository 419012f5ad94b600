// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_stride` is the size of the blocks of a slab, prepared for exact divisions.

#include <vram/base/requirements.hpp>

#include <bit> // countr_zero
#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// A block size, prepared for fast division: a multiple of the size is divided by the size with one
/// multiplication and one shift. The size must not be 0.
///
/// Threads   Any number of threads may call concurrently.
class block_stride {
public:
    explicit block_stride(std::size_t bytes) noexcept
        : bytes_{bytes}, zeros_{std::countr_zero(bytes)} {
        std::uint64_t const odd = bytes_ >> zeros_;
        // An odd number is its own inverse modulo 8, so `odd` is correct in the lowest three bits.
        // Each step of Newton's method doubles the number of correct bits.
        inverse_ = odd;
        for (int i = 0; i < 5; ++i) { inverse_ *= 2 - odd * inverse_; }
    }

    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    /// Returns the largest power of two that divides the size.
    [[nodiscard]] std::size_t alignment() const noexcept { return std::size_t{1} << zeros_; }
    /// Returns `offset / bytes()` if the offset is a multiple of `bytes()`, and a number without
    /// meaning otherwise.
    [[nodiscard]] std::size_t index(std::size_t offset) const noexcept {
        // Exact division by the inverse modulo 2^64 of the odd part (Granlund and Montgomery, 1994,
        // section 9).
        return (offset >> zeros_) * inverse_;
    }

private:
    std::size_t   bytes_;
    int           zeros_;   ///< number of trailing zero bits of the size
    std::uint64_t inverse_; ///< inverse of the odd part of the size modulo 2^64
};

} // namespace detail
} // namespace vram
