// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_stream_cache` is a small cache of each thread, with an entry for a stream.

#include <vram/base/requirements.hpp>

#include <cuda_runtime_api.h> // cudaStream_t

#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// A direct-mapped cache of 16 entries, found by the handle of a stream. Each thread has one cache
/// for each type `Entry`, which must be default-constructible at compile time.
///
/// Threads   Each thread has its own entries, so no lock is needed.
/// Cost      A few instructions.
template <class Entry>
struct cuda_stream_cache {
    /// Returns the only place in the calling thread's cache for an entry of `stream`. The place may
    /// contain the entry of another stream: the caller compares `stream` with the stream stored in
    /// the entry.
    [[nodiscard]] static Entry& place_of(cudaStream_t stream) noexcept {
        constexpr std::size_t               places = 16;
        static constinit thread_local Entry table[places];
        auto const                          address = reinterpret_cast<std::uintptr_t>(stream);
        return table[(address >> 4 ^ address >> 10) % places];
    }
};

} // namespace detail
} // namespace vram
