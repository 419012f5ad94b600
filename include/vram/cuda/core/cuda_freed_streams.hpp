// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_freed_streams` remembers the streams on which memory was freed, and waits for them.

#include <vram/base/core/lock.hpp>
#include <vram/base/core/smaller_of.hpp> // larger_of
#include <vram/cuda/core/cuda_stream_cache.hpp>
#include <vram/cuda/cuda_device_guard.hpp>
#include <vram/cuda/cuda_event.hpp>
#include <vram/cuda/cuda_platform.hpp>
#include <vram/order/core/record_behind.hpp>

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// The streams on which memory was freed since the last `synchronize`.
///
/// A trim of CUDA's pool returns memory to the device only if the host has *seen* that its free is
/// complete: by a wait for the stream of the free, for an event behind it, or for the device. So
/// each stream must be waited for, even if its work is complete.
///
/// Failure   A stream is not remembered if there is no host memory, or if it is first seen during
///           its capture. If a wait fails, `synchronize` throws, and remembers that stream and the
///           streams after it.
/// Threads   Any thread may call.
/// Streams   `retire` or `forget` must be called before the program destroys a stream by its raw
///           handle. The end of a `cuda_stream` is detected.
/// Cost      `note` reads two values if the thread has noted the stream since the last
///           `synchronize`, `retire` or `forget`. Otherwise it takes a lock for a short time and
///           looks at each remembered stream. If their number has doubled, it also queries each
///           stream that has ended, and forgets it if its work is complete.
class cuda_freed_streams {
public:
    cuda_freed_streams() = default;
    /// Takes over the streams that `other` remembers; `other` is then empty. No other thread may
    /// use either object at that time.
    cuda_freed_streams(cuda_freed_streams&& other) noexcept { take_over(other); }
    cuda_freed_streams& operator=(cuda_freed_streams&& other) noexcept {
        if (this != &other) {
            forget_all();
            start_epoch();
            take_over(other);
        }
        return *this;
    }
    ~cuda_freed_streams() { forget_all(); }

