// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_stream_ids` remembers the ids and devices of streams, for times at which CUDA must not be
/// asked.

#include <vram/base/core/address_map.hpp>
#include <vram/concepts/core/stream_standing.hpp>
#include <vram/cuda/core/cuda_default_streams.hpp>
#include <vram/cuda/core/cuda_stream_cache.hpp>
#include <vram/cuda/core/cuda_stream_hold.hpp>
#include <vram/cuda/cuda_device.hpp>

#include <cuda_runtime_api.h> // cudaStream_t, cudaStreamGetDevice

#include <atomic>   // atomic
#include <cstddef>  // size_t
#include <cstdint>  // uint64_t, uintptr_t
#include <mutex>    // mutex, scoped_lock
#include <optional> // optional

namespace vram {
namespace detail {

/// A table of the ids and devices of streams. During a capture of a stream, a query of its id or
/// its device ends the capture, in any mode and through the driver as well. Resources need the id
/// nevertheless, so it is stored when it can be queried: for a `cuda_stream` at its creation, for
/// other streams at the first query. The ids of default streams are in `cuda_default_streams`.
///
/// There is one limit. If a stream that vram did not create is destroyed, and CUDA reuses its
/// handle for a stream that is captured before it is queried, the new stream gets the id of the old
/// one.
///
/// A destroyed stream must not be queried either, because CUDA follows its handle into freed
/// memory. For a `cuda_stream` the life is known: `begin` and `end` report it, and `hold` returns a
/// reference that keeps the handle valid. The handle of any other destroyed stream may be reused by
/// CUDA, which is noticed when the id of the new stream is queried.
///
/// Threads   Any thread may call.
/// Cost      `note` takes two comparisons if nothing is new, otherwise a lock and one CUDA call.
///           `ended` takes one load. As long as the handle of an ended `cuda_stream` has not been
///           reused, it takes another load and two comparisons. It takes a lock if the stream has
///           ended, once after each end of another stream, and if two streams compete for one of
///           the 16 entries of the thread's cache.
class cuda_stream_ids {
public:
    using identity = cuda_stream_identity;

    /// Returns true unless `stream` is a default stream. The handle of a default stream means
    /// several streams, depending on the thread and the device.
    [[nodiscard]] static bool is_proper(cudaStream_t stream) noexcept {
        return !cuda_default_streams::contain(stream);
    }

    /// Stores that `stream` has the id `id`, with its device, which is queried. The stream must not
    /// be captured at that time. If the query fails, entries of older streams with the handle are
    /// removed. Nothing changes if `id` is 0, if vram created the stream, or if this stream has
    /// ended.
    static void note(cudaStream_t stream, std::uint64_t id) noexcept {
        if (id == 0) { return; }
        if (!is_proper(stream)) { return cuda_default_streams::note(stream, id); }
        auto& seen = cuda_stream_cache<entry>::place_of(stream);
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
            life&                  its = book.get(stream);
            if (its.who.id == id && (its.ended || its.shared != nullptr)) { return; }
            book.revive(its);
            its.who = {id, cuda_device{device}};
            seen    = {stream, id};
        } catch (...) { forget_others(stream, id); } // no host memory: the next call queries again
    }

    /// Returns the id and device stored for the handle, or nothing if none are stored. Returns
    /// nothing for a stream that has ended, unless there is a hold on it (a `cuda_stream_hold`,
    /// which keeps the handle valid).
    [[nodiscard]] static std::optional<identity> recall(cudaStream_t stream) {
        if (!is_proper(stream)) { return cuda_default_streams::recall(stream); }
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(stream);
        if (found == nullptr) { return std::nullopt; }
        life const& its = *found;
        if (its.ended && its.shared == nullptr) { return std::nullopt; }
        return its.who;
    }

    /// Returns what is known of the stream with the id `id`, whose handle was `stream`: `there` (it
    /// exists, as far as known), `another` (the handle now means another stream), `ended`, or
    /// `reset` (a reset of the device destroyed it). Makes no CUDA call on the stream.
    [[nodiscard]] static stream_standing standing_of(cudaStream_t  stream,
                                                     std::uint64_t id) noexcept {
        if (!is_proper(stream)) {
            try {
                auto const known = cuda_default_streams::recall(stream);
                return known && known->id == id ? stream_standing::there : stream_standing::another;
            } catch (...) { return stream_standing::another; }
        }
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(stream);
        if (found == nullptr) { return stream_standing::there; }
        life const& its = *found;
        if (its.reset) { return stream_standing::reset; }
        if (its.ended && its.shared == nullptr) { return stream_standing::ended; }
        return its.who.id == id ? stream_standing::there : stream_standing::another;
    }

