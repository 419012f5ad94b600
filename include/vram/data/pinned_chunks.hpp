// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pinned_chunks` is a loader's source: each batch is a part of pinned memory.

#include <vram/concepts/platform_of.hpp>
#include <vram/data/memory_chunks.hpp>

#include <cstddef>
#include <span> // span

namespace vram {

/// A loader's source: its batches are parts of the pinned memory `from`, which the device copies
/// directly. The memory must not change before the last copy is complete.
///
///     pinned_chunks source{std::as_bytes(std::span{samples}), 64_MiB};
///     source.enqueue({device, 64_MiB}, 3, stream);              // called by a loader
///
/// Failure   The constructor throws `layout_error` if a chunk is not longer than the overlap.
///           `enqueue` throws an error of the platform if the copy is refused.
/// Threads   Several threads may call `enqueue`, each with its own stream.
/// Streams   `enqueue` returns when the copy is enqueued.
/// Cost      One copy for each batch.
class pinned_chunks {
public:
    /// Divides the memory `from` into chunks of `chunk` bytes (see `chunking`), one for each batch.
    pinned_chunks(std::span<std::byte const> from, std::size_t chunk, chunking_options options = {})
        : chunks_{from, chunk, options} {}

    /// Returns the number of batches.
    [[nodiscard]] std::size_t size() const noexcept { return chunks_.size(); }
    /// Returns the largest number of bytes of a batch.
    [[nodiscard]] std::size_t batch_bytes() const noexcept { return chunks_.batch_bytes(); }
    /// Returns the bytes of batch `index`, which must be less than `size()`.
    [[nodiscard]] std::size_t batch_bytes(std::size_t index) const {
        return chunks_.batch_bytes(index);
    }

    /// Returns the part of the memory that is batch `index`, without a copy. `index` must be less
    /// than `size()`.
    [[nodiscard]] std::span<std::byte const> operator[](std::size_t index) const {
        return chunks_[index];
    }

    /// Enqueues the copy of batch `index` to `device` on the stream `copies`. Returns the size of
    /// the batch in bytes. If `device` is smaller than the batch, enqueues nothing and returns this
    /// size. Returns 0 if there is no batch `index`.
    template <class Stream>
    std::size_t enqueue(std::span<std::byte> device, std::size_t index,
                        Stream const& copies) const {
        if (index >= size()) { return 0; }
        auto const from = chunks_[index];
        if (from.size() <= device.size()) {
            platform_of<Stream>::copy(copies, device.data(), from.data(), from.size());
        }
        return from.size();
    }

private:
    memory_chunks chunks_;
};

} // namespace vram
