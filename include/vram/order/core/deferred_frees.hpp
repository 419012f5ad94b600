// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `deferred_frees` keeps freed blocks until their streams have finished with them.

#include <vram/base/align.hpp> // default_alignment
#include <vram/base/call_site.hpp>
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
#include <exception> // exception_ptr
#include <new>       // bad_alloc
#include <utility>

namespace vram {
namespace detail {

/// Counts live blocks, which the caller allocates, and keeps freed blocks until no stream uses
/// them. Unused blocks are passed to the argument `give(p, bytes, alignment, at)`, which frees them
/// upstream; `at` is the line of the free.
///
/// Failure   Rethrows errors of the platform, unless a function is `noexcept`.
/// Threads   Any thread may call. Only one thread may move the object or call `wait_for_all`.
template <class Platform>
class deferred_frees {
public:
    using stream = typename Platform::stream;

    /// `per_event`: number of frees of a stream after which an event is recorded. `at_least`:
    /// `collect` returns blocks only if at least so many bytes are unused.
    deferred_frees(std::size_t per_event, std::size_t at_least)
        : per_event_{per_event}, at_least_{at_least} {}
    /// Takes over the blocks and counts of `o`, which no other thread may use. `o` is then empty.
    deferred_frees(deferred_frees&& o) noexcept : deferred_frees{o.per_event_, o.at_least_} {
        *this = std::move(o);
    }
    /// Takes over the blocks of `other`. `wait_for_all` must have emptied this object before.
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

    /// A request to the upstream that the caller is making. The constructor makes sure that an
    /// unused list element (host memory) exists for the free of the block.
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

        /// Called after the upstream refused memory. Returns unused blocks to it, if necessary
        /// after a wait, unless another thread has done so. Returns true if the caller should ask
        /// the upstream again.
        template <class Give>
        bool make_room(Give give) {
            // No resource can ever have so many bytes, so returning freed blocks would not help.
            if (bytes_ > ~std::size_t{0} / 2) { return false; }
            bool const freed = books_.make_room(*this, give);
            return freed && attempts_-- != 0;
        }

    private:
        deferred_frees& books_;
        std::size_t     bytes_;
        /// Value of `returned_` (how often blocks were given back) before the last attempt to
        /// allocate. If it has changed, the caller asks the upstream again.
        std::uint64_t seen_ = 0;
        /// Number of times that the request may still be repeated; set at the first refusal.
        std::size_t                  attempts_  = no_attempt;
        static constexpr std::size_t no_attempt = ~std::size_t{0};
        friend deferred_frees;
    };

    enum class result {
        /// accepted: the caller does nothing. A later call returns the block once no stream uses
        /// it; if it was freed in a capture, `release_captured` or the end of the resource does
        kept,
        /// the block is not kept, for lack of host memory or after an error: the caller must wait
        /// for the stream and then free the block upstream
        due,
        foreign, ///< the free is invalid: it was reported, and the caller must do nothing
    };

    /// Frees a block that the stream `s` used last; the host does not wait. On `due`, the caller
    /// must wait for the stream and free the block upstream.
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
            // A lack of host memory is not reported: on `due`, the caller waits and frees the
            // block.
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
    /// Counts the free of a block that no stream uses. Returns true if the caller must now free the
    /// block upstream, false if the free is invalid and was reported.
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
    /// Passes all unused blocks to `give`, and returns the number of their bytes. If a stream
    /// outside a capture can record no event, the host waits for its device.
    template <class Give>
    std::size_t collect_all(Give give) {
        auto held = lock_.hold();
        // Only blocks freed before now (of a smaller age) are waited for, so that the loop ends.
        std::uint64_t const until = waiting_.next_age();
        std::size_t         bytes = give_back(held, 0, give);
        while (auto const lost = waiting_.pin_uncovered(until)) {
            wait_for(held, lost);
            bytes += give_back(held, 0, give);
        }
        return bytes;
    }
    /// Makes the host wait for captured graphs, which must not be launched again, and passes all
    /// unused blocks to `give`. `mr`: the upstream; the host waits for its device if that of a
    /// captured stream is unknown.
    template <class Give, class R>
    void release_captured(Give give, R const& mr) {
        auto held = lock_.hold();
        figures_.waits += captured_.finish(held, mr, ready_);
        give_back(held, 0, give);
    }
    /// Makes the host wait until no stream or graph uses freed blocks, and passes them to `give`.
    /// Blocks for which the wait fails are reported as leaks. `mr`: the upstream of the blocks.
    /// Does nothing if the process is ending.
    template <class Give, class R>
    void wait_for_all(Give give, R const& mr) noexcept {
        if (is_ending<Platform>()) { return; }
        freed_blocks all = waiting_.wait_for_all();
        all.splice(ready_);
        captured_.finish_or_report(mr, all);
        all.drain(give);
    }

    /// Called before the stream `s` is destroyed. Records an event behind its frees that have none,
    /// unless `s` is being captured or an error, which is reported, prevents that.
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
    /// Sets the peaks to the bytes that are live and reserved now. Returns the usage before.
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

    /// A refused request is repeated at most once for each block waiting at its first refusal, plus
    /// this number of times, because other threads may take the returned memory.
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
    /// Reports an invalid free. Only totals of live blocks are known, so not every invalid free is
    /// found.
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

    /// Frees unused blocks upstream if they have at least `at_least` bytes together. Returns the
    /// number of bytes freed, or 0. Unlocks `held` meanwhile.
    template <class Give>
    std::size_t give_back(guard& held, std::size_t at_least, Give& give) {
        std::exception_ptr failed;
        try {
            waiting_.collect(ready_); // if this throws, each block is in `waiting_` or in `ready_`
        } catch (...) { failed = std::current_exception(); }
        std::size_t const bytes = ready_.bytes() < at_least ? 0 : ready_.bytes();
        if (bytes != 0) { give_ready(held, give); }
        if (failed) { std::rethrow_exception(failed); }
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

    /// Waits until another thread has returned blocks to the upstream: until `returned_` differs
    /// from `seen`. Unlocks `held` meanwhile.
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
    std::size_t  reservations_ = 0; ///< live blocks plus requests in progress
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
