// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `geometric_growth` asks for a share of what is held already.

#include <vram/base/align.hpp>      // align, saturating_add
#include <vram/base/bytes.hpp>      // literals
#include <vram/concepts/growth.hpp> // growth

#include <cstddef> // size_t

namespace vram {

/// The next chunk is what is needed, at least `share` of what is held and at least `least` bytes,
/// rounded up to `unit`. The number of chunks stays logarithmic, and at most `share` of memory is
/// idle for growth.
///
/// Cost   a few additions; the device is not asked
struct geometric_growth {
    static constexpr bool asks_device = false;

    double      share = 0.1;    ///< 1 doubles what is held
    std::size_t least = 20_MiB; ///< what the driver gives without splitting its own pages
    std::size_t unit  = 2_MiB;  ///< the page of device memory: less is wasted by the driver

    [[nodiscard]] std::size_t operator()(growth_request const& request) const noexcept {
        auto const  part = static_cast<std::size_t>(static_cast<double>(request.held) * share);
        std::size_t size = request.needed > part ? request.needed : part;
        size             = size > least ? size : least;
        return align(size, unit);
    }
};

static_assert(growth<geometric_growth>);

} // namespace vram
