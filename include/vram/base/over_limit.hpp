// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `over_limit` is an out-of-memory that a budget made.

#include <vram/base/out_of_memory.hpp> // out_of_memory, shortage

namespace vram {

/// A budget said no before the upstream was asked: there may be memory, but not for this caller.
class over_limit : public out_of_memory {
public:
    /// \param asked  the bytes that were asked for
    /// \param live   the bytes that were out
    /// \param limit  the budget
    over_limit(std::size_t asked, std::size_t live, std::size_t limit) noexcept
        : out_of_memory{{.asked = asked, .rounded = asked, .live = live, .limit = limit}} {}

    /// The bytes that the budget still had when it refused.
    [[nodiscard]] std::size_t room() const noexcept { return numbers().limit - numbers().live; }

    [[nodiscard]] char const* what() const noexcept override { return "vram: over the limit"; }
};

} // namespace vram
