// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `text_of_time` is a duration with its unit, such as "1.25 ms".

#include <vram/base/requirements.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio> // snprintf
#include <string> // string

namespace vram {
namespace detail {

/// Returns a duration with at most three significant digits below 1000 s, and its unit.
[[nodiscard]] inline std::string text_of_time(std::uint64_t nanoseconds) {
    static constexpr char const* units[] = {"ns", "us", "ms", "s"};
    auto                         value   = static_cast<double>(nanoseconds);
    std::size_t                  unit    = 0;
    // 999.5 and more would be printed with four digits.
    while (value >= 999.5 && unit != 3) {
        value /= 1000;
        ++unit;
    }
    int const digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    char      text[40];
    std::snprintf(text, sizeof text, "%.*f %s", digits, value, units[unit]);
    return text;
}

} // namespace detail
} // namespace vram
