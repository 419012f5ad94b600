// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `unloader_ring` records the states of an unloader's blocks, and enqueues its copies.

#include <vram/base/core/durations.hpp>          // seconds
#include <vram/base/core/gate.hpp>               // the gate of platforms where time is real
#include <vram/base/core/report_caught.hpp>      // report_caught
#include <vram/base/error_kind.hpp>              // error_kind
#include <vram/concepts/core/is_ending.hpp>      // is_ending
#include <vram/concepts/core/owning_process.hpp> // owning_process
#include <vram/order/core/sure_wait.hpp>         // sure_wait
#include <vram/transfer/core/await_flag.hpp>     // await_flag
#include <vram/transfer/core/copy_lane.hpp>      // copy_lane
#include <vram/transfer/core/copy_problem.hpp>   // copy_problem
#include <vram/transfer/core/pinned_slot.hpp>    // pinned_slot
#include <vram/transfer/core/profiler_range.hpp> // profiler_range
#include <vram/transfer/core/slot.hpp>           // slot
#include <vram/transfer/core/slot_order.hpp>     // slot_order
#include <vram/transfer/core/slot_queue.hpp>     // slot_queue
#include <vram/transfer/loader_error.hpp>        // loader_error
#include <vram/transfer/platform_clock.hpp>      // platform_clock
#include <vram/transfer/unloader_options.hpp>    // unloader_options

#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <cstdio>    // snprintf
#include <exception> // exception_ptr, current_exception, rethrow_exception
#include <optional>  // nullopt
#include <utility>   // move, exchange
#include <vector>    // vector

namespace vram {
namespace detail {

/// Blocks of an unloader and the copies between them. Device blocks are in turn free, held by the
/// program, and full (the result waits for its copy). A stream that reuses a device block waits for
/// its last copy, but no host thread does. Pinned blocks are in turn empty, copying and copied, and
/// empty again when the sink has returned. The thread that completes a pair of a full device block
/// and an empty pinned one enqueues the copy.
///
/// Failure   An exception of the sink or of a copy is thrown by each later call of the program.
/// Threads   One thread of the program and one of the sink. No function of the platform is called
///           while the lock `gate_` is held, because a callback may need the lock.
/// Cost      A result takes the lock a few times. Nothing is allocated.
template <class Platform>
class unloader_ring {
public:
    using slot   = detail::slot<Platform>;
    using pinned = pinned_slot<Platform>;
    using stream = typename Platform::stream;
    using device = typename Platform::device;
    using clock  = platform_clock<Platform>;

    unloader_ring(unloader_ring const&)            = delete;
    unloader_ring& operator=(unloader_ring const&) = delete;

    [[nodiscard]] bool in_owning_process() const noexcept {
        return owner_.is_current() && !threads_stand_still<Platform>();
    }

    /// Returns a device block for the next result, after making the stream `s` wait for the copy of
    /// the block's previous result. Blocks the calling thread while no device block is free.
    slot& take(stream s) {
        expect_owning_process();
        if (Platform::capturing(s)) { throw loader_error{loader_error::reason::capturing, index_}; }
        slot* got = nullptr;
        {
            auto held = gate_.hold();
            if (held_ == slots_.size()) {
                throw loader_error{loader_error::reason::all_held, index_, held_, slots_.size()};
            }
            gate_.wait(held, [&] { return problem_ != nullptr || !free_.empty(); });
            rethrow();
            got = free_.pop();
            ++held_;
        }
        try {
            Platform::wait(s, got->copied);
        } catch (...) {
            give_back(*got);
            throw;
        }
        got->size = 0;
        return *got;
    }

    /// Queues the first `bytes` bytes of the device block `from` as the next result. The copy waits
    /// for the work enqueued so far on the stream `on` and on the block's further streams. Sets
    /// `from` to null. If this function throws, the block still belongs to the caller.
    void send(slot*& from, std::size_t bytes, stream on) {
        expect_owning_process();
        if (bytes > options_.batch_bytes) {
            throw loader_error{loader_error::reason::too_large, index_, bytes,
                               options_.batch_bytes};
        }
        if (stopping_) { throw loader_error{loader_error::reason::ended, index_}; }
        slot& s = *from;
        s.record_users(on);
        from    = nullptr; // from here on the block belongs to the unloader
        s.size  = bytes;
        s.index = index_++;
        {
            auto const held = gate_.hold();
            --held_;
            full_.push(s);
        }
        copy_all();
    }
    /// Makes the device block `s` free again, without a result. No work may still be writing to it.
    void give_back(slot& s) noexcept {
        {
            auto const held = gate_.hold();
            --held_;
            free_.push(s);
        }
        gate_.notify();
    }
    /// Makes the device block `s` free again, without a result, after the calling thread has waited
    /// for the work on the stream `on` and on the block's further streams. If a wait fails, the
    /// block is never used again.
    void drop(slot& s, stream on) noexcept {
        if (!in_owning_process()) { return; } // in a forked child, the block belongs to the parent
        s.end_unknown = !sure_wait<Platform>(on, [on] { return Platform::device_of(on); });
        for (stream const& other : s.others) {
            bool const over =
                sure_wait<Platform>(other, [&] { return Platform::device_of(other); });
            s.end_unknown = s.end_unknown || !over;
        }
        s.forget_users();
        if (!s.end_unknown) { give_back(s); }
    }

