// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `options` describes the resource that is checked by the laws.

#include <vram/base/bytes.hpp> // 4_KiB

#include <cstddef> // size_t
#include <cstdint> // uint64_t

namespace laws {

using namespace vram::literals;

/// The defaults suit any resource with 64 KiB.
struct options {
    /// Bytes that may be live at the same time. No law requests more.
    std::size_t   room              = 64_KiB;
    std::size_t   largest           = 4_KiB; ///< the largest block of the random operations
    std::size_t   largest_alignment = 4_KiB; ///< 2_MiB if the upstream can
    unsigned      operations        = 2000;  ///< random operations
    unsigned      streams           = 3;     ///< in the random operations
    std::uint64_t seed              = 1;
    bool          touch             = true; ///< false for addresses without memory
    /// True if a request within `room` may be refused (fragmentation, no reuse).
    bool may_refuse      = false;
    bool overflow_throws = true; ///< false if an impossible size throws another error
};

} // namespace laws
