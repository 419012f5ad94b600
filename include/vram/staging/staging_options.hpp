// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `staging_options` are the pinned memory and the threads of a `staging`, and its limits by size.

#include <vram/base/core/smaller_of.hpp> // larger_of, smaller_of
#include <vram/base/requirements.hpp>

#include <cstddef>
#include <optional> // optional
#include <thread>   // hardware_concurrency

namespace vram {

/// Options of a `staging`. The defaults come from measurements on an H200's host (PCIe Gen5, 55
/// GB/s each way).
struct staging_options {
    /// Number of threads that copy, including the caller's. 0 means one for each core, up to 8.
    unsigned threads = 0;
    /// Number of pinned chunks of each thread. With two, the thread fills or empties one while the
    /// device copies the other.
    unsigned chunks = 2;
    /// Number of bytes of each pinned chunk, rounded up to a multiple of 4 KiB. The chunks of all
    /// threads together should fit in the CPU's last-level cache.
    std::size_t chunk_bytes = std::size_t{4} << 20;
    /// Number of bytes of the first piece of a copy. If 1/2048 of the copy is more, the first piece
    /// has that many bytes. Sizes are rounded up to multiples of 4 KiB. No piece is larger than
    /// `chunk_bytes`, and small copies may begin with a smaller piece.
    std::size_t first_bytes = std::size_t{128} << 10;
    /// Largest number of bytes of pageable memory that are copied by one direct copy. If a copy has
    /// more bytes, all of them go through pinned chunks. Ignored if the device uses the host's page
    /// tables: pageable memory is then always copied directly.
    std::size_t direct_bytes = std::size_t{1} << 20;
    /// Largest number of bytes that the calling thread alone copies through pinned chunks. If a
    /// copy has more bytes, all threads take part.
    std::size_t alone_bytes = std::size_t{512} << 10;
    /// If true, threads write memory with stores that bypass the CPU's caches, if the CPU has such
    /// stores. If false, threads use ordinary stores. If not set, the `staging` chooses by the
    /// number of bytes and of threads.
    std::optional<bool> streaming = std::nullopt;

    /// Returns the number of threads on this machine: `threads`, or if that is 0, the number of
    /// cores, from 1 to 8.
    [[nodiscard]] unsigned resolved_threads() const noexcept {
        return threads != 0 ? threads
                            : detail::larger_of(
                                  1U, detail::smaller_of(std::thread::hardware_concurrency(), 8U));
    }
};

} // namespace vram
