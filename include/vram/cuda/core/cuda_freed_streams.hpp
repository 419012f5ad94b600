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
        // While the epoch is unchanged, `s` is in `streams_`, and the next `synchronize` will
        // record its event behind this free, so nothing needs to be stored.
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
    /// Must be called before the program destroys the raw stream `s`. Records an event, for which
    /// `synchronize` then waits instead of `s`.
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
                // The lock is held during the recording, so that no other thread retires and then
                // destroys the stream.
                auto const        held = lock_.hold();
                user const* const each = first_before(streams_, number + 1);
                if (each == nullptr || each->number != number) { continue; }
                // From now on, `note` takes the lock for a newer free and increments `frees`, so
                // that the `erase_if` below keeps the stream.
                start_epoch();
                frees              = each->frees;
                recorded const how = record(place, *each);
                if (how == recorded::captured) { continue; }
            }
            // Waits for the frees. If no event was recorded, for example because the stream was
            // destroyed, this returns at once.
            place.synchronize();
            auto const held = lock_.hold();
            erase_if(streams_,
                     [&](user const& now) { return now.number == number && now.frees == frees; });
        }
        // Retired streams come last, so that streams which other threads retire during the loop
        // above are included. `number` must again be above all numbers.
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
        /// Number of calls of `note` for this stream that took the lock. If it changes while
        /// `synchronize` waits, a newer free may be incomplete, and the stream stays remembered.
        std::uint64_t frees  = 1;
        std::uint64_t number = 0;
        user*         next   = nullptr;
    };
    struct retired_user {
        /// Event behind the frees of the stream, recorded when it was retired.
        cuda_event place;
        /// Number of threads in `synchronize` that use this element. While it is above 0, `unpin`
        /// and `forget_done` do not remove the element.
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
    /// Takes the lock. Returns a number above those of all elements, with which `find_before` and
    /// `pin_before` begin.
    [[nodiscard]] std::uint64_t end_of_numbers() const noexcept {
        auto const held = lock_.hold();
        return last_number_ + 1;
    }
    /// Takes the lock. Finds the newest remembered stream with a number below `number`, and sets
    /// `number` and `where` to its number and device. Returns false if there is none.
    bool find_before(std::uint64_t& number, cuda_device& where) const noexcept {
        auto const        held = lock_.hold();
        user const* const each = first_before(streams_, number);
        if (each == nullptr) { return false; }
        number = each->number;
        where  = each->where;
        return true;
    }
    /// Takes the lock. Returns the newest retired stream with a number below `number`, and sets
    /// `number` to that; null if there is none. `unpin` ends the use.
    [[nodiscard]] retired_user* pin_before(std::uint64_t& number) noexcept {
        auto const          held = lock_.hold();
        retired_user* const each = first_before(retired_, number);
        if (each != nullptr) {
            number = each->number;
            ++each->pins;
        }
        return each;
    }
    /// Takes the lock. Ends the use of `each` that `pin_before` began. If `done` (its event is
    /// complete), removes `each` unless another thread uses it.
    void unpin(retired_user* each, bool done) noexcept {
        auto const held = lock_.hold();
        --each->pins;
        erase_if(retired_,
                 [&](retired_user const& now) { return &now == each && done && now.pins == 0; });
    }

    /// Removes streams whose `cuda_stream` was destroyed, and retired streams, if their work is
    /// complete. So the lists stay short.
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
    /// Returns true if the stream or event is complete; then first calls `synchronize`, because
    /// CUDA trims memory only after a host wait. Returns false if a call fails.
    template <class Place>
    [[nodiscard]] static bool seen_done(Place const& place) noexcept {
        try {
            if (!place.done()) { return false; }
            place.synchronize();
            return true;
        } catch (...) { return false; } // an error: it is queried again later
    }

    /// Invalidates the cache entries (`noted`) of all threads for this object: their next `note` of
    /// a stream takes the lock. The caller must hold the lock, or exclude other threads.
    void start_epoch() noexcept { epoch_.store(next_epoch(), std::memory_order_seq_cst); }
    static std::uint64_t next_epoch() noexcept {
        static constinit std::atomic<std::uint64_t> last{0};
        return last.fetch_add(1, std::memory_order_relaxed) + 1;
    }
    /// Cache entry of a thread: `stream` was in `streams_` when `epoch_` had the value `epoch`.
    /// While `epoch_` is unchanged, `note` needs no lock for it.
    struct noted {
        cudaStream_t  stream = nullptr;
        std::uint64_t epoch  = 0;
    };
    static constexpr std::size_t usual = 16;

    /// Returns the link (head of the list or `next`) to the element of the stream `s`. The link is
    /// null without such an element.
    [[nodiscard]] user** find(cuda_stream_view s) {
        // The handle of a default stream means several streams, so its id must match too. For other
        // streams (`id` is 0) the handle is enough.
        std::uint64_t const id = cuda_stream_ids::is_proper(s.get()) ? 0 : s.id();
        user**              at = &streams_;
        while (*at != nullptr && !((*at)->stream == s && (id == 0 || id == (*at)->id))) {
            at = &(*at)->next;
        }
        return at;
    }

    /// Cache entries (`noted`) are valid only with the present number, which no other object has or
    /// had. `start_epoch` replaces it.
    std::atomic<std::uint64_t> epoch_{next_epoch()};
    lock                       lock_;
    // Linked lists, because containers of the standard library would slow down each compilation
    // with nvcc.
    user*         streams_     = nullptr;
    retired_user* retired_     = nullptr;
    std::size_t   count_       = 0; ///< number of elements of `streams_` and `retired_`
    std::uint64_t last_number_ = 0; ///< serial number of the element that was added last
    /// When `count_` has reached this number, `note` removes finished streams (`forget_done`)
    /// before it adds one, so that the lists stay short.
    std::size_t look_at_ = usual;
};

} // namespace detail
} // namespace vram
