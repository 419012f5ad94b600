// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `memory_chunks` is memory as a source, a piece in each batch: a mapped file, or a vector.

#include <vram/transfer/chunking.hpp> // chunking

#include <cstddef>    // size_t, byte
#include <cstring>    // memcpy
#include <span>       // span
#include <stop_token> // stop_token

namespace vram {

/// A batch is a piece of `from`, copied into pinned memory. `from` stays its owner's.
///
///     mapped_file const map{"log.bin"};
///     loader{memory_chunks{map.bytes(), 64_MiB}, stream};
///
/// Memory that is pinned already needs no such copy: `pinned_chunks`.
///
/// Failure   `layout_error` where it cannot be cut so
/// Threads   any number may fill
/// Cost      a memcpy for each batch: 5 to 12 GB/s for a thread
class memory_chunks {
public:
    memory_chunks(std::span<std::byte const> from, std::size_t chunk, chunking_options options = {})
        : from_{from}, cut_{from.size(), chunk, options} {}

    [[nodiscard]] std::size_t size() const noexcept { return cut_.size(); }
    [[nodiscard]] std::size_t batch_bytes() const noexcept { return cut_.batch_bytes(); }
    /// Bytes of batch `index`, which there is.
    [[nodiscard]] std::size_t batch_bytes(std::size_t index) const { return cut_[index].bytes; }

    /// Batch `index`, where it lies.
    [[nodiscard]] std::span<std::byte const> operator[](std::size_t index) const {
        auto const [offset, bytes] = cut_[index];
        return from_.subspan(offset, bytes);
    }

    /// Copies batch `index`. Its bytes; 0 after the last. Where they are more than `to` has room
    /// for, nothing is copied.
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
