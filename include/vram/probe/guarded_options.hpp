// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `guarded_options` are the options of the layer `guarded`.

#include <vram/base/requirements.hpp>

#include <cstddef>

namespace vram {

/// Options of `guarded`, the layer that finds writes beyond a block and writes after its free.
///
///     guarded_options const late{.quarantine = 64_MiB};
struct guarded_options {
    /// Size in bytes of a fence. Each block has a fence (guard bytes of a known value) before and
    /// after it. The size must be a power of two, and at least 16.
    std::size_t fence = 256;
    /// Largest total size in bytes of the freed blocks that are kept, to find late writes to them.
    /// 0 keeps none.
    std::size_t quarantine = 0;
    /// If true, new memory is filled with 0xCD, and freed memory with 0xDD. Blocks in the
    /// quarantine are always filled.
    bool fills = true;
};

} // namespace vram
