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

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>
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
/// Cost      `note` takes two comparisons if nothing is new, otherwise a lock and at most one CUDA
///           call. `ended` takes one load. As long as the handle of an ended `cuda_stream` has not
///           been reused, it takes another load and two comparisons. It takes a lock if the stream
///           has ended, once after each end of another stream, and if two streams compete for one
///           of the 16 entries of the thread's cache.
class cuda_stream_ids {
public:
    using identity = cuda_stream_identity;

    /// Returns true unless `stream` is a default stream. The handle of a default stream means
    /// several streams, depending on the thread and the device.
    [[nodiscard]] static bool is_proper(cudaStream_t stream) noexcept {
        return !cuda_default_streams::contain(stream);
    }

    /// Stores the id `id` of `stream` together with its device, which is queried, so `stream` must
    /// not be captured at that time. If the query fails, or there is no host memory, removes the
    /// entry of an older stream with the handle. Does nothing if `id` is 0, if vram owns the
    /// stream, or if the stream with this id has ended.
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

    /// Returns the id and device stored for the stream with the handle `stream`, or nothing if none
    /// are stored. If the stream has ended, they are returned only as long as there is a hold on it
    /// (a `cuda_stream_hold`, which keeps the handle valid).
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

    /// Returns what the table states about the stream with the id `id`, which once had the handle
    /// `stream`: `there` (it has the handle, or the handle is unknown), `another` (a newer stream
    /// has the handle), `ended`, or `reset` (a reset of the device destroyed it). For a default
    /// stream, `another` if the handle means a different stream on this thread and device. Makes no
    /// CUDA call on the stream.
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

    /// Adds a stream that vram created to the table, and returns the first hold (counted reference)
    /// of it, for the owner. Throws `std::bad_alloc`.
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
    /// Returns a new hold (counted reference) of the stream, which keeps its handle valid. Returns
    /// an empty one if vram did not create the stream or does not own it any more. The calling
    /// thread must be using the stream or have another hold of it.
    [[nodiscard]] static cuda_stream_hold hold(cudaStream_t stream) noexcept {
        cuda_stream_hold::shared* const its =
            is_proper(stream) ? announcement_of(stream).its : nullptr;
        if (its != nullptr) { its->shares.fetch_add(1, std::memory_order_relaxed); }
        return cuda_stream_hold{its};
    }
    /// Records that the `cuda_stream` with the hold `owner` (not empty) was destroyed, and drops
    /// that hold. If `given_away` is true, the `cuda_stream` has released its handle to the program
    /// instead: the stream has not ended, and vram never destroys it.
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
    /// Returns the id of a stream that vram created and still owns, also after its `cuda_stream`
    /// was destroyed, as long as there is a hold on it (`cuda_stream_hold`). Returns 0 for any
    /// other stream. Makes no CUDA call.
    [[nodiscard]] static std::uint64_t announced(cudaStream_t stream) noexcept {
        return is_proper(stream) ? announcement_of(stream).id : 0;
    }
    /// Returns the number of ends of streams that were recorded so far, by `end` or for a reset of
    /// a device. While it is unchanged, no further stream is known to have ended.
    [[nodiscard]] static std::uint64_t ends() noexcept {
        return all().ends.load(std::memory_order_acquire);
    }
    /// Called when the last hold of a stream is gone, before the stream is destroyed. Removes the
    /// state `its` of the stream from the table, so that `hold` returns no more references to it.
    /// CUDA may reuse the handle from then on.
    static void leave(cuda_stream_hold::shared* its) noexcept {
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(its->stream);
        if (found != nullptr && found->shared == its) {
            found->shared = nullptr;
            book.changes.fetch_add(1, std::memory_order_release);
        }
    }

