// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `utf8_text` makes valid UTF-8 of any text, for file formats that require it.

#include <vram/base/requirements.hpp>

#include <cstddef>
#include <string>      // string
#include <string_view> // string_view

namespace vram {
namespace detail {

/// Returns the number of bytes of the first character of `text`, or 0 if `text` does not begin with
/// valid UTF-8.
[[nodiscard]] inline std::size_t utf8_length(std::string_view text) noexcept {
    auto const byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    if (text.empty()) { return 0; }
    unsigned const    c      = byte(0);
    std::size_t const length = c < 0x80                ? 1
                               : c >= 0xC2 && c < 0xE0 ? 2
                               : c >= 0xE0 && c < 0xF0 ? 3
                               : c >= 0xF0 && c < 0xF5 ? 4
                                                       : 0;
    if (length == 0 || length > text.size()) { return 0; }
    for (std::size_t i = 1; i != length; ++i) {
        if ((byte(i) & 0xC0) != 0x80) { return 0; }
    }
    bool const wrong =
        length > 2 && ((c == 0xE0 && byte(1) < 0xA0) || (c == 0xED && byte(1) > 0x9F) ||
                       (c == 0xF0 && byte(1) < 0x90) || (c == 0xF4 && byte(1) > 0x8F));
    return wrong ? 0 : length;
}

/// Returns `text`, with '?' in place of each byte that is not part of valid UTF-8.
[[nodiscard]] inline std::string utf8_text(std::string_view text) {
    std::string made{text};
    for (std::size_t i = 0; i < text.size();) {
        std::size_t const length = utf8_length(text.substr(i));
        if (length == 0) { made[i] = '?'; }
        i += length == 0 ? 1 : length;
    }
    return made;
}

} // namespace detail
} // namespace vram
