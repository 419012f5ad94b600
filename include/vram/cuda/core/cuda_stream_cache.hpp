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

/// A cache of data about streams, which needs no lock because each thread has its own. Each thread
/// has 16 entries for each type `Entry`. Streams with the same hash of their handles share one
/// entry, which contains the data of only one of them.
template <class Entry>
struct cuda_stream_cache {
    /// Returns the calling thread's cache entry for `stream`. The entry may contain data of another
    /// stream with the same hash of the handle, so the caller must compare the handles.
    [[nodiscard]] static Entry& place_of(cudaStream_t stream) noexcept {
        constexpr std::size_t               places = 16;
        static constinit thread_local Entry table[places];
        auto const                          address = reinterpret_cast<std::uintptr_t>(stream);
        return table[(address >> 4 ^ address >> 10) % places];
    }
};

} // namespace detail
} // namespace vram
