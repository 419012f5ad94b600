// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_stream_ids` remembers what a stream said of itself before it was captured.

#include <vram/cuda/cuda_device.hpp> // cuda_device

#include <cuda_runtime_api.h> // cudaStream_t, cudaStreamGetDevice

#include <cstddef>       // size_t
#include <cstdint>       // uint64_t, uintptr_t
#include <mutex>         // mutex, scoped_lock
#include <optional>      // optional
#include <unordered_map> // unordered_map

namespace vram {

/// While a stream is being captured, asking CUDA for its id or its device ends the capture, in any
/// mode and through the driver as well. Whoever keeps books by stream needs the answer all the
/// same, so it is noted when it can be had: for a `cuda_stream` when it is made, for others'
/// streams when they are asked.
///
/// A stream of somebody else's that was destroyed, and whose handle came back as a stream that is
/// captured before anybody asks it, is taken for the one before.
///
/// Threads   any
/// Cost      `note` two comparisons when nothing is new, else a lock and one call of CUDA
class cuda_stream_ids {
public:
    struct identity {
        std::uint64_t id = 0;
        cuda_device   device{};
    };

    /// Whether a handle means a stream of its own, and not one that depends on the thread or the
    /// device.
    [[nodiscard]] static bool is_proper(cudaStream_t stream) noexcept {
        return stream != nullptr && stream != cudaStreamLegacy && stream != cudaStreamPerThread;
    }

    /// `stream`, which is not being captured, has this id. Where there is no room, nothing is
    /// noted.
    static void note(cudaStream_t stream, std::uint64_t id) noexcept {
        if (!is_proper(stream) || id == 0) { return; }
        auto& seen = recent(stream);
        if (seen.stream == stream && seen.id == id) { return; }
        int               device = 0;
        cudaError_t const status = cudaStreamGetDevice(stream, &device);
        if (status != cudaSuccess) { return cuda_error::clear(status); }
        try {
            auto&                  book = all();
            std::scoped_lock const held{book.mutex};
            book.known.insert_or_assign(stream, identity{id, cuda_device{device}});
            seen = {stream, id};
        } catch (...) {} // it will be asked again
    }

    /// What was noted last.
    [[nodiscard]] static std::optional<identity> recall(cudaStream_t stream) {
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        auto const             found = book.known.find(stream);
        if (found == book.known.end()) { return std::nullopt; }
        return found->second;
    }

    /// The stream ends.
    static void forget(cudaStream_t stream) noexcept {
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        book.known.erase(stream);
    }

private:
    struct book {
        std::mutex                                 mutex;
        std::unordered_map<cudaStream_t, identity> known;
    };
    struct entry {
        cudaStream_t  stream = nullptr;
        std::uint64_t id     = 0;
    };

    /// Where this thread keeps that it has noted a stream.
    static entry& recent(cudaStream_t stream) noexcept {
        static constexpr std::size_t places = 16;
        thread_local entry           table[places];
        auto const                   address = reinterpret_cast<std::uintptr_t>(stream);
        return table[(address >> 4 ^ address >> 10) % places];
    }

    // Never destroyed: streams in static storage may outlive any object here.
    static book& all() {
        static book& only = *new book;
        return only;
    }
};

} // namespace vram
