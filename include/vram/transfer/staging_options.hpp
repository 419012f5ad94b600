// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `staging_options` is how much pinned memory and how many threads staging has, and when it uses
/// them.

#include <vram/base/requirements.hpp> // C++20

#include <algorithm> // clamp
#include <cstddef>   // size_t
#include <thread>    // hardware_concurrency

namespace vram {

/// Everything has a default, found on an H200's host (PCIe Gen5, 55 GB/s each way).
struct staging_options {
    /// Threads that copy, the caller's among them; 0: one for each core, up to 8.
    unsigned threads = 0;
    /// Pinned chunks that each thread has. With two, it fills one while the other is copied.
    unsigned chunks = 2;
    /// Bytes of a chunk, a multiple of 4 KiB. All chunks together should fit in the last cache.
    std::size_t chunk_bytes = std::size_t{4} << 20;
    /// Bytes of the first piece, or a 2048th of all where that is more; pieces grow to a whole
    /// chunk, and become smaller at the end.
    std::size_t first_bytes = std::size_t{128} << 10;
    /// Up to so many bytes of memory the platform's own copy is as fast.
    std::size_t direct_bytes = std::size_t{1} << 20;
    /// Up to so many bytes of a file the caller's thread copies alone: others would wake too late.
    /// Of memory too, where that is more than `direct_bytes`.
    std::size_t alone_bytes = std::size_t{512} << 10;
    /// Whether memory is written with stores that go past the caches on its way to the host.
    bool streaming = true;

    /// The number of threads that this means on this machine.
    [[nodiscard]] unsigned resolved_threads() const noexcept {
        return threads != 0 ? threads : std::clamp(std::thread::hardware_concurrency(), 1U, 8U);
    }
};

} // namespace vram
