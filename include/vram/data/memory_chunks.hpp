// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `memory_chunks` is a loader's source: each batch is a part of host memory.

#include <vram/data/chunking.hpp>

#include <cstddef>
#include <cstring>    // memcpy
#include <span>       // span
#include <stop_token> // stop_token

namespace vram {

/// A loader's source: each batch is a part of the host memory `from`, which is copied into pinned
/// memory and must outlive the source.
///
///     mapped_file const map{"log.bin"};
///     loader{memory_chunks{map.bytes(), 64_MiB}, stream};
///
/// For memory that is pinned already, `pinned_chunks` avoids this copy.
///
/// Failure   The constructor throws `layout_error` if the memory cannot be divided as requested.
/// Threads   Several threads may call `fill` concurrently.
/// Cost      One memcpy for each batch.
class memory_chunks {
public:
    /// Divides the memory `from` into chunks of `chunk` bytes (see `chunking`), one for each batch.
    memory_chunks(std::span<std::byte const> from, std::size_t chunk, chunking_options options = {})
        : from_{from}, cut_{from.size(), chunk, options} {}

    /// Returns the number of batches.
    [[nodiscard]] std::size_t size() const noexcept { return cut_.size(); }
    /// Returns the largest number of bytes of a batch.
    [[nodiscard]] std::size_t batch_bytes() const noexcept { return cut_.batch_bytes(); }
    /// Returns the bytes of batch `index`, one chunk of the memory. `index` must be less than
    /// `size()`.
    [[nodiscard]] std::size_t batch_bytes(std::size_t index) const { return cut_[index].bytes; }

    /// Returns the part of the memory that is batch `index`, without a copy. `index` must be less
    /// than `size()`.
    [[nodiscard]] std::span<std::byte const> operator[](std::size_t index) const {
        auto const [offset, bytes] = cut_[index];
        return {from_.data() + offset, bytes};
    }

    /// Copies batch `index` to `to` and returns the size of the batch in bytes. If `to` is smaller
    /// than the batch, copies nothing and returns this size. Returns 0 after the last batch.
    std::size_t fill(std::span<std::byte> to, std::size_t index,
                     std::stop_token const& = {}) const {
        if (index >= size()) { return 0; }
        auto const from = (*this)[index];
        if (from.size() <= to.size()) { std::memcpy(to.data(), from.data(), from.size()); }
        return from.size();
    }

private:
    std::span<std::byte const> from_;
    chunking                   cut_;
};

} // namespace vram
