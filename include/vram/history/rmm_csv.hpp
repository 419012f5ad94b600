// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `rmm_csv` writes a history as the CSV of RMM's logging adaptor, with further columns.

#include <vram/history/core/block_story.hpp>
#include <vram/history/core/byte_file.hpp>
#include <vram/history/core/csv_row.hpp>
#include <vram/history/history_record.hpp>

#include <cstdint>

namespace vram {

/// A `history_format`: a CSV line for each refusal, and for each allocation and free of the
/// outermost resources. The columns are RMM's (`Thread,Time,Action,Pointer,Size,Stream`) and then
/// `Tag,File,Line`. The example `replay` and RMM's replay benchmark read the file. Frees of blocks
/// that are older than the record are left out.
///
///     memory.observer().write("run.csv", rmm_csv);
///
/// Failure   Throws `file_error`, `std::bad_alloc`.
/// Cost      About 1 us, and 100 bytes in the file, for each event.
inline void rmm_csv(history_record const& record, detail::byte_file& to) {
    using action = detail::story_step::action;
    detail::block_story const story{record};
    to << detail::csv_header;
    for (detail::story_step const& step : story.steps()) {
        char const* text = nullptr;
        switch (step.what) {
        case action::allocated: text = "allocate"; break;
        case action::refused: text = "allocate failure"; break;
        case action::freed:
        case action::free_requested:
            text = step.origin != detail::story_step::unknown ? "free" : nullptr;
            break;
        default: break;
        }
        if (text == nullptr) { continue; }
        history_record::event const& e  = record.events[step.event];
        history_record::site const&  at = record.sites[e.site];
        to << detail::csv_row{e.thread,           e.time,     text,
                              step.memory,        step.bytes, e.stream,
                              record.tags[e.tag], at.file,    at.line}
                  .line();
    }
}

} // namespace vram
