// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The ways in which a pool over virtual memory may use free pages.

#include <vram/pool/pool_options.hpp> // pool_options

#include <limits> // numeric_limits

namespace doubles {

enum class page_mode {
    apart,  ///< pages stay in place
    shared, ///< pages get second addresses if that saves new memory
    moved,  ///< pages are remapped
};
inline constexpr page_mode page_modes[] = {page_mode::apart, page_mode::shared, page_mode::moved};

/// Returns the options of a pool with that mode.
[[nodiscard]] constexpr vram::pool_options in_mode(page_mode mode, vram::pool_options o = {}) {
    o.remap = mode == page_mode::moved;
    o.slack = mode == page_mode::apart ? std::numeric_limits<double>::infinity() : 0;
    return o;
}

} // namespace doubles
