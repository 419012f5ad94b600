// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `file_chunks` is a file as a source: one piece after the other, read into pinned memory.

#include <vram/transfer/chunking.hpp> // chunking
#include <vram/transfer/file.hpp>     // file, the one that is usual

#include <algorithm>  // min
#include <cstddef>    // size_t, byte
#include <span>       // span
#include <stop_token> // stop_token
#include <utility>    // move

namespace vram {

/// A batch is a piece of the file; pieces may overlap, and the last may be shorter.
///
///     loader{file_chunks{file{"log.bin"}, 64_MiB}, stream};
///     file_chunks genome{file{"chr1.txt"}, 16_MiB, {.overlap = 1_KiB}};   // no match is cut
///
/// Pinned memory of the platform's own begins at a page, so that chunks whose length is a multiple
/// of 4096 go past the page cache where the file is `direct`. A loader's blocks out of a pool of
/// the user's, or out of pageable memory, may begin elsewhere; then nothing does.
///
/// Failure   the file's: `file_error` with the place, the bytes wanted and the bytes there. The
///           number of chunks is that of the file as it was at first; what it grows is not seen
/// Threads   any number may fill, different batches or the same
/// Cost      one read of the file for each batch, and for each 16 MiB of it
template <class File>
class file_chunks {
public:
    file_chunks(File from, std::size_t chunk, chunking_options options = {})
        : file_{std::move(from)}, cut_{file_.size(), chunk, options} {}

    [[nodiscard]] std::size_t size() const noexcept { return cut_.size(); }
    [[nodiscard]] std::size_t batch_bytes() const noexcept { return cut_.batch_bytes(); }
    /// Bytes of batch `index`, which there is.
    [[nodiscard]] std::size_t batch_bytes(std::size_t index) const { return cut_[index].bytes; }
    [[nodiscard]] File const& source() const noexcept { return file_; }

    /// Where in the file batch `index` is.
    [[nodiscard]] chunking::piece operator[](std::size_t index) const { return cut_[index]; }

    /// Reads batch `index`. Its bytes; 0 after the last, or where `stop` says that nobody waits.
    /// Where they are more than `to` has room for, nothing is read.
    std::size_t fill(std::span<std::byte> to, std::size_t index,
                     std::stop_token const& stop = {}) const {
        if (index >= size()) { return 0; }
        auto const [offset, bytes] = cut_[index];
        if (bytes > to.size()) { return bytes; }
        for (std::size_t done = 0; done < bytes;) {
            if (stop.stop_requested()) { return 0; }
            std::size_t const n = std::min(bytes - done, at_once);
            file_.read(to.subspan(done, n), offset + done);
            done += n;
        }
        return bytes;
    }

private:
    static constexpr std::size_t at_once = std::size_t{16} << 20; // between two looks at `stop`

    File     file_;
    chunking cut_;
};

} // namespace vram