    /// Returns true if no stream is remembered: `synchronize` then waits for nothing.
    [[nodiscard]] bool empty() const noexcept {
        auto const held = lock_.hold();
        return count_ == 0;
    }
    /// Remembers that memory was freed on the stream `s`, so that `synchronize` waits for it. The
    /// calling thread must be using `s`, so that no other thread captures the stream while its id
    /// is queried.
    void note(cuda_stream_view s) noexcept {
        bool const proper = cuda_stream_ids::is_proper(s.get());
        noted&     last   = cuda_stream_cache<noted>::place_of(s.get());
        // The fast path takes no lock. If the cached epoch equals `epoch_`, `s` is still in the
        // list `streams_`, because `epoch_` changes when a stream leaves the list, or before.
        // `synchronize` also changes `epoch_` before it records an event on `s`. So if the value
        // loaded here is the old one, that event is recorded after this free, and `synchronize`
        // waits for the free.
        if (proper && last.stream == s.get() &&
            last.epoch == epoch_.load(std::memory_order_seq_cst)) {
            return;
        }
        auto const held = lock_.hold();
        try {
            user* const known = *find(s);
            if (known != nullptr) {
                ++known->frees;
            } else {
                if (count_ >= look_at_) { forget_done(); }
                add(streams_, new user{.stream = s,
                                       .id     = s.id(),
                                       .where  = s.device(),
                                       .held   = cuda_stream_ids::hold(s.get())});
            }
            if (proper) { last = {s.get(), epoch_.load(std::memory_order_relaxed)}; }
        } catch (...) {} // no host memory, or `s` is first seen in a capture: not remembered
    }
    /// Must be called before the program destroys the stream `s` by its raw handle. Records an
    /// event behind the frees on `s`; `synchronize` then waits for that event instead of the
    /// stream. If recording fails, the stream is forgotten, and a trim may miss its frees.
    void retire(cuda_stream_view s) noexcept {
        auto const held = lock_.hold();
        try {
            user** const at = find(s);
            if (*at == nullptr) { return; }
            user const one = std::move(**at);
            erase(*at);
            start_epoch();
            cuda_device_guard const on{one.where};
            cuda_event              place{one.where};
            recorded const          how = record(place, one);
            if (how == recorded::pending || how == recorded::done) {
                add(retired_, new retired_user{.place = std::move(place)});
            }
        } catch (...) {}
    }
    /// Forgets the stream `s` without a CUDA call on it, for a stream that may already be
    /// destroyed: `synchronize` does not wait for its frees.
    void forget(cuda_stream_view s) noexcept {
        auto const held = lock_.hold();
        erase_if(streams_, [s](user const& each) { return each.stream == s; });
        start_epoch();
    }
    /// Blocks the host until the work that the remembered streams have received so far is complete,
    /// and forgets these streams. A stream that is being captured is skipped and stays remembered.
    /// If a stream is known to be destroyed by its raw handle, or is the per-thread default stream
    /// of another thread, it is forgotten without a wait. Makes no call that could break a capture.
    void synchronize() {
        std::uint64_t number = end_of_numbers();
        cuda_device   where;
        while (find_before(number, where)) {
            cuda_device_guard const on{where};
            cuda_event              place{where};
            std::uint64_t           frees = 0;
            {
                // The lock is held while an event is recorded on the stream, so that no other
                // thread retires the stream and then destroys it.
                auto const        held = lock_.hold();
                user const* const each = first_before(streams_, number + 1);
                if (each == nullptr || each->number != number) { continue; }
                // The cache entries of all threads become invalid: the next `note` of each thread
                // takes the lock and increments `frees`. If it has changed after the wait, the
                // stream stays in the list.
                start_epoch();
                frees              = each->frees;
                recorded const how = record(place, *each);
                if (how == recorded::captured) { continue; }
            }
            // If no event was recorded, for example because the stream was destroyed, the wait for
            // `place` returns immediately.
            place.synchronize();
            auto const held = lock_.hold();
            erase_if(streams_,
                     [&](user const& now) { return now.number == number && now.frees == frees; });
        }
        // Then the host waits for the events of the retired streams, from the newest (the largest
        // number) to the oldest. The loop over `streams_` comes first, because another thread may
        // retire a stream during it.
        number = end_of_numbers();
        while (retired_user* const each = pin_before(number)) {
            try {
                each->place.synchronize();
            } catch (...) {
                unpin(each, false);
                throw;
            }
            unpin(each, true);
        }
    }

private:
    /// An element of the list `streams_`: a stream on which memory was freed. The newest element is
    /// the first, and has the largest number.
    struct user {
        cuda_stream_view stream;
        std::uint64_t    id;
        cuda_device      where;
        /// Reference that keeps the handle of a `cuda_stream` valid if its owner destroys it before
        /// `synchronize` waits. Empty for a raw stream.
        cuda_stream_hold held;
        /// Number of calls of `note` that took the lock for this stream. If it changes while
        /// `synchronize` waits for the stream, memory was freed again, and the stream stays in the
        /// list.
        std::uint64_t frees  = 1;
        std::uint64_t number = 0;
        user*         next   = nullptr;
    };
    struct retired_user {
        /// Event behind the frees of the stream, recorded when it was retired.
        cuda_event place;
        /// Number of threads that wait for the event `place` now. If it is above 0, the element is
        /// not removed.
        unsigned      pins   = 0;
        std::uint64_t number = 0;
        retired_user* next   = nullptr;
    };

    [[nodiscard]] static recorded record(cuda_event& place, user const& each) {
        return record_behind<cuda_platform>(place, each.stream, each.id, each.held);
    }

    // The functions below use the lists. The caller must hold the lock, unless a function takes it.

    template <class Element>
    void add(Element*& first, Element* element) noexcept {
        element->number = ++last_number_;
        element->next   = std::exchange(first, element);
        ++count_;
    }
    /// Unlinks and deletes an element. `at` is the pointer that links to it: the head of the list,
    /// or `next` of the element before it.
    template <class Element>
    void erase(Element*& at) noexcept {
        Element* const gone = std::exchange(at, at->next);
        --count_;
        delete gone;
    }
    template <class Element, class Test>
    void erase_if(Element*& first, Test const& test) noexcept {
        for (Element** at = &first; *at != nullptr;) {
            if (test(**at)) {
                erase(*at);
            } else {
                at = &(*at)->next;
            }
        }
    }
    /// Returns the element with the largest number below `number`, or null. The list from `first`
    /// is in descending order of numbers.
    template <class Element>
    [[nodiscard]] static Element* first_before(Element* first, std::uint64_t number) noexcept {
        while (first != nullptr && first->number >= number) { first = first->next; }
        return first;
    }
    /// Takes the lock. Returns a number above the numbers of all elements.
    [[nodiscard]] std::uint64_t end_of_numbers() const noexcept {
        auto const held = lock_.hold();
        return last_number_ + 1;
    }
    /// Takes the lock. Finds the element of `streams_` with the largest number below `number`, and
    /// sets `number` to its number and `where` to its device. Returns false if there is no such
    /// element.
    bool find_before(std::uint64_t& number, cuda_device& where) const noexcept {
        auto const        held = lock_.hold();
        user const* const each = first_before(streams_, number);
        if (each == nullptr) { return false; }
        number = each->number;
        where  = each->where;
        return true;
    }
    /// Takes the lock. Returns the element of `retired_` with the largest number below `number`,
    /// and sets `number` to its number. Returns null if there is no such element. The element stays
    /// in the list until the caller passes it to `unpin`.
    [[nodiscard]] retired_user* pin_before(std::uint64_t& number) noexcept {
        auto const          held = lock_.hold();
        retired_user* const each = first_before(retired_, number);
        if (each != nullptr) {
            number = each->number;
            ++each->pins;
        }
        return each;
    }
    /// Takes the lock. Ends the use of `each` that began in `pin_before`. If `done` is true (its
    /// event is complete) and no other thread waits for the event, removes `each` from the list.
    void unpin(retired_user* each, bool done) noexcept {
        auto const held = lock_.hold();
        --each->pins;
        erase_if(retired_,
                 [&](retired_user const& now) { return &now == each && done && now.pins == 0; });
    }

