// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `fixed_growth` grows a pool by chunks of one size.

#include <vram/base/bytes.hpp>      // literals
#include <vram/concepts/growth.hpp> // growth

#include <cstddef> // size_t

namespace vram {

/// Every chunk is `step` bytes; only a request larger than that has a chunk of its own size.
///
/// Failure   never
/// Threads   any
/// Cost      a comparison
struct fixed_growth {
    static constexpr bool asks_device = false;

    std::size_t step = 64_MiB;

    [[nodiscard]] std::size_t operator()(growth_request const& request) const noexcept {
        return request.needed > step ? request.needed : step;
    }
};

static_assert(growth<fixed_growth>);

} // namespace vram
