// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `fixed_growth` is a growth policy with chunks of one size.

#include <vram/base/bytes.hpp> // literals
#include <vram/concepts/growth.hpp>

#include <cstddef>

namespace vram {

/// Makes chunks of `step` bytes, or as large as a larger request.
///
///     pool memory{virtual_resource{}, {}, fixed_growth{.step = 1_GiB}};
///
/// Threads   Any number of threads may call concurrently.
struct fixed_growth {
    /// False: this growth policy does not use the amount of free device memory.
    static constexpr bool asks_device = false;

    /// Size of a chunk in bytes, if the request is not larger.
    std::size_t step = 64_MiB;

    /// Returns the size of the next chunk: `step`, or the bytes that the request needs if more.
    [[nodiscard]] std::size_t operator()(growth_request const& request) const noexcept {
        return request.needed > step ? request.needed : step;
    }
};

static_assert(growth<fixed_growth>);

} // namespace vram
