// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tracked_owner` has the figures of one tag, line or thread of the layer `tracking`.

#include <vram/base/call_site.hpp>
#include <vram/base/tag.hpp> // memory_tag

#include <cstddef>
#include <cstdint>

namespace vram {

/// The figures of one tag, one line of the program, one thread, or one tag in one thread, from the
/// lists of `tracking`. Sizes are in bytes as requested.
///
///     for (tracked_owner const& o : memory.by_tag()) {
///         std::printf("%s: %zu bytes\n", o.owner.path(), o.live);
///     }
///
/// If several threads allocate for one owner, `peak` is an upper bound (the sum of their peaks).
/// With several threads, the time of `at_peak` is approximate: the live bytes of all owners may
/// then be below their peak, by about 1 MiB for each further thread.
struct tracked_owner {
    memory_tag owner{}; ///< the tag; empty in `by_thread`
    call_site  at{};    ///< the line that allocated; unknown except in `by_site`
    /// Number of the thread, modulo 1024, in `by_thread` and `by_tag_and_thread`.
    unsigned      thread      = 0;
    std::size_t   live        = 0; ///< live bytes of this owner
    std::size_t   blocks      = 0; ///< number of live blocks of this owner
    std::size_t   peak        = 0; ///< the highest `live`, or an upper bound of it
    std::size_t   at_peak     = 0; ///< live bytes of this owner at the peak of all owners together
    std::uint64_t allocations = 0; ///< number of successful allocations, also of freed blocks
    std::uint64_t allocated   = 0; ///< bytes of all allocations, also of freed blocks
    /// Number of frees on a stream other than that on which the block was allocated.
    std::uint64_t crossed = 0;
    call_site     crossed_at{};         ///< line of one free on another stream than the allocation
    bool          peak_is_exact = true; ///< false if `peak` is only an upper bound of the peak
};

} // namespace vram
