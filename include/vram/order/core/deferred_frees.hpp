// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `deferred_frees` keeps freed blocks until their streams have finished with them.

#include <vram/base/align.hpp> // default_alignment
#include <vram/base/call_site.hpp>
#include <vram/base/core/first_exception.hpp>
#include <vram/base/core/report_caught.hpp>
#include <vram/base/core/smaller_of.hpp> // larger_of
#include <vram/base/core/tally.hpp>
#include <vram/base/core/unlocked.hpp>
#include <vram/base/error.hpp> // report_error
#include <vram/base/memory_usage.hpp>
#include <vram/concepts/core/is_ending.hpp>
#include <vram/concepts/core/name_of_stream.hpp>
#include <vram/concepts/core/observation.hpp> // host_waits_made
#include <vram/concepts/core/platform_lock.hpp>
#include <vram/concepts/core/refused_free.hpp>
#include <vram/order/core/freed_blocks.hpp>
#include <vram/order/core/graph_frees.hpp>
#include <vram/order/core/meeting_of.hpp>
#include <vram/order/core/waiting_frees.hpp>

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>
#include <new> // bad_alloc
#include <utility>

namespace vram {
namespace detail {

/// Keeps each block that `take` accepts until no stream uses it, and counts the live blocks. The
/// caller allocates the blocks from the upstream. Several functions take a function
/// `give(p, bytes, alignment, at)` that frees a block upstream. `at`: the line with the free.
///
/// Failure   A function that is not `noexcept` may rethrow errors of the platform.
/// Threads   Any thread may call. Only one thread may move the object or call `wait_for_all`.
template <class Platform>
class deferred_frees {
public:
    using stream = typename Platform::stream;

    /// `per_event`: a stream records one event for this number of frees. `at_least`: `collect`
    /// returns the unused blocks to the upstream once they have this number of bytes together.
    deferred_frees(std::size_t per_event, std::size_t at_least)
        : per_event_{per_event}, at_least_{at_least} {}
    /// Takes over the blocks and counts of `o`, which no other thread may use. `o` is then empty.
    deferred_frees(deferred_frees&& o) noexcept : deferred_frees{o.per_event_, o.at_least_} {
        *this = std::move(o);
    }
    /// Takes over the blocks of `other`. The caller must first call `wait_for_all` on this object.
    deferred_frees& operator=(deferred_frees&& other) noexcept {
        if (this == &other) { return *this; }
        per_event_    = other.per_event_;
        at_least_     = other.at_least_;
        waiting_      = std::move(other.waiting_);
        ready_        = std::move(other.ready_);
        captured_     = std::move(other.captured_);
        links_        = std::move(other.links_);
        reservations_ = std::exchange(other.reservations_, 0);
        returned_     = other.returned_.load();
        live_         = std::exchange(other.live_, {});
        figures_      = std::exchange(other.figures_, {});
        return *this;
    }

    /// A block that the caller is requesting from the upstream. The constructor makes sure that an
    /// unused list element exists, so that the later free of the block needs no host memory.
    class reservation {
    public:
        reservation(deferred_frees& books, std::size_t bytes) : books_{books}, bytes_{bytes} {
            auto const held = books.lock_.hold();
            if (books.links_.count() <= books.reservations_) { books.links_.add_link(); }
            ++books.reservations_;
            seen_ = books.returned_;
        }
        reservation(reservation&&) = delete;
        ~reservation() {
            if (bytes_ == 0) { return; }
            auto const held = books_.lock_.hold();
            --books_.reservations_;
        }

        /// Counts the request as a live block, after its memory was allocated at `p`. Returns `p`.
        void* keep(void* p) noexcept {
            auto const held = books_.lock_.hold();
            books_.count_allocation(std::exchange(bytes_, 0));
            return p;
        }

