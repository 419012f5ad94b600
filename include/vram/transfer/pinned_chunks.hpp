// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pinned_chunks` is pinned memory as a source: it goes to the device with nothing in between.

#include <vram/concepts/platform_of.hpp>   // platform_of
#include <vram/transfer/memory_chunks.hpp> // memory_chunks

#include <cstddef> // size_t, byte
#include <span>    // span

namespace vram {

/// A batch is a piece of `from`, which is pinned or was registered, and stays as it is until the
/// last copy is over.
///
///     pinned_chunks source{std::as_bytes(std::span{samples}), 64_MiB};
///     source.enqueue({device, 64_MiB}, 3, stream);              // what a loader does
///
/// Failure   `layout_error` where it cannot be cut so; what the platform says of a copy
/// Threads   any number may enqueue, each on a stream of its own
/// Streams   the copies are on `copies` when it returns. Memory that is not pinned works as well,
///           slowly: CUDA copies it to and fro while the caller waits
/// Cost      one copy for each batch
class pinned_chunks {
public:
    pinned_chunks(std::span<std::byte const> from, std::size_t chunk, chunking_options options = {})
        : chunks_{from, chunk, options} {}

    [[nodiscard]] std::size_t size() const noexcept { return chunks_.size(); }
    [[nodiscard]] std::size_t batch_bytes() const noexcept { return chunks_.batch_bytes(); }
    /// Bytes of batch `index`, which there is.
    [[nodiscard]] std::size_t batch_bytes(std::size_t index) const {
        return chunks_.batch_bytes(index);
    }

    /// Batch `index`, where it lies.
    [[nodiscard]] std::span<std::byte const> operator[](std::size_t index) const {
        return chunks_[index];
    }

    /// Puts the copy of batch `index` to `device` on `copies`. Its bytes; 0 after the last. Where
    /// they are more than `device` has room for, nothing is copied.
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
