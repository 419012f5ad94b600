// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `viewer_pickle` writes a history for PyTorch's memory viewer, as a pickle.

#include <vram/history/core/byte_file.hpp>
#include <vram/history/core/pickle_writer.hpp>
#include <vram/history/core/viewer_document.hpp>
#include <vram/history/history_record.hpp>

namespace vram {

/// A `history_format`: writes the record as a pickle (protocol 2) for PyTorch's memory viewer
/// (pytorch.org/memory_viz, `_memory_viz.py`) and SnapViewer. `viewer_json` writes it as JSON.
///
///     memory.observer().write("run.pickle", viewer_pickle);
///
/// If several observed resources lie over each other, the segments are the chunks of the lowest
/// one, and the blocks are those of the uppermost one. A block that was allocated before the first
/// event of the record appears only when it is freed.
///
/// Failure   Throws `file_error`, `std::bad_alloc`.
/// Cost      Less than 2 us, and about 100 bytes in the file, for each event.
inline void viewer_pickle(history_record const& record, detail::byte_file& to) {
    detail::pickle_writer writer{to};
    detail::viewer_document{record, writer}.write();
}

} // namespace vram
