// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `file_records` is a file of records of one size as a source: a number of them in each batch.

#include <vram/transfer/file_chunks.hpp>  // file_chunks
#include <vram/transfer/file_error.hpp>   // file_error
#include <vram/transfer/layout_error.hpp> // layout_error

#include <algorithm>  // max, min
#include <cstddef>    // size_t, byte
#include <span>       // span
#include <stop_token> // stop_token
#include <utility>    // move

namespace vram {

/// What is around the records, and what becomes of those that are left over.
struct file_records_options {
    std::size_t header       = 0;     ///< bytes before the first record
    bool        drop_partial = false; ///< no last batch of fewer records than the others
};

/// A batch is `records` records, as they lie in the file.
///
///     file_records digits{file{"train-images-idx3-ubyte"}, 28 * 28, 256, {.header = 16}};
///     loader{std::move(digits), stream};      // 235 batches, the last of 96 records
///
/// Failure   `file_error{partial_record}` where the file is no whole number of records (one that
///           is being written, or is something else), and where it is shorter than its header;
///           `layout_error{empty}` where a record or a batch is nothing; reading, the file's own
/// Threads   any number may fill
/// Cost      that of `file_chunks`
template <class File>
class file_records {
public:
    file_records(File from, std::size_t record_bytes, std::size_t records,
                 file_records_options options = {})
        : record_bytes_{record_bytes},
          count_{counted(from, record_bytes, options.header)},
          batch_{std::min(records, std::max<std::size_t>(count_, 1))}, // no product overflows
          chunks_{std::move(from),
                  batch_ * record_bytes,
                  {.first = options.header, .drop_partial = options.drop_partial}},
          size_{options.drop_partial && count_ < records ? 0 : chunks_.size()} {}

    /// Batches.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] std::size_t batch_bytes() const noexcept { return batch_ * record_bytes_; }
    /// Bytes of batch `index`, which there is.
    [[nodiscard]] std::size_t batch_bytes(std::size_t index) const {
        return records(index) * record_bytes_;
    }
    [[nodiscard]] File const& source() const noexcept { return chunks_.source(); }

    [[nodiscard]] std::size_t record_bytes() const noexcept { return record_bytes_; }
    /// Records of the file.
    [[nodiscard]] std::size_t records() const noexcept { return count_; }
    /// Records of batch `index`, which there is.
    [[nodiscard]] std::size_t records(std::size_t index) const {
        return chunks_[index].bytes / record_bytes_;
    }

    /// Reads batch `index`, as `file_chunks` does.
    std::size_t fill(std::span<std::byte> to, std::size_t index,
                     std::stop_token const& stop = {}) const {
        return index < size_ ? chunks_.fill(to, index, stop) : 0;
    }

private:
    static std::size_t counted(File const& from, std::size_t record_bytes, std::size_t header) {
        using why = file_error::reason;
        if (record_bytes == 0) { throw layout_error{layout_error::reason::empty}; }
        std::size_t const bytes = from.size();
        if (bytes < header) { throw file_error{why::ends_early, from.path(), 0, header, bytes}; }
        std::size_t const rest = (bytes - header) % record_bytes;
        if (rest != 0) {
            throw file_error{why::partial_record, from.path(), bytes - rest, record_bytes, rest};
        }
        return (bytes - header) / record_bytes;
    }

    std::size_t       record_bytes_;
    std::size_t       count_;
    std::size_t       batch_; ///< records of a batch
    file_chunks<File> chunks_;
    std::size_t       size_;
};

} // namespace vram
