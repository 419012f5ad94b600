// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pitched_copy` describes a 2-D or 3-D copy between two layouts.

#include <vram/base/requirements.hpp> // C++20

#include <cstddef> // size_t

namespace vram {

/// Copies `depth` slices of `height` rows of `width` bytes. Consecutive rows start `pitch` bytes
/// apart, consecutive slices `slice` bytes apart. If `depth` is 1, the slice sizes are ignored.
struct pitched_copy {
    /// Start of the target.
    void*       to       = nullptr;
    std::size_t to_pitch = 0; ///< bytes from one row to the next; at least `width`
    std::size_t to_slice = 0; ///< bytes from one slice to the next; a multiple of `to_pitch`
    /// Start of the source.
    void const* from = nullptr;
    /// Bytes from one row of the source to the next; at least `width`.
    std::size_t from_pitch = 0;
    /// Bytes from one slice of the source to the next; a multiple of `from_pitch`.
    std::size_t from_slice = 0;
    std::size_t width      = 0; ///< bytes of a row
    std::size_t height     = 1; ///< number of rows
    std::size_t depth      = 1; ///< number of slices
};

} // namespace vram
