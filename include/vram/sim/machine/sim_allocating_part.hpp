// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_allocating_part` is the part of vram that allocated memory, for reports of leaks.

#include <vram/base/requirements.hpp>

#include <iterator>        // size
#include <source_location> // source_location
#include <string_view>     // string_view

namespace vram {
namespace detail {

/// A part of vram that allocates memory for itself, such as a pool, and how to free this memory.
struct sim_allocating_part {
    /// Folder of the headers of this part, such as "pool/". Empty in the last entry of the list.
    std::string_view folder;
    char const*      name; ///< name of the part in reports; null in the last entry, for other code
    char const*      advice;
};
inline constexpr sim_allocating_part sim_allocating_parts[] = {
    {"pool/", "a pool for its chunks", "Destroy or trim the pool before the node ends."},
    {"transfer/", "a loader, an unloader or staging", "Destroy it before the node ends."},
    {"staging/", "staging", "Destroy it before the node ends."},
    {"source/", "a resource of virtual memory",
     "Destroy it, and the pool over it, before the node ends."},
    {"layer/", "a layer of the stack", "Destroy the stack before the node ends."},
    {"handle/", "a handle: `buffer`, `array` or a container", "Destroy it before the node ends."},
    {"", nullptr, ""}};

#if defined VRAM_SINGLE_FILE
/// Returns the folder, such as "pool/", of the header from which `line` of the single file comes.
/// The script that joins the headers appends the definition to the file.
[[nodiscard]] inline std::string_view single_file_folder(unsigned line) noexcept;
#endif

/// Returns the part of vram that contains the line `where`, by the folder of its file.
inline sim_allocating_part const& sim_part_of(std::source_location where) {
    static constexpr std::string_view here = std::source_location::current().file_name();
    std::string_view const            file = where.file_name();
    std::string_view                  header;
#if defined VRAM_SINGLE_FILE
    if (file == here) { header = single_file_folder(where.line()); }
#else
    std::string_view const root = here.substr(0, here.rfind("sim/"));
    if (file.starts_with(root)) { header = file.substr(root.size()); }
#endif
    for (sim_allocating_part const& each : sim_allocating_parts) {
        if (each.name == nullptr || header.starts_with(each.folder)) { return each; }
    }
    return sim_allocating_parts[std::size(sim_allocating_parts) - 1];
}

} // namespace detail
} // namespace vram
