// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `staging_result` is the number of bytes that a call of staging moved, and their path.

#include <vram/transfer/transfer_path.hpp> // transfer_path

#include <cstddef> // size_t

namespace vram {

/// Result of a staging call. It always moved all bytes; if it cannot, the call throws instead.
struct staging_result {
    /// Number of bytes that were moved.
    std::size_t bytes = 0;
    /// Path that the bytes took.
    transfer_path path    = transfer_path::nothing;
    std::size_t   pieces  = 0; ///< number of copies that the device made
    unsigned      threads = 0; ///< number of host threads that took part

    /// Returns the reason for the path, as a sentence.
    [[nodiscard]] char const* reason() const noexcept { return vram::reason(path); }

    friend bool operator==(staging_result const&, staging_result const&) = default;
};

} // namespace vram
