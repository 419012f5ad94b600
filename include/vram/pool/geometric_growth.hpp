// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `geometric_growth` is a growth policy that grows a pool by a share of its reserved bytes.

#include <vram/base/align.hpp>    // align, valid_alignment
#include <vram/base/bytes.hpp>    // literals
#include <vram/base/contract.hpp> // expects
#include <vram/concepts/growth.hpp>

#include <cstddef>

namespace vram {

/// A growth policy: makes each chunk at least `share` of the bytes that the pool has reserved so
/// far, if `max_size` and the upstream permit. With a `share` above 0, the number of chunks is
/// logarithmic in these bytes.
///
///     pool memory{virtual_resource{}, {}, geometric_growth{.share = 0.5}};
///
/// Failure   Values outside their ranges are a broken contract.
struct geometric_growth {
    /// False: this growth policy does not use the amount of free device memory.
    static constexpr bool asks_device = false;

    /// Smallest size of a new chunk, as a share of the bytes that the pool has reserved so far.
    /// 0.02 means 2 %, and 64 is the largest value. A chunk may be smaller if `max_size` or the
    /// upstream does not permit this size.
    double share = 0.02;
    /// Smallest size in bytes of a chunk that serves a request above 1 MiB. For other requests the
    /// smallest size is `unit`.
    std::size_t least = 20_MiB;
    std::size_t unit  = 2_MiB; ///< sizes of chunks are rounded up to multiples of this power of two

    /// Returns the size of the next chunk: at least the needed bytes, and at least `share` times
    /// the reserved bytes. The size is rounded up to a multiple of `unit`.
    [[nodiscard]] std::size_t operator()(growth_request const& request) const {
        expects(share >= 0 && share <= 64, "geometric_growth: the share must be from 0 to 64");
        expects(valid_alignment(unit), "geometric_growth: the unit must be a power of two");
        auto const  part      = static_cast<std::size_t>(static_cast<double>(request.held) * share);
        std::size_t size      = request.needed > part ? request.needed : part;
        std::size_t const low = request.needed > 1_MiB ? least : unit;
        return align(size > low ? size : low, unit);
    }
};

static_assert(growth<geometric_growth>);

} // namespace vram
