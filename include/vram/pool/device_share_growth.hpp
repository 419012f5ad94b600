// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `device_share_growth` is a growth policy that takes a share of the free device memory.

#include <vram/base/align.hpp>    // align_down
#include <vram/base/bytes.hpp>    // literals
#include <vram/base/contract.hpp> // expects
#include <vram/concepts/growth.hpp>

#include <cstddef>

namespace vram {

/// Makes the next chunk `percent` per cent of the device memory that is free now, or as large as
/// the request needs. Suits a process that has the device to itself.
///
/// Failure   A value outside 0 to 100 is a broken contract.
/// Cost      A query of the device for each growth: microseconds.
struct device_share_growth {
    /// True: the pool queries the free memory of the device before each growth.
    static constexpr bool asks_device = true;

    /// Share of the free device memory that the next chunk gets, in per cent: from 0 to 100.
    double percent = 50;

    /// Returns the size of the next chunk: `percent` per cent of the free device memory, rounded
    /// down to 2 MiB, or the needed bytes if those are more.
    [[nodiscard]] std::size_t operator()(growth_request const& request) const {
        expects(percent >= 0 && percent <= 100,
                "device_share_growth: `percent` must be from 0 to 100");
        double const part = static_cast<double>(request.device_free) * percent / 100;
        std::size_t  size = align_down(static_cast<std::size_t>(part), 2_MiB);
        return request.needed > size ? request.needed : size;
    }
};

static_assert(growth<device_share_growth>);

} // namespace vram