    /// Records that a stream that vram did not create, with this handle and id, was destroyed.
    /// Without host memory for the entry, does nothing.
    static void end(cudaStream_t stream, std::uint64_t id) noexcept {
        try {
            auto&                  book = all();
            std::scoped_lock const held{book.mutex};
            life&                  its = book.get(stream);
            its.who.id                 = id;
            book.end(its);
        } catch (...) {}
    }
    /// Returns true if the last known stream with this handle has ended: its `cuda_stream` was
    /// destroyed, which may have left holds, or `end` was called for it, or its device was reset.
    /// Returns false if no end is known.
    [[nodiscard]] static bool ended(cudaStream_t stream) noexcept {
        auto& book = all();
        if (book.ended.load(std::memory_order_relaxed) == 0 || !is_proper(stream)) { return false; }
        // Each thread caches a few streams that had not ended when the number of recorded ends was
        // `last.ends`. As long as that number is unchanged, the stream has not ended, and no lock
        // is needed.
        std::uint64_t const so_far = book.ends.load(std::memory_order_relaxed);
        glance&             last   = cuda_stream_cache<glance>::place_of(stream);
        if (last.stream == stream && last.ends == so_far) { return false; }
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(stream);
        if (found != nullptr && found->ended) { return true; }
        last = {stream, so_far};
        return false;
    }
    /// Returns true if the last known stream with this handle has ended because its device was
    /// reset.
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
        bool     reset = false; ///< true if a reset of the device has ended the stream
        /// State that all holds (counted references) of the stream share. Null if vram did not
        /// create the stream, the last hold is gone, the owner released the handle, or the device
        /// was reset.
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
        /// Returns the entry of the handle. If there is none, first adds an empty one. The mutex
        /// must be held. Throws `std::bad_alloc`.
        [[nodiscard]] life& get(cudaStream_t stream) {
            if (life* const its = find(stream)) { return *its; }
            known.reserve(1);
            auto* const fresh = new life;
            known.insert(key_of(stream), fresh);
            return *fresh;
        }
        /// Makes an entry ready for a new stream with the handle, or for its removal: the stored
        /// stream counts as not ended, not reset, and without holds.
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
        /// Number of entries of streams that have ended. While it is 0, `cuda_stream_ids::ended`
        /// needs no lookup.
        std::atomic<std::size_t> ended{0};
        /// Number of ends recorded so far: a stream was destroyed or its device was reset. Never
        /// decreases.
        std::atomic<std::uint64_t> ends{0};
        /// Incremented when a stream of vram begins, ends or is released, and when its last hold is
        /// gone. A cache entry of the type `announcement` is valid only while the number is
        /// unchanged.
        std::atomic<std::uint64_t> changes{1};
    };
    /// Called after a reset of `device`: marks all known streams of the device as ended, also those
    /// with holds.
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
    /// Returns true if vram created a stream with this handle and the id `id`, and still owns it.
    [[nodiscard]] static bool is_announced(cudaStream_t stream, std::uint64_t id) noexcept {
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(stream);
        return found != nullptr && found->shared != nullptr && found->who.id == id;
    }
    /// Removes the entry of the handle `stream`, unless the entry is of the stream with the id
    /// `id`.
    static void forget_others(cudaStream_t stream, std::uint64_t id) noexcept {
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(stream);
        if (found == nullptr || found->who.id == id) { return; }
        book.revive(*found);
        book.known.erase(book.key_of(stream));
        delete found;
    }
    /// Cache entry of a thread: `stream` with the id `id` is in the table, so that `note` need not
    /// store it again.
    struct entry {
        cudaStream_t  stream = nullptr;
        std::uint64_t id     = 0;
    };
    /// Cache entry of a thread: `stream` had not ended when the number of recorded ends was `ends`.
    /// Valid until that number changes.
    struct glance {
        cudaStream_t  stream = nullptr;
        std::uint64_t ends   = 0;
    };

    /// Cache entry of a thread: id and shared state of the stream with the handle `stream`; 0 and
    /// null if vram does not own it. Valid only while the table's number of changes is `changes`.
    struct announcement {
        cudaStream_t              stream  = nullptr;
        std::uint64_t             changes = 0;
        std::uint64_t             id      = 0;
        cuda_stream_hold::shared* its     = nullptr;
    };
    /// Returns the id and the shared state of the stream with the handle `stream`; 0 and null if
    /// vram does not own it. Takes them from the thread's cache if the table's number of changes is
    /// that of the cache entry.
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
    // At the end of the process, CUDA destroys the stream. In a child of `fork`, another thread of
    // the parent may have locked the mutex for ever. In both cases nothing is done.
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
