// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tracked_block` is a live block in a list of the layer `tracking`.

#include <vram/base/call_site.hpp>
#include <vram/base/call_stack.hpp>
#include <vram/base/core/durations.hpp> // nanoseconds
#include <vram/base/error_kind.hpp>     // stream_name
#include <vram/base/tag.hpp>            // memory_tag

#include <cstddef>
#include <cstdint>

namespace vram {

/// A live block, as `tracking::blocks()` returns it.
///
///     for (tracked_block const& b : memory.blocks(tracked_order::largest_first)) { ... }
struct tracked_block {
    void*       memory    = nullptr; ///< address of the block
    std::size_t bytes     = 0;       ///< the size that the caller requested
    std::size_t alignment = 0;       ///< the alignment that the allocation requested
    memory_tag  owner{};             ///< the tag of the scope that allocated the block
    call_site   at{};                ///< program line that allocated the block; may be unknown
    /// The stream of the allocation; empty if the allocation had no stream, or if the stream is
    /// known to be destroyed.
    stream_name              stream{};
    unsigned                 thread = 0; ///< index of the allocating thread, modulo 1024
    std::chrono::nanoseconds age{};      ///< time since the allocation
    /// Time of the allocation in ticks of `tick_clock` (a counter of the processor). Distinguishes
    /// this block from earlier and later blocks at the same address.
    std::uint64_t ticks = 0;
    /// The call stack of the thread at the allocation of the block; empty if
    /// `tracking_options::frames` is 0.
    call_stack stack{};
};

/// The order of a list of blocks.
enum class tracked_order : unsigned char {
    oldest_first,  ///< by the time of the allocation, the earliest first
    largest_first, ///< by size, the largest first; of equal sizes, the oldest first
    /// Blocks sorted by the paths of their tags, such as "train/optimizer". Blocks with the same
    /// tag are sorted by size, the largest first.
    by_tag
};

} // namespace vram
