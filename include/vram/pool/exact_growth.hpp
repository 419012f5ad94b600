// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `exact_growth` grows a pool by the bytes of the request.

#include <vram/concepts/growth.hpp> // growth

#include <cstddef> // size_t

namespace vram {

/// Every chunk is made for one request: the least is held, and the upstream is asked the most.
///
/// Failure   never
/// Threads   any
/// Cost      nothing
struct exact_growth {
    static constexpr bool asks_device = false;

    [[nodiscard]] std::size_t operator()(growth_request const& request) const noexcept {
        return request.needed;
    }
};

static_assert(growth<exact_growth>);

} // namespace vram