    /// Blocks the calling thread until the sink has received all results that were sent.
    void finish() {
        expect_owning_process();
        auto held = gate_.hold();
        gate_.wait(held, [&] { return problem_ != nullptr || idle(); });
        rethrow();
    }
    [[nodiscard]] std::size_t sent() const noexcept { return index_; }
    [[nodiscard]] std::size_t batch_bytes() const noexcept { return options_.batch_bytes; }

protected:
    /// Creates the slots. Defaults (0) in `options` must have been replaced by numbers.
    unloader_ring(unloader_options const& options, device where)
        : options_{options},
          lane_{where, std::nullopt, options.priority},
          copied_{options.pinned_depth, true} {
        slots_.reserve(options.device_depth);
        pinned_.reserve(options.pinned_depth);
        for (std::size_t i = 0; i < options.device_depth; ++i) {
            free_.push(slots_.emplace_back(where));
        }
        for (std::size_t i = 0; i < options.pinned_depth; ++i) {
            pinned& p = pinned_.emplace_back(where, false);
            p.owner   = this;
            empty_.push(p);
        }
    }
    ~unloader_ring() = default;

    /// Waits until the sink has received all results or has failed. Then `await_copied` returns
    /// null, so that the sink's thread can end.
    void stop() noexcept {
        bool lost = false;
        {
            auto held = gate_.hold();
            gate_.wait(held, [&] { return problem_ != nullptr || idle(); });
            stopping_ = true;
            lost      = problem_ != nullptr && !thrown_;
        }
        gate_.notify();
        if (lost) { report_lost(); }
    }

    /// Called on the sink's thread: waits for the next result in order and returns its pinned
    /// block. Returns null after `stop`.
    pinned* await_copied() {
        auto held   = gate_.hold();
        auto looked = clock::now();
        // Index of the result polled last: a new one is first polled without sleeping.
        std::size_t seen  = static_cast<std::size_t>(-1);
        auto const  ready = [&] {
            return stopping_ || (problem_ == nullptr && copied_.front() != nullptr);
        };
        for (;;) {
            complete_flagged();
            if (in_flight_ == 0) {
                gate_.wait(held, [&] { return ready() || in_flight_ != 0; });
            }
            if (ready()) { break; }
            if (problem_ != nullptr) { // after a failure the sink receives nothing more
                gate_.wait(held, [&] { return stopping_; });
                break;
            }
            if (pinned* const p = flagged_.front()) {
                bool const first = std::exchange(seen, p->index) != p->index;
                if (await_flag<Platform>(gate_, held, *p, first, ready)) { continue; }
            } else if (gate_.wait_for(held, watchdog,
                                      [&] { return ready() || !flagged_.empty(); })) {
                continue;
            }
            if (clock::now() - looked < watchdog_ns) { continue; }
            held.unlock();
            check_copies();
            looked = clock::now();
            held   = gate_.hold();
        }
        return stopping_ ? nullptr : copied_.pop();
    }
    /// Makes the pinned block `p` empty again, because the sink has returned or thrown `problem`,
    /// which is null if it returned.
    void written(pinned& p, std::exception_ptr problem) noexcept {
        {
            auto const held = gate_.hold();
            --in_flight_;
            empty_.push(p);
            if (problem != nullptr) { fail(std::move(problem), "the sink", p.index); }
        }
        gate_.notify();
        copy_all();
    }

    unloader_options    options_;
    copy_lane<Platform> lane_;
    std::vector<slot>   slots_;
    std::vector<pinned> pinned_;

private:
    /// Throws `loader_error{forked}` in a forked child. A child must not even lock the mutex, which
    /// another thread of the parent may have held at the fork.
    void expect_owning_process() const {
        if (!in_owning_process()) { throw loader_error{loader_error::reason::forked, index_}; }
    }

    /// Throws `loader_error{ended}` if the process is ending, when no copy or callback runs.
    static void expect_platform(std::size_t index) {
        if (is_ending<Platform>()) { throw loader_error{loader_error::reason::ended, index}; }
    }