        /// Called after the upstream refused memory. Tries to return freed blocks to the upstream,
        /// unless another thread has done so since the request. The host may wait for a stream or
        /// another thread. Returns true if the caller should ask the upstream again.
        template <class Give>
        bool make_room(Give give) {
            // No freed blocks can make room for more than half of the address space.
            if (bytes_ > ~std::size_t{0} / 2) { return false; }
            bool const freed = books_.make_room(*this, give);
            return freed && attempts_-- != 0;
        }

    private:
        deferred_frees& books_;
        std::size_t     bytes_;
        /// Value of `returned_` when the upstream was last asked. If `returned_` has another value
        /// now, blocks were returned since then, and it is useful to ask again.
        std::uint64_t seen_ = 0;
        /// Number of times that the request may still be repeated; set at the first refusal.
        std::size_t                  attempts_  = no_attempt;
        static constexpr std::size_t no_attempt = ~std::size_t{0};
        friend deferred_frees;
    };

    enum class result {
        /// The free is accepted, and the caller has nothing to do. A later call returns the block
        /// to the upstream, after all streams have finished with it. A block that was freed during
        /// a capture is returned by `release_captured` or `wait_for_all`. If the wait of
        /// `wait_for_all` fails, the block is reported as a leak instead.
        kept,
        /// The block is not kept, because host memory ran out or an error occurred. The caller must
        /// wait for the stream, and then free the block upstream.
        due,
        foreign, ///< the free is invalid: it was reported, and the caller must do nothing
    };

    /// Takes a freed block that the stream `s` used last. The host does not wait. If the result is
    /// `due`, the caller must wait for `s`, and then free the block upstream.
    [[nodiscard]] result take(stream s, void* p, std::size_t bytes, std::size_t alignment,
                              call_site at = {}) noexcept {
        auto const held = lock_.hold();
        if (!check_free(p, bytes, alignment, &s, at)) { return result::foreign; }
        auto* const one = links_.pop();
        *one            = {p, bytes, alignment, at};
        try {
            if (Platform::capturing(s)) {
                captured_.add(s, one);
            } else {
                waiting_.add(s, one, per_event_);
            }
            return result::kept;
            // A lack of host memory is not reported, because the caller still frees the block: the
            // result `due` tells it to wait for the stream first.
        } catch (std::bad_alloc const&) {
        } catch (...) {
            report_caught({.kind     = error_kind::platform_error,
                           .pointer  = p,
                           .bytes    = bytes,
                           .caller   = at,
                           .stream   = name_of_stream<Platform>(s),
                           .resource = "stream_ordered",
                           .call     = "recording an event behind a free"});
        }
        *one = {};
        links_.push(one);
        ++figures_.upstream;
        return result::due;
    }
    /// Checks and counts the free of a block that no stream uses. Returns true if the caller must
    /// now free the block upstream. Returns false, after a report, if the free is invalid.
    [[nodiscard]] bool free_idle(void* p, std::size_t bytes,
                                 std::size_t alignment = default_alignment,
                                 call_site   at        = {}) noexcept {
        auto const held = lock_.hold();
        if (!check_free(p, bytes, alignment, nullptr, at)) { return false; }
        ++figures_.upstream;
        return true;
    }

