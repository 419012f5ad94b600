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

/// Remembers the streams on which memory was freed, so that `synchronize` can wait for them before
/// a trim of CUDA's pool. A trim returns memory to the device only if the host has waited for its
/// free.
///
/// Threads   Any thread may call.
/// Streams   `retire` or `forget` must be called before a raw stream is destroyed.
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
    /// Remembers a free on the stream `s`, so that `synchronize` waits for it. No other thread may
    /// begin a capture of `s` meanwhile.
    void note(cuda_stream_view s) noexcept {
        bool const proper = cuda_stream_ids::is_proper(s.get());
        noted&     last   = cuda_stream_cache<noted>::place_of(s.get());
        // Returns at once if this thread has already called `note` for `s` since `epoch_` last
        // changed. The stream is then in `streams_`, and the next `synchronize` also waits for this
        // free.
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
    /// Must be called before the program destroys the raw stream `s`. Records an event behind the
    /// frees on `s`. A later `synchronize` waits for this event and no longer needs the stream. If
    /// no event can be recorded, waits for the stream on the host.
    void retire(cuda_stream_view s) noexcept {
        try {
            try_retire(s);
        } catch (...) {
            try {
                s.synchronize();
            } catch (...) {} // a later trim may then return less memory
        }
    }
    /// Forgets the stream `s` without a CUDA call: `synchronize` does not wait for its frees. `s`
    /// may already be destroyed.
    void forget(cuda_stream_view s) noexcept {
        auto const held = lock_.hold();
        erase_if(streams_, [s](user const& each) { return each.stream == s; });
        start_epoch();
    }
    /// Waits on the host for the work of the remembered streams, and forgets these streams. A
    /// stream that is being captured stays remembered.
    void synchronize() {
        std::uint64_t number = end_of_numbers();
        cuda_device   where;
        while (find_before(number, where)) {
            cuda_device_guard const on{where};
            cuda_event              place{where};
            std::uint64_t           frees = 0;
            {
                // Holds the lock until the event is recorded, so that no other thread can call
                // `retire` for this stream and then destroy the stream.
                auto const        held = lock_.hold();
                user const* const each = first_before(streams_, number + 1);
                if (each == nullptr || each->number != number) { continue; }
                // A free during the wait below must keep the stream in `streams_`. So the next call
                // of `note` for the stream must not return early: it increments `frees`.
                start_epoch();
                frees              = each->frees;
                recorded const how = record(place, *each);
                if (how == recorded::captured) { continue; }
            }
            // Returns at once if no event was recorded, such as for a destroyed stream.
            place.synchronize();
            auto const held = lock_.hold();
            erase_if(streams_,
                     [&](user const& now) { return now.number == number && now.frees == frees; });
        }
        // Waits for the events that `retire` recorded. This is the second loop, because another
        // thread may call `retire` during the first one.
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
    /// Element of the list `streams_`, newest first: a stream on which memory was freed.
    struct user {
        cuda_stream_view stream;
        std::uint64_t    id;
        cuda_device      where;
        /// Counted reference to the stream, so that an event can be recorded after its
        /// `cuda_stream` was destroyed. Empty for a raw or default stream.
        cuda_stream_hold held;
        /// Number of calls of `note` for this stream that did not return early. If the number
        /// changes while `synchronize` waits, there is a newer free. The stream then stays in
        /// `streams_`.
        std::uint64_t frees  = 1;
        std::uint64_t number = 0;
        user*         next   = nullptr;
    };
    struct retired_user {
        /// The event that `retire` recorded after the frees on the stream.
        cuda_event place;
        /// Number of threads that wait for `place` in `synchronize`. The element is removed only
        /// while this number is 0.
        unsigned      pins   = 0;
        std::uint64_t number = 0;
        retired_user* next   = nullptr;
    };

    void try_retire(cuda_stream_view s) {
        auto const   held = lock_.hold();
        user** const at   = find(s);
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
    }
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
    /// Unlinks and deletes the element to which `at` links: the head of the list, or `next` of the
    /// element before.
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
    /// Takes the lock. Returns a number that is larger than the serial numbers of all elements of
    /// `streams_` and `retired_`. A search from this number begins at the newest element.
    [[nodiscard]] std::uint64_t end_of_numbers() const noexcept {
        auto const held = lock_.hold();
        return last_number_ + 1;
    }
    /// Finds, under the lock, the element of `streams_` with the largest serial number below
    /// `number`. Sets `number` to this serial number, and `where` to the device of the element's
    /// stream. Returns false if there is no such element.
    bool find_before(std::uint64_t& number, cuda_device& where) const noexcept {
        auto const        held = lock_.hold();
        user const* const each = first_before(streams_, number);
        if (each == nullptr) { return false; }
        number = each->number;
        where  = each->where;
        return true;
    }
    /// Returns, under the lock, the element of `retired_` with the largest serial number below
    /// `number`, and sets `number` to this serial number. Returns null if there is no such element.
    /// The element stays in the list until the caller passes it to `unpin`.
    [[nodiscard]] retired_user* pin_before(std::uint64_t& number) noexcept {
        auto const          held = lock_.hold();
        retired_user* const each = first_before(retired_, number);
        if (each != nullptr) {
            number = each->number;
            ++each->pins;
        }
        return each;
    }
    /// Takes the lock, and ends the caller's pin of the element `each` (see `pin_before`). Removes
    /// the element from `retired_` if no other thread has pinned it and `done` is true: its event
    /// is complete.
    void unpin(retired_user* each, bool done) noexcept {
        auto const held = lock_.hold();
        --each->pins;
        erase_if(retired_,
                 [&](retired_user const& now) { return &now == each && done && now.pins == 0; });
    }

    /// Keeps the lists short. Removes elements of `retired_` with a complete event. Removes
    /// elements of `streams_` if the stream's `cuda_stream` was destroyed and the work of the
    /// stream is complete.
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
    /// Returns true if the work of the stream or event `place` is complete. In this case it also
    /// calls `synchronize`, because CUDA trims memory only after the host has waited for its free.
    /// Returns false if a call fails.
    template <class Place>
    [[nodiscard]] static bool seen_done(Place const& place) noexcept {
        try {
            if (!place.done()) { return false; }
            place.synchronize();
            return true;
        } catch (...) { return false; } // an error: it is queried again later
    }

    /// Makes the cache entries (`noted`) of all threads for this object invalid, so that the next
    /// `note` for a stream takes the lock. The caller must hold the lock or be the only user of the
    /// object.
    void start_epoch() noexcept { epoch_.store(next_epoch(), std::memory_order_seq_cst); }
    static std::uint64_t next_epoch() noexcept {
        static constinit std::atomic<std::uint64_t> last{0};
        return last.fetch_add(1, std::memory_order_relaxed) + 1;
    }
    /// Entry of a thread's cache. It says that the thread called `note` for `stream` when `epoch_`
    /// had the value `epoch`. While `epoch_` has this value, `note` for `stream` does nothing.
    struct noted {
        cudaStream_t  stream = nullptr;
        std::uint64_t epoch  = 0;
    };
    static constexpr std::size_t usual = 16;

    /// Returns the address of the link to the element of the stream `s` in the list `streams_`, so
    /// that the caller can remove the element. The link is null if the list has no such element.
    [[nodiscard]] user** find(cuda_stream_view s) {
        // All default streams of one kind have the same handle, so their ids are compared too. For
        // other streams, `id` is 0 and only the handle is compared.
        std::uint64_t const id = cuda_stream_ids::is_proper(s.get()) ? 0 : s.id();
        user**              at = &streams_;
        while (*at != nullptr && !((*at)->stream == s && (id == 0 || id == (*at)->id))) {
            at = &(*at)->next;
        }
        return at;
    }

    /// A number that no other object has or had. `start_epoch` replaces it. A thread's cache entry
    /// (`noted`) is valid only if it contains this number.
    std::atomic<std::uint64_t> epoch_{next_epoch()};
    lock                       lock_;
    // `streams_` and `retired_` are linked lists, because containers of the standard library would
    // slow down each compilation with nvcc.
    user*         streams_     = nullptr;
    retired_user* retired_     = nullptr;
    std::size_t   count_       = 0; ///< number of elements of `streams_` and `retired_`
    std::uint64_t last_number_ = 0; ///< serial number of the element that `add` added last
    /// Number of elements of both lists at which `note` calls `forget_done`, which removes elements
    /// with complete work.
    std::size_t look_at_ = usual;
};

} // namespace detail
} // namespace vram
