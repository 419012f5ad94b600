// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tracked_owner` has the figures of one tag, line or thread of the layer `tracking`.

#include <vram/base/call_site.hpp>
#include <vram/base/tag.hpp> // memory_tag

#include <cstddef>
#include <cstdint>

namespace vram {

/// The figures of one owner of memory, in the lists of the layer `tracking`. An owner is a tag, a
/// thread, a pair of a tag and a thread, or a pair of a program line and a tag. Sizes are in bytes
/// as requested.
///
///     for (tracked_owner const& o : memory.by_tag()) {
///         std::printf("%s: %zu bytes\n", o.owner.path(), o.live);
///     }
///
/// If several threads allocate for one owner, `peak` is the sum of its peaks in these threads, an
/// upper bound. With several threads, `at_peak` belongs to a moment near the peak of the live bytes
/// of all owners. At that moment, the live bytes of all owners may be lower than at the peak, by
/// about 1 MiB for each further thread.
struct tracked_owner {
    memory_tag owner{}; ///< the tag (name of the purpose); empty in the list `by_thread()`
    call_site  at{};    ///< program line of the allocations; only `by_site()` sets it
    /// Index of the thread, modulo 1024; valid only in `by_thread()` and `by_tag_and_thread()`.
    unsigned    thread = 0;
    std::size_t live   = 0; ///< live bytes of this owner
    std::size_t blocks = 0; ///< number of live blocks of this owner
    std::size_t peak   = 0; ///< the highest value of `live` so far, or an upper bound of it
    /// Live bytes of this owner when the sum of the live bytes of all owners had its peak.
    std::size_t   at_peak     = 0;
    std::uint64_t allocations = 0; ///< number of successful allocations; counts freed blocks too
    std::uint64_t allocated   = 0; ///< bytes of all allocations, also of freed blocks
    /// Number of frees on a stream other than that on which the block was allocated.
    std::uint64_t crossed = 0;
    call_site     crossed_at{};         ///< program line of one of the frees that `crossed` counts
    bool          peak_is_exact = true; ///< false if `peak` is only an upper bound of the peak
};

} // namespace vram
