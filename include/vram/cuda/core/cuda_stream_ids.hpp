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
#include <utility>  // exchange

namespace vram {
namespace detail {

/// A table of the ids and devices of streams. It is needed because a query of a stream that is
/// being captured ends the capture. vram adds a stream to the table when it creates the stream, or
/// when it first queries the id of a stream of the program. The table also records which streams
/// were destroyed, so that vram does not pass their handles to CUDA.
///
/// Threads   Any thread may call.
class cuda_stream_ids {
public:
    using identity = cuda_stream_identity;

    /// Returns true unless `stream` is a default stream. The handle of a default stream means
    /// several streams, depending on the thread and the device.
    [[nodiscard]] static bool is_proper(cudaStream_t stream) noexcept {
        return !cuda_default_streams::contain(stream);
    }

    /// Stores the id and device of `stream` in the table. The stream must not be in a graph
    /// capture. If that fails, stores nothing, and removes the entry of an older stream with this
    /// handle.
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

    /// Returns the id and device of `stream`, or nothing if the table has no entry for it. Also
    /// returns nothing for a destroyed stream, unless a `cuda_stream_hold` (a counted reference)
    /// keeps its handle valid.
    [[nodiscard]] static std::optional<identity> recall(cudaStream_t stream) {
        if (!is_proper(stream)) { return cuda_default_streams::recall(stream); }
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(stream);
        if (found == nullptr) { return std::nullopt; }
        life const& its = *found;
        if (its.ended && its.shared == nullptr) { return std::nullopt; }
        // Known limit: CUDA may give the handle of a destroyed raw stream to a new stream. Until
        // vram queries the id of the new stream, `recall` returns the id of the old stream.
        return its.who;
    }

    /// Returns `there` if, as far as is known, the handle still denotes the stream with the id
    /// `id`. Otherwise returns the reason: `another` (a different stream has the handle), `ended`
    /// (the stream was destroyed), or `reset` (its device was reset). Makes no CUDA call on the
    /// stream.
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

    /// Adds a stream that vram has created to the table. Returns the stream's first counted
    /// reference, which the stream's owner keeps. Throws `std::bad_alloc`.
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
    /// Returns a new counted reference to a stream that vram created. The result is empty for any
    /// other stream, and for a handle that is no longer valid. The stream must not be destroyed
    /// during the call.
    [[nodiscard]] static cuda_stream_hold hold(cudaStream_t stream) noexcept {
        cuda_stream_hold::shared* const its =
            is_proper(stream) ? announcement_of(stream).its : nullptr;
        if (its != nullptr) { its->shares.fetch_add(1, std::memory_order_relaxed); }
        return cuda_stream_hold{its};
    }
    /// Returns a new counted reference to a stream whose owner may be destroyed already. The result
    /// is empty if no other reference to the stream exists, or after a reset of the device.
    [[nodiscard]] static cuda_stream_hold hold_ended(cudaStream_t stream) noexcept {
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(stream);
        if (found == nullptr || found->shared == nullptr) { return {}; }
        // `its` exists: it is deleted only after `leave` has removed it from the table, under the
        // lock that is held here. If the number of references (`shares`) is 0, another thread has
        // dropped the last reference and is about to destroy the stream.
        cuda_stream_hold::shared& its = *found->shared;
        std::size_t               now = its.shares.load(std::memory_order_relaxed);
        while (now != 0) {
            if (its.shares.compare_exchange_weak(now, now + 1, std::memory_order_relaxed)) {
                return cuda_stream_hold{&its};
            }
        }
        return {};
    }
    /// Records that the owner of a stream, a `cuda_stream`, was destroyed. `given_away`: if true,
    /// the owner has instead released the handle to the program. `owner`: the owner's counted
    /// reference.
    static void end(cuda_stream_hold owner, bool given_away = false) noexcept {
        cuda_stream_hold::shared& its  = *owner.its_;
        auto&                     book = all();
        std::scoped_lock const    held{book.mutex};
        life* const               found = book.find(its.stream);
        // After a reset of the device, a newer stream may have the handle and the entry.
        bool const newest = found != nullptr && found->shared == &its;
        if (given_away) {
            its.given_away.store(true, std::memory_order_relaxed);
            if (newest) { found->shared = nullptr; }
            book.changes.fetch_add(1, std::memory_order_release);
            return;
        }
        its.ended.store(true, std::memory_order_release);
        if (newest) { return book.end(*found); }
        book.ends.fetch_add(1, std::memory_order_release);
    }
    /// Returns the id of the stream if vram created it and a `cuda_stream_hold` (a counted
    /// reference) keeps its handle valid. Otherwise returns 0. Makes no CUDA call.
    [[nodiscard]] static std::uint64_t announced(cudaStream_t stream) noexcept {
        return is_proper(stream) ? announcement_of(stream).id : 0;
    }
    /// Returns a counter that increases when a stream is recorded as ended: it was destroyed, or
    /// its device was reset. While the counter is unchanged, no further stream has ended.
    [[nodiscard]] static std::uint64_t ends() noexcept {
        return all().ends.load(std::memory_order_acquire);
    }
    /// Called when the last `cuda_stream_hold` (counted reference) of a stream is gone, before
    /// `cudaStreamDestroy`. From then on, `hold` returns no reference to the stream.
    static void leave(cuda_stream_hold::shared* its) noexcept {
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(its->stream);
        if (found != nullptr && found->shared == its) {
            found->shared = nullptr;
            book.changes.fetch_add(1, std::memory_order_release);
        }
    }