    /// Looks for unused blocks without a wait. Returns them to the upstream with `give` if they
    /// have at least `at_least_` bytes together.
    template <class Give>
    void collect(Give give) {
        auto held = lock_.hold();
        if (waiting_.empty() && ready_.empty()) { return waiting_.forget_ended(); }
        give_back(held, at_least_, give);
    }
    /// Passes all unused blocks to `give`, and returns the sum of their bytes. If no event can be
    /// recorded on a stream, the host waits for the device of the stream. It does not wait for a
    /// stream that is being captured.
    template <class Give>
    std::size_t collect_all(Give give) {
        auto held = lock_.hold();
        // The loop below ignores blocks that other threads free from now on, so that it ends. Such
        // blocks have an `age` (sequence number) of at least `until`.
        std::uint64_t const until = waiting_.next_age();
        std::size_t         bytes = give_back(held, 0, give);
        while (auto const lost = waiting_.pin_uncovered(until)) {
            wait_for(held, lost);
            bytes += give_back(held, 0, give);
        }
        return bytes;
    }
    /// Called when no captured graph will be launched again. Makes the host wait for the devices of
    /// all captured streams, then passes all unused blocks to `give`. `mr`: the upstream. The host
    /// waits for the upstream's device if the device of a captured stream is unknown.
    template <class Give, class R>
    void release_captured(Give give, R const& mr) {
        auto held = lock_.hold();
        figures_.waits += captured_.finish(held, mr, ready_);
        give_back(held, 0, give);
    }
    /// Makes the host wait until no stream or graph uses the freed blocks, then passes the blocks
    /// to `give`. If a wait fails, its blocks are reported as leaks instead. `mr`: the upstream.
    /// Does nothing if the process is ending.
    template <class Give, class R>
    void wait_for_all(Give give, R const& mr) noexcept {
        if (is_ending<Platform>()) { return; }
        freed_blocks all = waiting_.wait_for_all();
        all.splice(ready_);
        captured_.finish_or_report(mr, all);
        all.drain(give);
    }

    /// Called before the stream `s` is destroyed. Tries to record an event behind the frees on `s`,
    /// which fails while `s` is being captured. An error of the recording is reported.
    void retire(stream s) {
        auto const held = lock_.hold();
        waiting_.retire(s);
    }

    /// Returns the usage. `waits` counts the waits of the host for events and devices in
    /// `make_room`, `collect_all` and `release_captured`.
    [[nodiscard]] memory_usage usage() const {
        auto const held = lock_.hold();
        return figures_now();
    }
    /// Sets both peaks to the current live and reserved bytes. Returns the peaks before the reset.
    memory_usage reset_peaks() noexcept {
        auto const         held   = lock_.hold();
        memory_usage       now    = figures_now();
        memory_usage const before = now.restart_peaks();
        take_peaks(now);
        return before;
    }
    /// Raises the peaks to at least the peaks in `before`, a result of `reset_peaks`.
    void raise_peaks(memory_usage const& before) noexcept {
        auto const   held = lock_.hold();
        memory_usage now  = figures_now();
        now.raise_peaks(before);
        take_peaks(now);
    }

private:
    using guard = typename platform_lock<Platform>::guard;

    [[nodiscard]] memory_usage figures_now() const noexcept {
        memory_usage now = figures_;
        now.live         = live_.value;
        now.requested    = live_.value;
        now.peak_live    = live_.peak;
        now.pending      = pending();
        now.reserved     = now.live + now.pending;
        now.events       = waiting_.events();
        return now;
    }

    void take_peaks(memory_usage const& now) noexcept {
        live_.peak             = now.peak_live;
        figures_.peak_reserved = now.peak_reserved;
        figures_.past_peak     = now.past_peak;
        figures_.restarts      = now.restarts;
    }

    /// A refused request is repeated at most this number of times, plus once for each freed block
    /// that was waiting at the first refusal. Other threads may take the memory in between.
    static constexpr std::size_t attempts_beside_others = 64;

    void count_allocation(std::size_t bytes) noexcept {
        live_.add(bytes);
        ++figures_.allocations;
        ++figures_.upstream;
        figures_.peak_reserved = larger_of(figures_.peak_reserved, live_.value + pending());
    }
    bool check_free(void* p, std::size_t bytes, std::size_t alignment, stream const* s,
                    call_site at) noexcept {
        if (bytes == 0 || bytes > live_.value || reservations_ == 0) {
            refuse(p, bytes, alignment, s, at);
            return false;
        }
        live_.sub(bytes);
        --reservations_;
        return true;
    }
    /// Reports an invalid free. An invalid free is not always found, because only the number and
    /// the total size of the live blocks are known.
    [[gnu::cold]] void refuse(void* p, std::size_t bytes, std::size_t alignment, stream const* s,
                              call_site at) const noexcept {
        refused_free e{"stream_ordered", p, bytes, alignment, at};
        e.template on<Platform>(s);
        if (waiting_.has(p) || ready_.has(p) || captured_.has(p)) { e.found_free(); }
        e.template report<Platform>();
    }
    [[nodiscard]] std::size_t pending() const noexcept {
        return waiting_.bytes() + ready_.bytes() + captured_.bytes();
    }

