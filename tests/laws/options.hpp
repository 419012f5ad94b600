// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `options` says what the laws may ask of a resource.

#include <vram/base/bytes.hpp> // 4_KiB

#include <cstddef> // size_t
#include <cstdint> // uint64_t

namespace laws {

using namespace vram::literals;

/// The defaults suit any resource with 64 KiB.
struct options {
    std::size_t   room              = 64_KiB; ///< bytes that may be out at once; never asked beyond
    std::size_t   largest           = 4_KiB;  ///< the largest block of the random operations
    std::size_t   largest_alignment = 4_KiB;  ///< 2_MiB where the upstream can
    unsigned      operations        = 2000;   ///< random operations
    unsigned      streams           = 3;      ///< in the random operations
    std::uint64_t seed              = 1;
    bool          touch             = true; ///< off for addresses with no memory behind them
    bool may_refuse      = false; ///< a request within `room` may be refused (fragments, no reuse)
    bool overflow_throws = true;  ///< off where an impossible size ends in another error
};

} // namespace laws
