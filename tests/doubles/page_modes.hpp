// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What a pool over virtual memory may do with the memory of free pages.

#include <vram/pool/pool_options.hpp> // pool_options

#include <limits> // numeric_limits

namespace doubles {

enum class page_mode {
    apart,  ///< it stays where it is
    shared, ///< it gets second addresses as soon as that spares new memory
    moved,  ///< it moves
};
inline constexpr page_mode page_modes[] = {page_mode::apart, page_mode::shared, page_mode::moved};

/// The same options in that mode.
[[nodiscard]] constexpr vram::pool_options in_mode(page_mode mode, vram::pool_options o = {}) {
    o.remap = mode == page_mode::moved;
    o.slack = mode == page_mode::apart ? std::numeric_limits<double>::infinity() : 0;
    return o;
}

} // namespace doubles
