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

/// A table of the ids and devices of streams, which cannot be queried during a capture without
/// ending the capture. They are stored when vram creates a stream, and at the first query of any
/// other stream. The table also records which streams were destroyed, because CUDA must not get
/// their handles.
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

    /// Stores the id and device of `stream`, which must not be in capture. If the device query
    /// fails or host memory is lacking, removes an older stream's entry with this handle.
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

    /// Returns the stored id and device of `stream`. Returns nothing if the stream is unknown, or
    /// was destroyed and the table knows no `cuda_stream_hold` of it.
    [[nodiscard]] static std::optional<identity> recall(cudaStream_t stream) {
        if (!is_proper(stream)) { return cuda_default_streams::recall(stream); }
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        life* const            found = book.find(stream);
        if (found == nullptr) { return std::nullopt; }
        life const& its = *found;
        if (its.ended && its.shared == nullptr) { return std::nullopt; }
        // Known limit: the result is that of a destroyed raw stream if CUDA has given its handle to
        // a new stream that vram has not queried yet.
        return its.who;
    }

    /// Returns `there` if, as far as is known, the handle still means the stream with the id `id`,
    /// or else the reason: `another`, `ended` or `reset`. Makes no CUDA call on it.
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

    /// Stores a stream that vram created, and returns the first counted reference to the stream,
    /// for the owner. Throws `std::bad_alloc`.
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
    /// Returns a counted reference to the stream, or an empty one if no `cuda_stream_hold` keeps
    /// the handle valid. The stream must not be destroyed during the call.
    [[nodiscard]] static cuda_stream_hold hold(cudaStream_t stream) noexcept {
        cuda_stream_hold::shared* const its =
            is_proper(stream) ? announcement_of(stream).its : nullptr;
        if (its != nullptr) { its->shares.fetch_add(1, std::memory_order_relaxed); }
        return cuda_stream_hold{its};
    }
    /// Records that the owner of the stream, a `cuda_stream`, was destroyed or, if `given_away`,
    /// has released the handle to the program. `owner` is its counted reference.
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
    /// Returns the id of the stream if a `cuda_stream_hold` keeps its handle valid, or else 0.
    /// Makes no CUDA call.
    [[nodiscard]] static std::uint64_t announced(cudaStream_t stream) noexcept {
        return is_proper(stream) ? announcement_of(stream).id : 0;
    }
    /// Returns how many ends of streams were recorded. A caller that finds the number unchanged
    /// need not look for ended streams again.
    [[nodiscard]] static std::uint64_t ends() noexcept {
        return all().ends.load(std::memory_order_acquire);
    }
    /// Called when the last reference to a stream is dropped, before `cudaStreamDestroy`. From then
    /// on, `hold` returns no reference to the stream.
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
    /// Records nothing if there is no host memory for it.
    static void end(cudaStream_t stream, std::uint64_t id) noexcept {
        try {
            auto&                  book = all();
            std::scoped_lock const held{book.mutex};
            life&                  its = book.get(stream);
            its.who.id                 = id;
            book.end(its);
        } catch (...) {}
    }
    /// Returns true if the last known stream with this handle is known to have ended: it was
    /// destroyed, or its device was reset.
    [[nodiscard]] static bool ended(cudaStream_t stream) noexcept {
        auto& book = all();
        if (book.ended.load(std::memory_order_relaxed) == 0 || !is_proper(stream)) { return false; }
        // If no stream has ended since this thread last found `stream` not ended, it still has not,
        // and no lock is needed.
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
        /// State that all counted references (`cuda_stream_hold`) to the stream share. Null if none
        /// keeps the handle valid.
        cuda_stream_hold::shared* shared = nullptr;
    };
    struct book {
        static std::uint64_t key_of(cudaStream_t stream) noexcept {
            return reinterpret_cast<std::uintptr_t>(stream);
        }
        /// Returns the entry of the stream handle, or null if there is none. The caller must hold
        /// `mutex`.
        [[nodiscard]] life* find(cudaStream_t stream) const noexcept {
            return known.find(key_of(stream));
        }
        /// Returns the entry of the stream handle, and first adds one without data if there is
        /// none. The caller must hold `mutex`. Throws `std::bad_alloc`.
        [[nodiscard]] life& get(cudaStream_t stream) {
            if (life* const its = find(stream)) { return *its; }
            known.reserve(1);
            auto* const fresh = new life;
            known.insert(key_of(stream), fresh);
            return *fresh;
        }
        /// Clears the entry's `ended`, `reset` and `shared`, and corrects the number of ended
        /// entries, before the entry is reused for a new stream or deleted.
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
        address_map<life> known; ///< the entries of stream handles; a handle's value is the key
        /// Number of entries of streams that have ended. While it is 0, `cuda_stream_ids::ended`
        /// needs no lookup.
        std::atomic<std::size_t> ended{0};
        /// Number of ends recorded so far: a stream was destroyed or its device was reset. Never
        /// decreases.
        std::atomic<std::uint64_t> ends{0};
        /// Cache entries (`announcement`) are valid only with the present number, which `begin`,
        /// `end`, `leave` and `revive` increment: they may change the `shared` of an entry.
        std::atomic<std::uint64_t> changes{1};
    };
    /// Called after a reset of `device`: marks its stored streams that still exist as ended by the
    /// reset, also those to which a `cuda_stream_hold` refers.
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
    /// Cache entry of a thread: `stream` had not ended when `ends` ends of streams were recorded.
    /// While that number is unchanged, `cuda_stream_ids::ended` needs no lock.
    struct glance {
        cudaStream_t  stream = nullptr;
        std::uint64_t ends   = 0;
    };

    /// Cache entry of a thread: the id and shared state of `stream`, or 0 and null if no
    /// `cuda_stream_hold` keeps its handle valid. Usable while `book::changes` equals `changes`.
    struct announcement {
        cudaStream_t              stream  = nullptr;
        std::uint64_t             changes = 0;
        std::uint64_t             id      = 0;
        cuda_stream_hold::shared* its     = nullptr;
    };
    /// Returns the id and the shared state of the stream with this handle, or 0 and null if no
    /// `cuda_stream_hold` keeps the handle valid.
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
    // Nothing is done at the end of the process, when CUDA destroys the stream, and in a child of
    // `fork`, where the mutex may stay locked.
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
