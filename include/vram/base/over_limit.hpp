// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `over_limit` is thrown if a request exceeds a budget.

#include <vram/base/core/smaller_of.hpp>
#include <vram/base/out_of_memory.hpp> // out_of_memory, shortage

namespace vram {

/// Thrown if a request would exceed a limit: that of a layer such as `limiting`, or the budget of a
/// loader or unloader. The upstream may still have free memory.
///
///     catch (over_limit const& e) { size = e.room(); } // the bytes that are left below the limit
class over_limit : public out_of_memory {
public:
    /// \param asked  the requested bytes
    /// \param live  the bytes that counted against the limit before the request
    /// \param limit  the largest number of bytes that may count
    /// \param rounded  the bytes that the request would add, if more than `asked`
    over_limit(std::size_t asked, std::size_t live, std::size_t limit,
               std::size_t rounded = 0) noexcept
        : out_of_memory{{.asked   = asked,
                         .rounded = rounded > asked ? rounded : asked,
                         .live    = live,
                         .limit   = limit}} {}

    /// Returns how many bytes were left below the limit when the request was refused.
    [[nodiscard]] std::size_t room() const noexcept {
        return numbers().limit - detail::smaller_of(numbers().limit, numbers().live);
    }

    [[nodiscard]] char const* what() const noexcept override {
        return "vram: over the limit (vram::explain(e) has the numbers)";
    }
};

} // namespace vram
