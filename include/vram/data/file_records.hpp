// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `file_records` is a loader's source: each batch consists of records of a file.

#include <vram/base/contract.hpp>        // expects
#include <vram/base/core/smaller_of.hpp> // larger_of, smaller_of
#include <vram/data/file_chunks.hpp>
#include <vram/data/file_error.hpp>
#include <vram/data/layout_error.hpp>

#include <cstddef>
#include <span>       // span
#include <stop_token> // stop_token
#include <utility>

namespace vram {

/// Options of a `file_records`.
struct file_records_options {
    std::size_t header       = 0;     ///< bytes before the first record
    bool        drop_partial = false; ///< if true, a last batch with fewer records is left out
};

/// A loader's source: each batch consists of `records` consecutive records of `record_bytes` bytes.
///
///     file_records digits{file{"train-images-idx3-ubyte"}, 28 * 28, 256, {.header = 16}};
///     loader{std::move(digits), stream};      // 235 batches, the last of 96 records
///
/// Failure   Throws `file_error` if a read fails or the file ends within a record. Throws
///           `layout_error` if a record or a batch has no bytes.
/// Threads   Any number of threads may call `fill`.
/// Cost      One read of the file for each batch, or for each 16 MiB of a larger one.
template <class File>
class file_records {
public:
    /// Divides the file's records of `record_bytes` bytes into batches of `records` records. Throws
    /// if the file does not consist of whole records.
    file_records(File from, std::size_t record_bytes, std::size_t records,
                 file_records_options options = {})
        : record_bytes_{record_bytes},
          count_{counted(from, record_bytes, options.header)},
          // Limits a batch to the number of records in the file, or to 1 if there are none, so that
          // `batch_ * record_bytes` cannot overflow.
          batch_{detail::smaller_of(records, detail::larger_of<std::size_t>(count_, 1))},
          chunks_{std::move(from),
                  batch_ * record_bytes,
                  {.first = options.header, .drop_partial = options.drop_partial}},
          size_{options.drop_partial && count_ < records ? 0 : chunks_.size()} {}

    /// Returns the number of batches.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    /// Returns the largest number of bytes of a batch.
    [[nodiscard]] std::size_t batch_bytes() const noexcept { return batch_ * record_bytes_; }
    /// Returns the bytes of batch `index`, which must be less than `size()`.
    [[nodiscard]] std::size_t batch_bytes(std::size_t index) const {
        return records(index) * record_bytes_;
    }
    [[nodiscard]] File const& source() const noexcept { return chunks_.source(); }

    [[nodiscard]] std::size_t record_bytes() const noexcept { return record_bytes_; }
    /// Returns the number of records of the file.
    [[nodiscard]] std::size_t records() const noexcept { return count_; }
    /// Returns the number of records of batch `index`, which must be less than `size()`. The last
    /// batch may have fewer than the others.
    [[nodiscard]] std::size_t records(std::size_t index) const {
        expects(index < size_, "file_records: the index must be less than size()");
        return chunks_[index].bytes / record_bytes_;
    }

    /// Reads batch `index` into `to` and returns the size of the batch in bytes. If `to` is smaller
    /// than the batch, reads nothing and returns this size. Returns 0 after the last batch, or if
    /// `stop` ended the read.
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
    std::size_t       batch_; ///< largest number of records that a batch can have, at least 1
    file_chunks<File> chunks_;
    std::size_t       size_;
};

} // namespace vram
