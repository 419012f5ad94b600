// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pitched_copy` is a box of bytes moved between two layouts: the 2-D and the 3-D copy in one.

#include <cstddef> // size_t

namespace vram {

/// `depth` slices of `height` rows of `width` bytes. A row starts `pitch` bytes after the one
/// before it, a slice `slice` bytes after the one before it; with `depth` 1 the slices do not
/// matter.
struct pitched_copy {
    void*       to         = nullptr;
    std::size_t to_pitch   = 0; ///< bytes, at least `width`
    std::size_t to_slice   = 0; ///< bytes, a multiple of `to_pitch`
    void const* from       = nullptr;
    std::size_t from_pitch = 0;
    std::size_t from_slice = 0;
    std::size_t width      = 0; ///< bytes
    std::size_t height     = 1; ///< rows
    std::size_t depth      = 1; ///< slices
};

} // namespace vram
