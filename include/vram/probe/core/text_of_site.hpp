// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `text_of_site` is the line of a call in a message, such as "app.cpp:42".

#include <vram/base/bytes.hpp>
#include <vram/base/call_site.hpp>
#include <vram/base/tag.hpp> // memory_tag

#include <cstddef>
#include <string>      // string, to_string
#include <string_view> // string_view

namespace vram {
namespace detail {

/// Returns a number of bytes with a unit, such as "64.0 MiB".
[[nodiscard]] inline std::string text_of_size(std::size_t count) {
    return bytes{count}.text().c_str();
}

/// Returns ` of tag "train/optimizer"`, or an empty text if there is no tag.
[[nodiscard]] inline std::string text_of_owner(memory_tag owner) {
    return owner.known() ? " of tag \"" + std::string{owner.path()} + "\"" : std::string{};
}

/// Returns `words`, the file's name and the line, such as " at app.cpp:42", or an empty text for an
/// unknown line.
[[nodiscard]] inline std::string text_of_site(char const* words, call_site at) {
    if (!at.known()) { return ""; }
    std::string_view const path{at.file()};
    std::size_t const      folder = path.find_last_of("/\\");
    return words + std::string{path.substr(folder == std::string_view::npos ? 0 : folder + 1)} +
           ":" + std::to_string(at.line());
}

} // namespace detail
} // namespace vram
