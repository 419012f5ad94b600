// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_stream_ids` remembers what a stream said of itself, for when it must not be asked.

#include <vram/concepts/stream_standing.hpp> // stream_standing
#include <vram/cuda/cuda_device.hpp>         // cuda_device
#include <vram/cuda/cuda_stream_hold.hpp>    // cuda_stream_hold

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
/// that is not there any more. Of a `cuda_stream` it is known when that is: `begin` and `end`
/// announce it, and `hold` has a share in it, which keeps the handle valid. Else the handle may
/// come back as somebody else's stream, which is known from when it is asked for its id.
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
        if (is_announced(stream, id)) {
            seen = {stream, id};
            return;
        }
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
            if (its.who.id == id && (its.ended || its.shared != nullptr)) { return; }
            book.revive(its);
            its.who = {id, cuda_device{device}};
            seen    = {stream, id};
        } catch (...) { forget_others(stream, id); } // it will be asked again
    }

    /// What was noted last; also of a stream that has ended, as long as there is a hold on it.
    [[nodiscard]] static std::optional<identity> recall(cudaStream_t stream) {
        if (!is_proper(stream)) { return recall_name(stream); }
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        auto const             found = book.known.find(stream);
        if (found == book.known.end()) { return std::nullopt; }
        life const& its = found->second;
        if (its.ended && its.shared == nullptr) { return std::nullopt; }
        return its.who;
    }

    /// What a handle that meant the stream of that id means now. CUDA is asked nothing of the
    /// stream.
    [[nodiscard]] static stream_standing standing_of(cudaStream_t  stream,
                                                     std::uint64_t id) noexcept {
        if (!is_proper(stream)) {
            try {
                auto const known = recall_name(stream);
                return known && known->id == id ? stream_standing::there : stream_standing::another;
            } catch (...) { return stream_standing::another; }
        }
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        auto const             found = book.known.find(stream);
        if (found == book.known.end()) { return stream_standing::there; }
        life const& its = found->second;
        if (its.ended && its.shared == nullptr) { return stream_standing::ended; }
        return its.who.id == id ? stream_standing::there : stream_standing::another;
    }

    /// A stream of vram's begins, and this is the owner's share in it. Failure: `std::bad_alloc`.
    [[nodiscard]] static cuda_stream_hold begin(cudaStream_t stream, std::uint64_t id,
                                                cuda_device device) {
        auto* const made = new cuda_stream_hold::shared{stream, id, device};
        try {
            auto&                  book = all();
            std::scoped_lock const held{book.mutex};
            life&                  its = book.known[stream];
            book.revive(its);
            its.who    = {id, device};
            its.shared = made;
            book.changes.fetch_add(1, std::memory_order_release);
        } catch (...) {
            delete made;
            throw;
        }
        return cuda_stream_hold{made};
    }
    /// A share in a stream, or an empty one if its end will not be announced. The calling thread
    /// uses the stream or has another share in it.
    [[nodiscard]] static cuda_stream_hold hold(cudaStream_t stream) noexcept {
        cuda_stream_hold::shared* const its =
            is_proper(stream) ? announcement_of(stream).its : nullptr;
        if (its != nullptr) { its->shares.fetch_add(1, std::memory_order_relaxed); }
        return cuda_stream_hold{its};
    }
    /// The owner of the stream lets go of it: it ends, or (`given_away`) its user will destroy it.
    static void end(cuda_stream_hold owner, bool given_away = false) noexcept {
        cuda_stream_hold::shared& its  = *owner.its_;
        auto&                     book = all();
        std::scoped_lock const    held{book.mutex};
        auto const                found = book.known.find(its.stream);
        if (given_away) {
            its.given_away.store(true, std::memory_order_relaxed);
            if (found != book.known.end()) { found->second.shared = nullptr; }
            book.changes.fetch_add(1, std::memory_order_release);
            return;
        }
        its.ended.store(true, std::memory_order_release);
        if (found != book.known.end()) { book.end(found->second); }
    }
    /// The id of a stream of vram's, also of one that has ended as long as there is a hold on it,
    /// or 0. CUDA is asked nothing.
    [[nodiscard]] static std::uint64_t announced(cudaStream_t stream) noexcept {
        return is_proper(stream) ? announcement_of(stream).id : 0;
    }
    /// How many streams of vram's have ended.
    [[nodiscard]] static std::uint64_t ends() noexcept {
        return all().ends.load(std::memory_order_acquire);
    }
    /// The last share has gone: the handle is CUDA's from here on.
    static void leave(cuda_stream_hold::shared* its) noexcept {
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        auto const             found = book.known.find(its->stream);
        if (found != book.known.end() && found->second.shared == its) {
            found->second.shared = nullptr;
            book.changes.fetch_add(1, std::memory_order_release);
        }
    }

    /// The stream of that id has ended. Where there is no host memory to note it, nobody will know.
    static void end(cudaStream_t stream, std::uint64_t id) noexcept {
        try {
            auto&                  book = all();
            std::scoped_lock const held{book.mutex};
            life&                  its = book.known[stream];
            its.who.id                 = id;
            book.end(its);
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
    static constexpr int most_devices = 64; ///< whose legacy default streams are noted

    /// A stream, or what was one.
    struct life {
        identity                  who;
        bool                      ended  = false;
        cuda_stream_hold::shared* shared = nullptr; ///< while there is a share in it
    };
    struct book {
        /// Another stream has the handle.
        void revive(life& its) noexcept {
            if (its.ended) { ended.fetch_sub(1, std::memory_order_relaxed); }
            its.ended  = false;
            its.shared = nullptr;
        }
        void end(life& its) noexcept {
            if (!its.ended) { ended.fetch_add(1, std::memory_order_relaxed); }
            its.ended = true;
            ends.fetch_add(1, std::memory_order_release);
            changes.fetch_add(1, std::memory_order_release);
        }

        std::atomic<std::uint64_t>             legacy[most_devices]{}; ///< ids, by device
        std::mutex                             mutex;
        std::unordered_map<cudaStream_t, life> known;
        std::atomic<std::size_t>               ended{0};   ///< how many of those have
        std::atomic<std::uint64_t>             ends{0};    ///< how many streams ever have
        std::atomic<std::uint64_t>             changes{1}; ///< how many began or ended
    };
    /// Whether a handle is known to be the stream of vram's of that id.
    [[nodiscard]] static bool is_announced(cudaStream_t stream, std::uint64_t id) noexcept {
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        auto const             found = book.known.find(stream);
        return found != book.known.end() && found->second.shared != nullptr &&
               found->second.who.id == id;
    }
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

    /// The stream of vram's that a handle was when so many had begun or ended.
    struct announcement {
        cudaStream_t              stream  = nullptr;
        std::uint64_t             changes = 0;
        std::uint64_t             id      = 0;
        cuda_stream_hold::shared* its     = nullptr;
    };
    /// What this thread found last, where nothing has changed since.
    static announcement const& announcement_of(cudaStream_t stream) noexcept {
        auto&               book   = all();
        std::uint64_t const so_far = book.changes.load(std::memory_order_acquire);
        auto&               last   = announced_before(stream);
        if (last.stream == stream && last.changes == so_far) { return last; }
        std::scoped_lock const held{book.mutex};
        auto const             found = book.known.find(stream);
        last                         = {stream, so_far};
        if (found != book.known.end() && found->second.shared != nullptr) {
            last.id  = found->second.who.id;
            last.its = found->second.shared;
        }
        return last;
    }

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

    static announcement& announced_before(cudaStream_t stream) noexcept {
        thread_local announcement table[places];
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
        if (is_legacy(stream) && device < most_devices) {
            all().legacy[device].store(id, std::memory_order_relaxed);
        }
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
        if (!is_legacy(stream) || here.ordinal() >= most_devices) { return std::nullopt; }
        std::uint64_t const id = all().legacy[here.ordinal()].load(std::memory_order_relaxed);
        return id != 0 ? std::optional{identity{id, here}} : std::nullopt;
    }
    /// Whether a name means the legacy default stream, which all threads have in common.
    [[nodiscard]] static bool is_legacy(cudaStream_t stream) noexcept {
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
        return stream == cudaStreamLegacy;
#else
        return stream == cudaStreamLegacy || stream == nullptr;
#endif
    }

    // Never destroyed: streams in static storage may outlive any object here.
    static book& all() {
        static book& only = *new book;
        return only;
    }
};

inline void cuda_stream_hold::let_go() noexcept {
    if (its_ == nullptr || cuda_exit::began()) { return; } // a child of fork may find a lock held
    if (its_->shares.fetch_sub(1, std::memory_order_acq_rel) != 1) { return; }
    cuda_stream_ids::leave(its_);
    if (!its_->given_away.load(std::memory_order_relaxed)) {
        cuda_capture_guard const relaxed;
        cuda_error::report("cudaStreamDestroy",
                           cuda_exit::or_done([&] { return cudaStreamDestroy(its_->stream); }));
    }
    delete its_;
}

} // namespace vram
