// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `file_chunks` is a loader's source: each batch is a chunk of a file.

#include <vram/base/core/smaller_of.hpp>
#include <vram/data/chunking.hpp>
#include <vram/data/file.hpp> // file, the one that is usual

#include <cstddef>
#include <span>       // span
#include <stop_token> // stop_token
#include <utility>

namespace vram {

/// A loader's source: each batch is a chunk of a file. Consecutive chunks may overlap, and the last
/// may be shorter.
///
///     loader{file_chunks{file{"log.bin"}, 64_MiB}, stream};
///     file_chunks genome{file{"chr1.txt"}, 16_MiB, {.overlap = 1_KiB}};   // keeps matches whole
///
/// Failure   Throws `file_error` if a read fails. The constructor throws `layout_error` if a chunk
///           is not longer than the overlap.
/// Threads   Any number of threads may call `fill`.
/// Cost      One read of the file for each batch, or for each 16 MiB of a larger one.
template <class File>
class file_chunks {
public:
    /// Divides the file `from` into chunks of `chunk` bytes (see `chunking`). Ignores bytes that
    /// are appended to the file later.
    file_chunks(File from, std::size_t chunk, chunking_options options = {})
        : file_{std::move(from)}, cut_{file_.size(), chunk, options} {}

    /// Returns the number of batches: one for each chunk of the file.
    [[nodiscard]] std::size_t size() const noexcept { return cut_.size(); }
    /// Returns the largest number of bytes of a batch.
    [[nodiscard]] std::size_t batch_bytes() const noexcept { return cut_.batch_bytes(); }
    /// Returns the bytes of batch `index`, which must be less than `size()`.
    [[nodiscard]] std::size_t batch_bytes(std::size_t index) const { return cut_[index].bytes; }
    [[nodiscard]] File const& source() const noexcept { return file_; }

    /// Returns offset and size of batch `index` in the file. `index` must be less than `size()`.
    [[nodiscard]] chunking::piece operator[](std::size_t index) const { return cut_[index]; }

    /// Reads batch `index` into `to` and returns the size of the batch in bytes. If `to` is smaller
    /// than the batch, reads nothing and returns this size. Returns 0 after the last batch, or if
    /// `stop` ended the read.
    std::size_t fill(std::span<std::byte> to, std::size_t index,
                     std::stop_token const& stop = {}) const {
        if (index >= size()) { return 0; }
        auto const [offset, bytes] = cut_[index];
        if (bytes > to.size()) { return bytes; }
        for (std::size_t done = 0; done < bytes;) {
            if (stop.stop_requested()) { return 0; }
            std::size_t const n = detail::smaller_of(bytes - done, at_once);
            file_.read({to.data() + done, n}, offset + done);
            done += n;
        }
        return bytes;
    }

private:
    // Number of bytes of one read. Before each read, `fill` tests whether a stop was requested.
    static constexpr std::size_t at_once = std::size_t{16} << 20;

    File     file_;
    chunking cut_;
};

} // namespace vram