    /// Stores a stream that vram created, and returns the owner's hold of it (counted reference).
    /// Throws `std::bad_alloc`.
    [[nodiscard]] static cuda_stream_hold begin(cudaStream_t stream, std::uint64_t id,
                                                cuda_device device) {
        auto* const made = new cuda_stream_hold::shared{stream, id, cuda_context::now(device)};
        try {
            auto&                  book = all();
            std::scoped_lock const held{book.mutex};
            life&                  its = book.get(stream);
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
    /// Returns a hold (counted reference) of the stream, or an empty one if vram does not own the
    /// stream, or not any more. The calling thread must be using it or have another hold of it.
    [[nodiscard]] static cuda_stream_hold hold(cudaStream_t stream) noexcept {
        cuda_stream_hold::shared* const its =
            is_proper(stream) ? announcement_of(stream).its : nullptr;
        if (its != nullptr) { its->shares.fetch_add(1, std::memory_order_relaxed); }
        return cuda_stream_hold{its};
    }
    /// Called with the owner's reference if a `cuda_stream` is destroyed, or, with `given_away` =
    /// true, if its handle was released to the program: vram then never destroys it.
    static void end(cuda_stream_hold owner, bool given_away = false) noexcept {
        cuda_stream_hold::shared& its  = *owner.its_;
        auto&                     book = all();
        std::scoped_lock const    held{book.mutex};
        life* const               found = book.find(its.stream);
        if (given_away) {
            its.given_away.store(true, std::memory_order_relaxed);
            if (found != nullptr) { found->shared = nullptr; }
            book.changes.fetch_add(1, std::memory_order_release);
            return;
        }
        its.ended.store(true, std::memory_order_release);
        if (found != nullptr) { book.end(*found); }
    }
    /// Returns the id of a stream that vram created and still owns, also after its end as long as
    /// there is a hold on it (`cuda_stream_hold`). Returns 0 for any other stream. Makes no CUDA
    /// call.
    [[nodiscard]] static std::uint64_t announced(cudaStream_t stream) noexcept {
        return is_proper(stream) ? announcement_of(stream).id : 0;
    }
    /// Returns how many ends of streams were recorded so far: of streams that vram created, of
    /// those that `end` was called for, and of those destroyed by a reset of their device.
    [[nodiscard]] static std::uint64_t ends() noexcept {
        return all().ends.load(std::memory_order_acquire);
    }
    /// Called after the last reference to a stream is gone, before the stream is destroyed: no more
    /// references can be made. CUDA may reuse the handle from now on.
    static void leave(cuda_stream_hold::shared* its) noexcept {
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(its->stream);
        if (found != nullptr && found->shared == its) {
            found->shared = nullptr;
            book.changes.fetch_add(1, std::memory_order_release);
        }
    }

    /// Records that the stream with this handle and id was destroyed, if there is host memory.
    static void end(cudaStream_t stream, std::uint64_t id) noexcept {
        try {
            auto&                  book = all();
            std::scoped_lock const held{book.mutex};
            life&                  its = book.get(stream);
            its.who.id                 = id;
            book.end(its);
        } catch (...) {}
    }
    /// Returns true if the stream with this handle is known to have ended (its owner has destroyed
    /// it, and holds may remain, or its device was reset), and no newer stream with this handle is
    /// known.
    [[nodiscard]] static bool ended(cudaStream_t stream) noexcept {
        auto& book = all();
        if (book.ended.load(std::memory_order_relaxed) == 0 || !is_proper(stream)) { return false; }
        // Each thread caches a few streams that had not ended, with the number of ends at that
        // time. A repeated query of such a stream takes no lock, until another stream ends.
        std::uint64_t const so_far = book.ends.load(std::memory_order_relaxed);
        glance&             last   = cuda_stream_cache<glance>::place_of(stream);
        if (last.stream == stream && last.ends == so_far) { return false; }
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(stream);
        if (found != nullptr && found->ended) { return true; }
        last = {stream, so_far};
        return false;
    }
    /// Returns true if the stream of this handle is known to have ended because its device was
    /// reset, and no new stream is known to have the handle.
    [[nodiscard]] static bool was_reset(cudaStream_t stream) noexcept {
        if (!ended(stream)) { return false; }
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(stream);
        return found != nullptr && found->reset;
    }
    /// Removes everything that is stored for the handle `stream`.
    static void forget(cudaStream_t stream) noexcept { forget_others(stream, 0); }

private:
    /// Entry of a handle: data of the stream that has it, or had it last.
    struct life {
        identity who;
        bool     ended = false;
        bool     reset = false; ///< true if the stream has ended because its device was reset
        /// State that all holds of the stream share; null if there are none.
        cuda_stream_hold::shared* shared = nullptr;
    };
    struct book {
        static std::uint64_t key_of(cudaStream_t stream) noexcept {
            return reinterpret_cast<std::uintptr_t>(stream);
        }
        /// Returns the entry of the handle, or null if there is none. The mutex must be held.
        [[nodiscard]] life* find(cudaStream_t stream) const noexcept {
            return known.find(key_of(stream));
        }
        /// Returns the entry of the handle, and adds an empty one first if there is none. The mutex
        /// must be held. Throws `std::bad_alloc`.
        [[nodiscard]] life& get(cudaStream_t stream) {
            if (life* const its = find(stream)) { return *its; }
            known.reserve(1);
            auto* const fresh = new life;
            known.insert(key_of(stream), fresh);
            return *fresh;
        }
        /// Marks the stream of an entry as not ended and without holds: a new stream has the
        /// handle, or the entry is about to be removed.
        void revive(life& its) noexcept {
            if (its.ended) { ended.fetch_sub(1, std::memory_order_relaxed); }
            its.ended  = false;
            its.reset  = false;
            its.shared = nullptr;
        }
        void end(life& its) noexcept {
            if (!its.ended) { ended.fetch_add(1, std::memory_order_relaxed); }
            its.ended = true;
            ends.fetch_add(1, std::memory_order_release);
            changes.fetch_add(1, std::memory_order_release);
        }

        std::mutex        mutex;
        address_map<life> known; ///< the entries, by the address in the stream's handle
        /// Number of entries whose stream has ended.
        std::atomic<std::size_t> ended{0};
        /// Number of streams recorded as ended so far: destroyed, or their device was reset.
        std::atomic<std::uint64_t> ends{0};
        /// Changes with each begin and end of a stream, and when its last hold is gone.
        std::atomic<std::uint64_t> changes{1};
    };
    /// Marks all streams of a device as ended, after the device was reset.
    static void end_all(cuda_device device) noexcept {
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        book.known.for_each([&](std::uint64_t, life* its) {
            if (its->who.device != device || (its->ended && its->shared == nullptr)) { return; }
            its->shared = nullptr;
            its->reset  = true;
            book.end(*its);
        });
    }
    /// Returns true if the handle belongs to a stream that vram created and that has the id `id`.
    [[nodiscard]] static bool is_announced(cudaStream_t stream, std::uint64_t id) noexcept {
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(stream);
        return found != nullptr && found->shared != nullptr && found->who.id == id;
    }
    /// Removes the entry of the handle `stream`, unless it is that of the stream with the id `id`.
    static void forget_others(cudaStream_t stream, std::uint64_t id) noexcept {
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(stream);
        if (found == nullptr || found->who.id == id) { return; }
        book.revive(*found);
        book.known.erase(book.key_of(stream));
        delete found;
    }
    /// Cache entry of a thread: the table of streams contains `stream` with the id `id`.
    struct entry {
        cudaStream_t  stream = nullptr;
        std::uint64_t id     = 0;
    };
    /// Cache entry of a thread: `stream` had not ended when the table had recorded `ends` ends of
    /// streams.
    struct glance {
        cudaStream_t  stream = nullptr;
        std::uint64_t ends   = 0;
    };

    /// Cache entry of a thread: id and shared state of the stream with the handle `stream`, or 0
    /// and null if vram did not create it. Valid as long as the table's number of changes is
    /// `changes`.
    struct announcement {
        cudaStream_t              stream  = nullptr;
        std::uint64_t             changes = 0;
        std::uint64_t             id      = 0;
        cuda_stream_hold::shared* its     = nullptr;
    };
    /// Returns the id and the shared state of the stream with the handle `stream`, or 0 and null if
    /// vram did not create it. Uses the thread's cache if no stream has begun or ended since the
    /// entry was made.
    static announcement const& announcement_of(cudaStream_t stream) noexcept {
        auto&               book   = all();
        std::uint64_t const so_far = book.changes.load(std::memory_order_acquire);
        auto&               last   = cuda_stream_cache<announcement>::place_of(stream);
        if (last.stream == stream && last.changes == so_far) { return last; }
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(stream);
        last                         = {stream, so_far};
        if (found != nullptr && found->shared != nullptr) {
            last.id  = found->who.id;
            last.its = found->shared;
        }
        return last;
    }

    // The table is never destroyed, because streams in static storage may use it until the end.
    static book& all() {
        static book& only = *make_book();
        return only;
    }
    static book* make_book() {
        cuda_context::call_after_reset(end_all);
        return new book;
    }
};

inline void cuda_stream_hold::let_go() noexcept {
    // At the end of the process CUDA destroys the stream, and in a child of `fork` the mutex may be
    // locked.
    if (its_ == nullptr || cuda_exit::began()) { return; }
    if (its_->shares.fetch_sub(1, std::memory_order_acq_rel) != 1) { return; }
    cuda_stream_ids::leave(its_);
    if (!its_->given_away.load(std::memory_order_relaxed) && !reset()) {
        cuda_capture_guard const relaxed;
        cuda_error::report("cudaStreamDestroy",
                           cuda_exit::or_done([&] { return cudaStreamDestroy(its_->stream); }));
    }
    delete its_;
}

} // namespace detail
} // namespace vram
