// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `owner_table` is a table of tags, lines or threads with their figures.

#include <vram/base/bytes.hpp>
#include <vram/base/call_site.hpp>
#include <vram/base/core/only_if_used.hpp>
#include <vram/probe/core/table.hpp>
#include <vram/probe/tracked_owner.hpp>

#include <cstddef>
#include <string> // string, to_string
#include <vector> // vector

namespace vram {
namespace detail {

/// Returns the text "file.cpp:12" without the folders, or "" if the line is unknown.
template <class = only_if_used>
[[nodiscard]] std::string short_line(call_site at) {
    if (!at.known()) { return ""; }
    std::string const file  = at.file();
    std::size_t const slash = file.find_last_of("/\\");
    return file.substr(slash == std::string::npos ? 0 : slash + 1) + ":" +
           std::to_string(at.line());
}
/// Returns the path of a tag, or "(no tag)".
template <class = only_if_used>
[[nodiscard]] std::string tag_text(memory_tag t) {
    return t.known() ? t.path() : "(no tag)";
}

/// What each row of an `owner_table` stands for: a tag, a line of the program, or a thread.
enum class owner_kind : unsigned char { tag, site, thread };

/// Returns a table of the first `rows` owners (tags, program lines or threads). A last line has the
/// number of further owners. The mark "<=" stands before a peak that is only an upper bound.
template <class = only_if_used>
[[nodiscard]] std::string owner_table(std::vector<tracked_owner> const& owners, owner_kind kind,
                                      std::size_t rows) {
    table text{8};
    text.add(kind == owner_kind::tag ? "tag" : kind == owner_kind::site ? "line" : "thread");
    for (char const* const each :
         {"tag", "live", "blocks", "at the peak", "own peak", "allocations", "freed elsewhere"}) {
        text.add(each);
    }
    std::size_t left_out = 0;
    for (tracked_owner const& each : owners) {
        if (rows == 0) {
            ++left_out;
            continue;
        }
        --rows;
        std::string const line = short_line(each.at);
        text.add(kind == owner_kind::tag    ? tag_text(each.owner)
                 : kind == owner_kind::site ? (line.empty() ? "(unknown)" : line)
                                            : std::to_string(each.thread));
        text.add(kind == owner_kind::site && each.owner.known() ? each.owner.path() : "");
        text.add(bytes{each.live}.text().c_str());
        text.add(std::to_string(each.blocks));
        text.add(bytes{each.at_peak}.text().c_str());
        text.add((each.peak_is_exact ? "" : "<= ") + std::string{bytes{each.peak}.text().c_str()});
        text.add(std::to_string(each.allocations));
        text.add(each.crossed != 0 ? std::to_string(each.crossed) : "");
    }
    std::string out = text.text();
    if (left_out != 0) { out += "and " + std::to_string(left_out) + " more\n"; }
    return out;
}

} // namespace detail
} // namespace vram