    /// Records that the program destroyed a stream which it had created itself. `id`: the id of the
    /// stream. If there is no host memory for the record, does nothing.
    static void end(cudaStream_t stream, std::uint64_t id) noexcept {
        try {
            auto&                  book = all();
            std::scoped_lock const held{book.mutex};
            life&                  its = book.get(stream);
            its.who.id                 = id;
            book.end(its);
        } catch (...) {}
    }
    /// Returns true if the newest known stream with this handle is recorded as ended: it was
    /// destroyed, or its device was reset.
    [[nodiscard]] static bool ended(cudaStream_t stream) noexcept {
        auto& book = all();
        if (book.ended.load(std::memory_order_relaxed) == 0 || !is_proper(stream)) { return false; }
        // If no stream has ended since this thread last got the result false for `stream`, the
        // result is still false. No lock is needed then.
        std::uint64_t const so_far = book.ends.load(std::memory_order_relaxed);
        glance&             last   = cuda_stream_cache<glance>::place_of(stream);
        if (last.stream == stream && last.ends == so_far) { return false; }
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(stream);
        if (found != nullptr && found->ended) { return true; }
        last = {stream, so_far};
        return false;
    }
    /// Returns true if the newest known stream with this handle is recorded as ended by a reset of
    /// its device.
    [[nodiscard]] static bool was_reset(cudaStream_t stream) noexcept {
        if (!ended(stream)) { return false; }
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(stream);
        return found != nullptr && found->reset;
    }
    static void forget(cudaStream_t stream) noexcept { forget_others(stream, 0); }

private:
    /// The entry of one handle in the table: data of the newest known stream with this handle.
    struct life {
        identity who;
        bool     ended = false;
        bool     reset = false; ///< true if a reset of the device has ended the stream
        /// State that all counted references (`cuda_stream_hold`) to the stream share. Null if none
        /// keeps the handle valid.
        cuda_stream_hold::shared* shared = nullptr;
    };
    struct book {
        static std::uint64_t key_of(cudaStream_t stream) noexcept {
            return reinterpret_cast<std::uintptr_t>(stream);
        }
        /// Returns the table's entry of this stream handle, or null if there is none. The caller
        /// must hold the table's lock, `mutex`.
        [[nodiscard]] life* find(cudaStream_t stream) const noexcept {
            return known.find(key_of(stream));
        }
        /// Returns the table's entry of this stream handle. If there is none, adds an entry without
        /// data. The caller must hold the table's lock, `mutex`. Throws `std::bad_alloc`.
        [[nodiscard]] life& get(cudaStream_t stream) {
            if (life* const its = find(stream)) { return *its; }
            known.reserve(1);
            auto* const fresh = new life;
            known.insert(key_of(stream), fresh);
            return *fresh;
        }
        /// Resets the table's entry `its` before it is used for a new stream or removed. If the
        /// entry was marked as ended, decreases the number of ended entries.
        void revive(life& its) noexcept {
            if (its.ended) { ended.fetch_sub(1, std::memory_order_relaxed); }
            its.ended = false;
            its.reset = false;
            if (std::exchange(its.shared, nullptr) != nullptr) {
                changes.fetch_add(1, std::memory_order_release);
            }
        }
        void end(life& its) noexcept {
            if (!its.ended) { ended.fetch_add(1, std::memory_order_relaxed); }
            its.ended = true;
            ends.fetch_add(1, std::memory_order_release);
            changes.fetch_add(1, std::memory_order_release);
        }

