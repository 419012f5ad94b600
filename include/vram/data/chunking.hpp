// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `chunking` divides a run of bytes into chunks of equal size, which may overlap.

#include <vram/base/contract.hpp>        // expects
#include <vram/base/core/smaller_of.hpp> // larger_of, smaller_of
#include <vram/data/layout_error.hpp>

#include <cstddef>

namespace vram {

/// Options of a `chunking`.
struct chunking_options {
    /// Bytes before the first chunk that belong to no chunk, such as a header.
    std::size_t first = 0;
    /// Number of bytes that each chunk repeats from the end of the chunk before. Must be less than
    /// the size of a chunk.
    std::size_t overlap = 0;
    /// If true, a last chunk with fewer bytes than requested is left out, even if it is the only
    /// one.
    bool drop_partial = false;
};

/// Divides `total` bytes into chunks of `chunk` bytes. Each chunk begins `overlap` bytes before the
/// end of the previous chunk. The last chunk may be shorter.
///
///     chunking const cut{1000, 400, {.overlap = 100}};   // [0, 400), [300, 700), [600, 1000)
///
/// Failure   The constructor throws `layout_error` if a chunk is not longer than `overlap`.
/// Cost      Constant time.
class chunking {
public:
    struct piece {
        std::size_t offset = 0;
        std::size_t bytes  = 0;

        friend bool operator==(piece const&, piece const&) = default;
    };

    chunking(std::size_t total, std::size_t chunk, chunking_options options = {})
        : chunk_{chunk},
          overlap_{options.overlap},
          first_{detail::smaller_of(options.first, total)},
          bytes_{total - first_} {
        using why = layout_error::reason;
        if (chunk == 0) { throw layout_error{why::empty}; }
        if (overlap_ >= chunk) { throw layout_error{why::overlap, overlap_, chunk}; }
        if (bytes_ == 0) { return; }
        // Number of bytes behind the first chunk. The other chunks must contain them.
        std::size_t const beyond = bytes_ <= chunk ? 0 : bytes_ - chunk;
        size_                    = 1 + beyond / step() + (beyond % step() != 0 ? 1 : 0);
        if (options.drop_partial && (*this)[size_ - 1].bytes < chunk) { --size_; }
    }

    /// Returns the number of chunks.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    /// Returns the bytes of the longest chunk; at least 1, also if there is no chunk.
    [[nodiscard]] std::size_t batch_bytes() const noexcept {
        return detail::smaller_of(chunk_, detail::larger_of<std::size_t>(bytes_, 1));
    }
    /// Returns offset and length of chunk `index`, which must be less than `size()`.
    [[nodiscard]] piece operator[](std::size_t index) const {
        expects(index < size_, "chunking: the index must be less than size()");
        std::size_t const past = index * step();
        return {first_ + past, detail::smaller_of(chunk_, bytes_ - past)};
    }

private:
    [[nodiscard]] std::size_t step() const noexcept { return chunk_ - overlap_; }

    std::size_t chunk_;
    std::size_t overlap_;
    std::size_t first_;
    std::size_t bytes_;
    std::size_t size_ = 0;
};

} // namespace vram