    /// If the unused blocks have at least `at_least` bytes together, frees them upstream. Returns
    /// the number of bytes freed. `held` is unlocked while blocks are freed.
    template <class Give>
    std::size_t give_back(guard& held, std::size_t at_least, Give& give) {
        first_exception failed;
        failed.of([&] { waiting_.collect(ready_); }); // loses no block if it throws
        std::size_t const bytes = ready_.bytes() < at_least ? 0 : ready_.bytes();
        if (bytes != 0) { give_ready(held, give); }
        failed.rethrow();
        return bytes;
    }
    template <class Give>
    void give_ready(guard& held, Give& give) {
        freed_blocks done;
        done.splice(ready_);
        ++returning_;
        figures_.upstream += done.count();
        unlocked(held, [&] { done.drain(give); });
        links_.splice(done);
        --returning_;
        ++returned_;
        if (refused_ != 0) {
            unlocked(held, [&] {
                { auto const everybody = meeting_.hold(); }
                meeting_.notify();
            });
        }
    }

    template <class Give>
    bool make_room(reservation& asked, Give& give) {
        auto           held = lock_.hold();
        std::uint64_t& seen = asked.seen_;
        if (asked.attempts_ == reservation::no_attempt) {
            asked.attempts_ = waiting_.count() + attempts_beside_others;
        }
        if (returned_ == seen && give_back(held, 0, give) == 0) {
            if (auto const oldest = waiting_.pin_oldest()) {
                wait_for(held, oldest);
                give_back(held, 0, give);
            }
            if (returned_ == seen && returning_ != 0) { await_others(held, seen); }
        }
        std::uint64_t const now = returned_;
        return std::exchange(seen, now) != now;
    }

    void wait_for(guard& held, typename waiting_frees<Platform>::pin const& pinned) {
        if (pinned.is_over()) { return waiting_.unpin(pinned, true); }
        ++figures_.waits;
        try {
            unlocked(held, [&] { pinned.wait(); });
        } catch (...) {
            waiting_.unpin(pinned, false);
            throw;
        }
        ++host_waits_made;
        waiting_.unpin(pinned, true);
    }

    /// Makes the calling thread wait until `returned_` is not `seen` any more, because another
    /// thread has returned blocks to the upstream. Unlocks `held` during the wait.
    void await_others(guard& held, std::uint64_t seen) {
        ++refused_;
        unlocked(held, [&] {
            auto waiter = meeting_.hold();
            meeting_.wait(waiter, [&] { return returned_ != seen; });
        });
        --refused_;
    }

    std::size_t             per_event_, at_least_;
    platform_lock<Platform> lock_; ///< protects the members below; `meeting_` has its own lock
    waiting_frees<Platform> waiting_;
    /// Freed blocks that no stream uses any more, to be returned to the upstream.
    freed_blocks          ready_;
    graph_frees<Platform> captured_; ///< blocks freed during captures: graphs may use them
    /// Unused list elements: at least one for each live block and each request in progress, so that
    /// a free allocates nothing.
    freed_blocks links_;
    std::size_t  reservations_ = 0; ///< number of live blocks and of requests in progress
    /// Number of threads that are returning blocks to the upstream now.
    std::size_t returning_ = 0;
    /// Number of threads with a refused request that wait until another thread has returned blocks.
    std::size_t refused_ = 0;
    /// Number of calls that returned blocks to the upstream. Changed only with the lock held, but
    /// also read without the lock.
    std::atomic<std::uint64_t> returned_ = 0;
    tally                      live_;
    memory_usage               figures_;
    /// Threads wait with this object until another thread has returned blocks to the upstream.
    meeting_of<Platform> meeting_;
};

} // namespace detail
} // namespace vram
