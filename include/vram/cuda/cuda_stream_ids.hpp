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
/// streams when they are asked. A name such as `cudaStreamPerThread` is noted for the thread that
/// asks, and for each device.
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
        if (id == 0) { return; }
        if (!is_proper(stream)) { return note_name(stream, id); }
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
        if (!is_proper(stream)) { return recall_name(stream); }
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

    /// What a name meant on a device.
    struct named {
        cudaStream_t stream = nullptr;
        identity     what; ///< id 0: nothing is noted here
    };
    /// Where this thread keeps them: three names on some devices; the oldest gives way.
    struct names {
        static constexpr std::size_t most = 24;
        named                        known[most];
        std::size_t                  next = 0;
    };
    static names& own_names() noexcept {
        thread_local names table;
        return table;
    }
    static void note_name(cudaStream_t stream, std::uint64_t id) noexcept {
        names& own = own_names();
        for (named const& each : own.known) {
            if (each.what.id == id && each.stream == stream) { return; }
        }
        int               device = 0;
        cudaError_t const status = cudaGetDevice(&device);
        if (status != cudaSuccess) { return cuda_error::clear(status); }
        identity const now{id, cuda_device{device}};
        for (named& each : own.known) { // after a reset of the device
            if (each.stream == stream && each.what.device == now.device) { each.what.id = 0; }
        }
        own.known[own.next] = {stream, now};
        own.next            = (own.next + 1) % names::most;
    }
    static std::optional<identity> recall_name(cudaStream_t stream) {
        cuda_device const here = cuda_device::current();
        for (named const& each : own_names().known) {
            if (each.what.id != 0 && each.stream == stream && each.what.device == here) {
                return each.what;
            }
        }
        return std::nullopt;
    }

    // Never destroyed: streams in static storage may outlive any object here.
    static book& all() {
        static book& only = *new book;
        return only;
    }
};

} // namespace vram