    /// Enqueues copies as long as a full device block and an empty pinned block exist. Called on
    /// the thread of the program or of the sink; one of them at a time copies.
    void copy_all() noexcept {
        for (;;) {
            slot*   from = nullptr;
            pinned* to   = nullptr;
            {
                auto const held = gate_.hold();
                if (copying_ || problem_ != nullptr || full_.empty() || empty_.empty()) { return; }
                from     = full_.pop();
                to       = empty_.pop();
                copying_ = true;
                ++in_flight_;
                ++to->copy_number;
            }
            std::exception_ptr problem = copy(*from, *to);
            {
                auto const held = gate_.hold();
                copying_        = false;
                if (problem == nullptr && to->flagged) { flagged_.push(*to); }
                if (problem != nullptr) {
                    fail(std::move(problem), "the copy", to->index);
                    --in_flight_;
                }
                if (!from->end_unknown) { free_.push(*from); }
            }
            gate_.notify();
        }
    }
    std::exception_ptr copy(slot& from, pinned& to) noexcept {
        profiler_range<Platform> const shown{"vram copy"};
        stream const                   on      = lane_.view();
        bool                           started = false;
        try {
            to.size  = from.size;
            to.index = from.index;
            expect_platform(to.index);
            from.await_users(on);
            if (from.size != 0) { Platform::copy(on, to.memory, from.memory, from.size); }
            started = true;
            Platform::record(to.copied, on);
            to.over = &to.copied;
            lane_.set_flag(to);
            Platform::record(from.copied, on);
        } catch (...) {
            std::exception_ptr problem = copy_problem<Platform>(to.index);
            if (started) { from.end_unknown = to.end_unknown = !lane_.finish(); }
            return problem;
        }
        if (to.flagged) { return nullptr; }
        try {
            lane_.call_after(to.copied, on_copied, &to);
        } catch (...) { // the sink's thread waits for the event instead
            report_caught({.kind     = error_kind::platform_error,
                           .pointer  = to.memory,
                           .resource = "unloader",
                           .call     = "the callback after a copy"});
            to.in_flight = true;
            copy_completed(to);
        }
        return nullptr;
    }
    /// Adds each pinned block to `copied_` if its completion flag shows that its copy is complete.
    /// The lock must be held.
    void complete_flagged() noexcept {
        while (pinned* const p = flagged_.front()) {
            if (!pinned::flag_reached(p->flag, p->copy_number)) { return; }
            copied_.push(*flagged_.pop());
        }
    }
    static void on_copied(void* slot) {
        pinned& p = *static_cast<pinned*>(slot);
        static_cast<unloader_ring*>(p.owner)->copy_completed(p);
    }
    void copy_completed(pinned& p) noexcept {
        {
            auto const held = gate_.hold();
            copied_.push(p);
        }
        gate_.notify();
    }

    /// Queries the event of each copy that has not called back in time, because a device that has
    /// failed calls no callbacks. Stores the error that a query returns, if any.
    void check_copies() noexcept {
        try {
            expect_platform(none); // without `index_`, which only the program's thread may read
            for (pinned& p : pinned_) {
                if (Platform::done(p.copied)) { Platform::synchronize(p.copied); }
            }
        } catch (...) {
            {
                auto const held = gate_.hold();
                fail(std::current_exception(), "a copy", none);
            }
            gate_.notify();
        }
    }

    /// Stores the exception `why`, which the sink or a copy (`what`) threw at the result `index`,
    /// or at an unknown one (`none`). Only the first failure is stored. The lock must be held.
    void fail(std::exception_ptr why, char const* what, std::size_t index) noexcept {
        if (problem_ != nullptr) { return; }
        problem_ = std::move(why);
        failed_  = what;
        at_      = index;
    }
    /// Reports the stored exception to the error sink, because no later call can throw it.
    void report_lost() noexcept {
        char what[64];
        if (at_ == none) {
            std::snprintf(what, sizeof what, "%s", failed_);
        } else {
            std::snprintf(what, sizeof what, "%s of result %zu", failed_, at_);
        }
        try {
            std::rethrow_exception(problem_);
        } catch (...) {
            report_caught(
                {.kind = error_kind::lost_exception, .resource = "unloader", .call = what});
        }
    }

    [[nodiscard]] bool idle() const noexcept { return full_.empty() && in_flight_ == 0; }
    /// Throws the stored exception of the sink or of a copy, if any. The lock must be held.
    void rethrow() {
        if (problem_ == nullptr) { return; }
        thrown_ = true;
        std::rethrow_exception(problem_);
    }

    static constexpr std::size_t          none = static_cast<std::size_t>(-1);
    static constexpr std::chrono::seconds watchdog{1};
    static constexpr std::uint64_t        watchdog_ns = std::chrono::nanoseconds{watchdog}.count();

    owning_process          owner_;
    typename Platform::gate gate_;
    slot_queue<slot>        free_;
    /// Device blocks with results that wait for an empty pinned block.
    slot_queue<slot>   full_;
    slot_queue<pinned> empty_;
    /// Pinned blocks with a copy in progress that sets a completion flag at its end, in order.
    slot_queue<pinned> flagged_;
    slot_order<pinned> copied_; ///< pinned blocks with results that wait for the sink, in order
    std::exception_ptr problem_;
    char const*        failed_ = "";   ///< "the sink" or "the copy", which threw `problem_`
    std::size_t        at_     = none; ///< index of the result that failed, or `none`
    std::size_t        index_  = 0;
    std::size_t        held_   = 0; ///< number of device blocks that the program holds as results
    /// Number of results that were being copied or are with the sink.
    std::size_t in_flight_ = 0;
    bool        copying_   = false;
    bool        stopping_  = false;
    bool        thrown_    = false;
};

} // namespace detail
} // namespace vram
