// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_stream_ids` remembers what a stream said of itself, for when it must not be asked.

#include <vram/cuda/cuda_device.hpp> // cuda_device

#include <cuda_runtime_api.h> // cudaStream_t, cudaStreamGetDevice

#include <atomic>        // atomic
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
/// A stream that has ended must not be asked anything either: CUDA follows its handle into memory
/// that is not there any more. Of a `cuda_stream` it is known when that is; its handle may come
/// back as somebody else's stream, which is known from when it is asked for its id.
///
/// Threads   any
/// Cost      `note` two comparisons when nothing is new, else a lock and one call of CUDA; `ended`
///           one load, and where some stream of vram's has ended whose handle has not come back
///           another and two comparisons; then a lock where it is that stream, for each that a
///           thread asks about when one more has ended, and where two take turns that share one
///           of 16 places
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

    /// `stream`, which is not being captured, has this id. Where that cannot be noted, nothing is
    /// known of that handle; nor is anything changed where the stream of that id has ended.
    static void note(cudaStream_t stream, std::uint64_t id) noexcept {
        if (id == 0) { return; }
        if (!is_proper(stream)) { return note_name(stream, id); }
        auto& seen = recent(stream);
        if (seen.stream == stream && seen.id == id) { return; }
        int               device = 0;
        cudaError_t const status = cudaStreamGetDevice(stream, &device);
        if (status != cudaSuccess) {
            forget_others(stream, id);
            return cuda_error::clear(status);
        }
        try {
            auto&                  book = all();
            std::scoped_lock const held{book.mutex};
            life&                  its = book.known[stream];
            if (its.ended && its.who.id == id) { return; } // whoever asked was too late
            book.revive(its);
            its.who = {id, cuda_device{device}};
            seen    = {stream, id};
        } catch (...) { forget_others(stream, id); } // it will be asked again
    }

    /// What was noted last.
    [[nodiscard]] static std::optional<identity> recall(cudaStream_t stream) {
        if (!is_proper(stream)) { return recall_name(stream); }
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        auto const             found = book.known.find(stream);
        if (found == book.known.end() || found->second.ended) { return std::nullopt; }
        return found->second.who;
    }

    /// The stream of that id ends. Where there is no host memory to note it, nobody will know.
    static void end(cudaStream_t stream, std::uint64_t id) noexcept {
        try {
            auto&                  book = all();
            std::scoped_lock const held{book.mutex};
            life&                  its = book.known[stream];
            book.ends.fetch_add(1, std::memory_order_relaxed);
            if (!its.ended) { book.ended.fetch_add(1, std::memory_order_relaxed); }
            its.who.id = id;
            its.ended  = true;
        } catch (...) {}
    }
    /// Whether the stream of this handle has ended, and no other of that handle was noted since.
    [[nodiscard]] static bool ended(cudaStream_t stream) noexcept {
        auto& book = all();
        if (book.ended.load(std::memory_order_relaxed) == 0 || !is_proper(stream)) { return false; }
        // Threads that keep asking about streams that are there do not wait for each other.
        std::uint64_t const so_far = book.ends.load(std::memory_order_relaxed);
        glance&             last   = looked_at(stream);
        if (last.stream == stream && last.ends == so_far) { return false; }
        std::scoped_lock const held{book.mutex};
        auto const             found = book.known.find(stream);
        if (found != book.known.end() && found->second.ended) { return true; }
        last = {stream, so_far};
        return false;
    }
    /// As if no stream of that handle had ever been met.
    static void forget(cudaStream_t stream) noexcept { forget_others(stream, 0); }

private:
    /// A stream, or what was one.
    struct life {
        identity who;
        bool     ended = false;
    };
    struct book {
        /// Another stream has the handle.
        void revive(life& its) noexcept {
            if (its.ended) { ended.fetch_sub(1, std::memory_order_relaxed); }
            its.ended = false;
        }

        std::mutex                             mutex;
        std::unordered_map<cudaStream_t, life> known;
        std::atomic<std::size_t>               ended{0}; ///< how many of those have
        std::atomic<std::uint64_t>             ends{0};  ///< how many streams ever have
    };
    /// Forgets what is known of the handle, unless it is the stream of that id.
    static void forget_others(cudaStream_t stream, std::uint64_t id) noexcept {
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        auto const             found = book.known.find(stream);
        if (found == book.known.end() || found->second.who.id == id) { return; }
        book.revive(found->second);
        book.known.erase(found);
    }
    struct entry {
        cudaStream_t  stream = nullptr;
        std::uint64_t id     = 0;
    };
    /// A stream that had not ended when so many had.
    struct glance {
        cudaStream_t  stream = nullptr;
        std::uint64_t ends   = 0;
    };

    static constexpr std::size_t places = 16;
    static std::size_t           place_of(cudaStream_t stream) noexcept {
        auto const address = reinterpret_cast<std::uintptr_t>(stream);
        return (address >> 4 ^ address >> 10) % places;
    }
    /// Where this thread keeps that it has noted a stream.
    static entry& recent(cudaStream_t stream) noexcept {
        thread_local entry table[places];
        return table[place_of(stream)];
    }
    /// Where it keeps that a stream was there.
    static glance& looked_at(cudaStream_t stream) noexcept {
        thread_local glance table[places];
        return table[place_of(stream)];
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
