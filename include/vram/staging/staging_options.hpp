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
    /// Bytes of a chunk, rounded up to a multiple of 4 KiB. All chunks should fit in the last-level
    /// cache.
    std::size_t chunk_bytes = std::size_t{4} << 20;
    /// Bytes of a transfer's first piece, rounded up to 4 KiB: at least a 2048th of the transfer,
    /// at most its largest piece. Later pieces can grow, and then shrink again.
    std::size_t first_bytes = std::size_t{128} << 10;
    /// Largest size in bytes of a direct copy of pageable memory. Larger transfers go wholly
    /// through pinned chunks. Not used if the device uses the host's page tables.
    std::size_t direct_bytes = std::size_t{1} << 20;
    /// Largest number of bytes that the caller's thread moves through pinned chunks alone. More
    /// bytes are moved by all threads.
    std::size_t alone_bytes = std::size_t{512} << 10;
    /// True: the threads write memory by stores that bypass the CPU's caches, where the CPU can do
    /// so. False: by ordinary stores. Not set: the faster stores for the number of bytes and
    /// threads.
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
