// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `exact_growth` is a growth policy that makes chunks as large as the request.

#include <vram/concepts/growth.hpp>

#include <cstddef>

namespace vram {

/// Makes every chunk as large as the request that needs it. Reserves the least memory, and calls
/// the upstream most often.
///
/// Threads   Any number of threads may call concurrently.
struct exact_growth {
    /// False: this growth policy does not use the amount of free device memory.
    static constexpr bool asks_device = false;

    /// Returns the size of the next chunk: the bytes that the request needs.
    [[nodiscard]] std::size_t operator()(growth_request const& request) const noexcept {
        return request.needed;
    }
};

static_assert(growth<exact_growth>);

} // namespace vram
