// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `staging_result` is the number of bytes that a call of staging moved, and their path.

#include <vram/transfer/transfer_path.hpp> // transfer_path

#include <cstddef> // size_t

namespace vram {

/// All of the bytes that were asked for: where some could not be moved, it throws instead.
struct staging_result {
    std::size_t   bytes   = 0;
    transfer_path path    = transfer_path::nothing;
    std::size_t   pieces  = 0; ///< copies that the device was asked for
    unsigned      threads = 0; ///< of the host that took part

    /// Why it went that way.
    [[nodiscard]] char const* reason() const noexcept { return vram::reason(path); }

    friend bool operator==(staging_result const&, staging_result const&) = default;
};

} // namespace vram
