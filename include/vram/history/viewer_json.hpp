// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `viewer_json` writes a history for PyTorch's memory viewer, as JSON.

#include <vram/history/core/byte_file.hpp>
#include <vram/history/core/json_writer.hpp>
#include <vram/history/core/viewer_document.hpp>
#include <vram/history/history_record.hpp>

namespace vram {

/// A `history_format`: the document of `viewer_pickle` as JSON, for scripts and for newer versions
/// of pytorch.org/memory_viz.
///
///     memory.observer().write("run.json", viewer_json);
///
/// Failure   Throws `file_error`, `std::bad_alloc`.
/// Cost      About 300 bytes in the file for each event.
inline void viewer_json(history_record const& record, detail::byte_file& to) {
    detail::json_writer writer{to};
    detail::viewer_document{record, writer}.write();
}

} // namespace vram
