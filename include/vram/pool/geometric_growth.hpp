// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `geometric_growth` grows a pool by a share of its reserved bytes.

#include <vram/base/align.hpp>      // align, valid_alignment
#include <vram/base/bytes.hpp>      // literals
#include <vram/base/contract.hpp>   // expects
#include <vram/concepts/growth.hpp> // growth

#include <cstddef> // size_t

namespace vram {

/// The next chunk is what is needed, at least `share` of what is held and at least `least` bytes,
/// rounded up to `unit`. The number of chunks stays logarithmic, and at most `share` of memory is
/// idle for growth. A pool asks for its small blocks and for its large ones separately.
///
/// Failure   numbers that are none break the contract
/// Cost      a few additions; the device is not asked
struct geometric_growth {
    static constexpr bool asks_device = false;

    double      share = 0.02;   ///< 1 doubles what is held; at most 64
    std::size_t least = 20_MiB; ///< of a chunk for requests above 1 MiB; for smaller ones `unit`
    std::size_t unit  = 2_MiB;  ///< a power of two: the page of device memory

    [[nodiscard]] std::size_t operator()(growth_request const& request) const {
        expects(share >= 0 && share <= 64, "geometric_growth: the share is from 0 to 64");
        expects(valid_alignment(unit), "geometric_growth: the unit is a power of two");
        auto const  part      = static_cast<std::size_t>(static_cast<double>(request.held) * share);
        std::size_t size      = request.needed > part ? request.needed : part;
        std::size_t const low = request.needed > 1_MiB ? least : unit;
        return align(size > low ? size : low, unit);
    }
};

static_assert(growth<geometric_growth>);

} // namespace vram
