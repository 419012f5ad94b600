// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pitched_copy` describes a 2-D or 3-D copy between two layouts.

#include <vram/base/requirements.hpp>

#include <cstddef>

namespace vram {

/// A copy of `depth` slices of `height` rows of `width` bytes. If `depth` is 1, the members
/// `to_slice` and `from_slice` are ignored.
struct pitched_copy {
    /// Start of the destination.
    void* to = nullptr;
    /// Bytes between the starts of two rows of the destination; at least `width`.
    std::size_t to_pitch = 0;
    /// Bytes between the starts of two slices of the destination; a multiple of `to_pitch`.
    std::size_t to_slice = 0;
    /// Start of the source.
    void const* from = nullptr;
    /// Bytes between the starts of two rows of the source; at least `width`.
    std::size_t from_pitch = 0;
    /// Bytes between the starts of two slices of the source; a multiple of `from_pitch`.
    std::size_t from_slice = 0;
    std::size_t width      = 0; ///< bytes copied of each row
    std::size_t height     = 1; ///< number of rows in each slice
    std::size_t depth      = 1; ///< number of slices; 1 for a 2-D copy
};

} // namespace vram
