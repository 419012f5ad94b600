// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `over_limit` is thrown if a request exceeds a budget.

#include <vram/base/out_of_memory.hpp> // out_of_memory, shortage

namespace vram {

/// The request would exceed the limit of a layer. The upstream was not called and may have memory.
class over_limit : public out_of_memory {
public:
    /// \param asked  the requested bytes
    /// \param live   the live bytes
    /// \param limit  the limit
    /// \param rounded  the bytes that the request counts, if they are more
    over_limit(std::size_t asked, std::size_t live, std::size_t limit,
               std::size_t rounded = 0) noexcept
        : out_of_memory{{.asked   = asked,
                         .rounded = rounded > asked ? rounded : asked,
                         .live    = live,
                         .limit   = limit}} {}

    /// Returns the number of bytes that the limit still allowed.
    [[nodiscard]] std::size_t room() const noexcept { return numbers().limit - numbers().live; }

    [[nodiscard]] char const* what() const noexcept override {
        return "vram: over the limit (vram::explain(e) has the numbers)";
    }
};

} // namespace vram