    /// Removes each stream with complete work whose `cuda_stream` was destroyed or that was
    /// retired. So the lists stay short if a program creates a stream for each of its tasks.
    void forget_done() noexcept {
        start_epoch();
        erase_if(streams_, [](user const& each) {
            return each.held.ended() && seen_done(cuda_stream_view{each.held.get()});
        });
        erase_if(retired_,
                 [](retired_user const& each) { return each.pins == 0 && seen_done(each.place); });
        look_at_ = larger_of(usual, 2 * count_);
    }
    void forget_all() noexcept {
        while (streams_ != nullptr) { erase(streams_); }
        while (retired_ != nullptr) { erase(retired_); }
    }
    /// Moves the elements of `other` into the empty lists of this object.
    void take_over(cuda_freed_streams& other) noexcept {
        streams_     = std::exchange(other.streams_, nullptr);
        retired_     = std::exchange(other.retired_, nullptr);
        count_       = std::exchange(other.count_, 0);
        last_number_ = other.last_number_;
        look_at_     = other.look_at_;
        other.start_epoch();
    }
    /// Returns true if the work of `place`, a stream or an event, is complete. Then also calls
    /// `synchronize` on it, so that the host has seen the completion. False if the query fails.
    template <class Place>
    [[nodiscard]] static bool seen_done(Place const& place) noexcept {
        try {
            if (!place.done()) { return false; }
            place.synchronize();
            return true;
        } catch (...) { return false; } // an error: it is queried again later
    }

    /// Makes the cache entries (`noted`) of all threads invalid, so that the next `note` of each
    /// thread takes the lock: gives `epoch_` a new value, unique in the process. The caller must
    /// hold the lock.
    void start_epoch() noexcept { epoch_.store(next_epoch(), std::memory_order_seq_cst); }
    static std::uint64_t next_epoch() noexcept {
        static constinit std::atomic<std::uint64_t> last{0};
        return last.fetch_add(1, std::memory_order_relaxed) + 1;
    }
    /// Cache entry of a thread: the thread has seen `stream` in the list `streams_` of the object
    /// whose `epoch_` was `epoch`. No two objects have an equal `epoch_`, so the entry is invalid
    /// for any other object.
    struct noted {
        cudaStream_t  stream = nullptr;
        std::uint64_t epoch  = 0;
    };
    static constexpr std::size_t usual = 16;

    /// Returns the address of the pointer that links to the element of the stream `s`: `&streams_`,
    /// or the address of `next` in the element before. `erase` takes that pointer. It is null if
    /// the list has no such element. A default stream is found by handle and id, because its handle
    /// means another stream on another thread or device.
    [[nodiscard]] user** find(cuda_stream_view s) {
        std::uint64_t const id = cuda_stream_ids::is_proper(s.get()) ? 0 : s.id();
        user**              at = &streams_;
        while (*at != nullptr && !((*at)->stream == s && (id == 0 || id == (*at)->id))) {
            at = &(*at)->next;
        }
        return at;
    }

    /// A thread's cache entry (`noted`) is valid only while it contains this number. The number
    /// changes when a stream leaves the list `streams_`, or before, and also before `synchronize`
    /// records an event on a stream.
    std::atomic<std::uint64_t> epoch_{next_epoch()};
    lock                       lock_;
    // Linked lists: containers of the standard library would add to the time that nvcc takes for
    // each file, also for one that does not use this class.
    user*         streams_     = nullptr;
    retired_user* retired_     = nullptr;
    std::size_t   count_       = 0; ///< number of elements of `streams_` and `retired_`
    std::uint64_t last_number_ = 0; ///< number of the element that was added last
    /// If `count_` has reached this number, `note` removes the ended and retired streams whose work
    /// is complete, and sets the number to twice the remaining count (at least `usual`).
    std::size_t look_at_ = usual;
};

} // namespace detail
} // namespace vram
