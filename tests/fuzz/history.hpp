// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `run_history` reads bytes as a file of `history_columns`, and writes the record in each format.

#include <vram/data/file_error.hpp>
#include <vram/history/chrome_trace.hpp>
#include <vram/history/history.hpp>
#include <vram/history/history_columns.hpp>
#include <vram/history/perfetto_trace.hpp>
#include <vram/history/read_history.hpp>
#include <vram/history/rmm_csv.hpp>
#include <vram/history/viewer_json.hpp>
#include <vram/history/viewer_pickle.hpp>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h> // getpid

namespace fuzz {

/// The path of a file of this process.
inline std::string path_of_file() {
    return (std::filesystem::temp_directory_path() /
            ("vram-fuzz-" + std::to_string(::getpid()) + ".history"))
        .string();
}
/// Returns the bytes that `history_columns` writes for a record.
inline std::string bytes_of(vram::history_record const& record) {
    std::string const       path = path_of_file();
    vram::detail::byte_file out{path};
    vram::history_columns(record, out);
    out.close();
    std::string const all = vram::detail::bytes_of_file(path);
    std::filesystem::remove(path);
    return all;
}

/// Reads `bytes` as a file of `history_columns`. Returns false if the reader refuses it with
/// `file_error`. Otherwise writes the record in each format, and throws `std::runtime_error` if an
/// index is outside of its table, or if the record that is written and read again differs.
inline bool run_history(std::string_view bytes) {
    vram::history_record record;
    try {
        record = vram::detail::column_decoder{bytes, "fuzzed"}.result();
    } catch (vram::file_error const&) { return false; }
    for (vram::history_record::event const& e : record.events) {
        if (e.tag >= record.tags.size() || e.resource >= record.resources.size() ||
            e.site >= record.sites.size() || e.stack >= record.stacks.size()) {
            throw std::runtime_error{"an index is outside of its table"};
        }
    }
    for (vram::history_format const format :
         {vram::chrome_trace, vram::perfetto_trace, vram::rmm_csv, vram::viewer_json,
          vram::viewer_pickle}) {
        vram::detail::byte_file out{path_of_file()}; // without close() no file is left
        format(record, out);
    }
    std::string const again = bytes_of(record);
    if (vram::detail::column_decoder{again, "again"}.result() != record) {
        throw std::runtime_error{"a record that was read differs after it was written"};
    }
    return true;
}

} // namespace fuzz
