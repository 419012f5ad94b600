// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `guarded_options` are the options of the layer `guarded`.

#include <vram/base/requirements.hpp>

#include <cstddef> // size_t

namespace vram {

/// Options of `guarded`.
///
///     guarded_options const late{.quarantine = 64_MiB};
struct guarded_options {
    /// Size of the fence before and after each block; a power of two, at least 16.
    std::size_t fence = 256;
    /// Bytes of freed blocks that are not freed yet, so that late writes to them are found.
    std::size_t quarantine = 0;
    /// True if new and freed memory is filled with 0xCD and 0xDD.
    bool fills = true;
};

} // namespace vram