        std::mutex        mutex;
        address_map<life> known; ///< the table's entries; the key is the value of the stream handle
        /// Number of entries that are marked as ended (`life::ended`). While it is 0, the function
        /// `cuda_stream_ids::ended` needs no lookup.
        std::atomic<std::size_t> ended{0};
        /// Increases when a stream is recorded as ended: it was destroyed, or its device was reset.
        std::atomic<std::uint64_t> ends{0};
        /// Increases whenever the member `shared` of a table entry may have changed. A thread's
        /// cached `announcement` is valid only if it contains the present value of this counter.
        std::atomic<std::uint64_t> changes{1};
    };
    /// Called after a reset of `device`. Marks the streams of `device` in the table as ended by the
    /// reset. Skips streams that were destroyed before, unless a `cuda_stream_hold` (counted
    /// reference) has kept them.
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
    /// Returns true if vram created a stream with this handle and the id `id`, and keeps its
    /// handle valid.
    [[nodiscard]] static bool is_announced(cudaStream_t stream, std::uint64_t id) noexcept {
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(stream);
        return found != nullptr && found->shared != nullptr && found->who.id == id;
    }
    /// Removes the table's entry of the handle `stream`, unless it belongs to the stream with the
    /// id `id`.
    static void forget_others(cudaStream_t stream, std::uint64_t id) noexcept {
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(stream);
        if (found == nullptr || found->who.id == id) { return; }
        book.revive(*found);
        book.known.erase(book.key_of(stream));
        delete found;
    }
    /// Entry of a thread's cache. It says that the table contains the stream with this handle and
    /// this id. `note` then returns at once.
    struct entry {
        cudaStream_t  stream = nullptr;
        std::uint64_t id     = 0;
    };
    /// Entry of a thread's cache. It says that `stream` had not ended when `book::ends` had the
    /// value `ends`. While that counter is unchanged, `cuda_stream_ids::ended` needs no lock.
    struct glance {
        cudaStream_t  stream = nullptr;
        std::uint64_t ends   = 0;
    };

    /// Entry of a thread's cache, with the result of `announcement_of(stream)`: the id of the
    /// stream, and the state `its` that its counted references share. The entry is valid while
    /// `book::changes` has the value `changes`.
    struct announcement {
        cudaStream_t              stream  = nullptr;
        std::uint64_t             changes = 0;
        std::uint64_t             id      = 0;
        cuda_stream_hold::shared* its     = nullptr;
    };
    /// Returns the id of the stream, and the state that its counted references (`cuda_stream_hold`)
    /// share. If no reference keeps the handle valid, the id is 0 and the state is null.
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

    // The table of streams is never destroyed, because `cuda_stream` objects in static storage may
    // use it until the end of the process.
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
    // Does nothing if CUDA must not be called. At the end of the process, CUDA destroys the stream
    // itself. In a child of `fork`, the mutex of the table may be locked for ever.
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
