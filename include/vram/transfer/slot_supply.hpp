// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_supply` is the producers' side of a loader's ring: the slot table, its lock, and the rules
/// for waiting and copying.

#include <vram/base/durations.hpp>             // microseconds, nanoseconds, seconds
#include <vram/base/gate.hpp>                  // the gate of platforms where time is real
#include <vram/base/smaller_of.hpp>            // larger_of, smaller_of
#include <vram/base/worker.hpp>                // their thread
#include <vram/concepts/completion_flags.hpp>  // completion_flags
#include <vram/transfer/await_mark.hpp>        // await_mark
#include <vram/transfer/home_process.hpp>      // home_process
#include <vram/transfer/loader_error.hpp>      // loader_error
#include <vram/transfer/loader_options.hpp>    // loader_options
#include <vram/transfer/loader_statistics.hpp> // loader_statistics
#include <vram/transfer/pinned_slot.hpp>       // pinned_slot
#include <vram/transfer/platform_clock.hpp>    // platform_clock
#include <vram/transfer/slot.hpp>              // slot
#include <vram/transfer/slot_books.hpp>        // slot_books

#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <exception> // exception_ptr
#include <utility>   // move, exchange, declval
#include <vector>    // vector

namespace vram {

/// Operations of producers and copies on a loader's slots. When a filled pinned slot and a free
/// device slot exist, the thread that completed the pair enqueues the copy (`copy_all`). If the
/// consumer is waiting for a batch, the consumer enqueues the copy instead.
///
/// Threads   Any number of producers. No function of the platform is called while the lock `gate_`
///           is held, because a callback may need the lock.
/// Cost      Each step takes the lock once. It wakes only threads that can proceed.
template <class Platform>
class slot_supply {
public:
    using slot   = vram::slot<Platform>;
    using pinned = pinned_slot<Platform>;
    using stream = typename Platform::stream;
    using device = typename Platform::device;
    using clock  = platform_clock<Platform>;

    slot_supply(slot_supply const&)            = delete;
    slot_supply& operator=(slot_supply const&) = delete;

    [[nodiscard]] bool in_owning_process() const noexcept {
        return home_.here() && !threads_stand_still<Platform>();
    }

    /// Returns how many blocks of the loader are in each state at this moment.
    [[nodiscard]] slot_states states() {
        expect_owning_process();
        auto const held = gate_.hold();
        return count_states();
    }

protected:
    using books                       = slot_books<slot, pinned>;
    static constexpr std::size_t none = books::none;

    using guard = decltype(std::declval<typename Platform::gate&>().hold());

    /// Makes the slots. `options` must be complete: a depth of 0 is not replaced by its default.
    slot_supply(loader_options const& options, device where)
        : options_{options}, books_{options.pinned_depth, options.device_depth, options.ordered} {
        slots_.reserve(options.device_depth);
        pinned_.reserve(options.pinned_depth);
        for (std::size_t i = 0; i < options.device_depth; ++i) {
            books_.add(slots_.emplace_back(where));
        }
        for (std::size_t i = 0; i < options.pinned_depth; ++i) {
            books_.add(pinned_.emplace_back(where, options.timing));
        }
    }
    ~slot_supply() = default;

    /// Throws `loader_error{forked}` in a forked child. A child must not even take the lock, which
    /// another thread of the parent may have held at the fork.
    void expect_owning_process(std::size_t index = 0) const {
        if (!in_owning_process()) { throw loader_error{loader_error::reason::forked, index}; }
    }

    /// Enqueues copies as long as a filled pinned slot and a free device slot exist (`claim`).
    virtual void copy_all() noexcept = 0;
    /// Asks the device for the end of copies that have not called back.
    virtual void check_copies() noexcept = 0;

    /// Waits for an empty pinned slot and assigns the next batch to it. Returns null if there is no
    /// further batch. The caller enqueues possible copies while it waits.
    pinned* await_pinned() {
        for (;;) {
            {
                auto held = gate_.hold();
                idle(held, [&] { return must_copy() || books_.no_more() || books_.can_fill(); });
                if (!must_copy()) { return fill(); }
            }
            copy_all();
        }
    }
    /// Assigns the next batch to a pinned slot, for a loader without producer threads. Returns null
    /// if a batch is filled or ready, or if there is no further batch. Waits at most for a copy
    /// that empties a slot.
    pinned* pinned_now() {
        auto held = gate_.hold();
        if (books_.waiting() || books_.ready()) { return nullptr; }
        idle(held, [&] { return books_.no_more() || books_.can_fill(); });
        return fill();
    }
    /// Waits for a free device slot and assigns the next batch to it. The caller enqueues the
    /// copies and then calls `posted`. Returns null if there is no further batch.
    slot* await_slot() {
        auto held = gate_.hold();
        idle(held, [&] { return books_.no_more() || books_.can_fill_slot(); });
        return fill_slot();
    }
    /// Assigns the next batch to a free device slot, for a loader without producer threads. Does
    /// not wait. Returns null if no slot is free, if a batch is ready, or if there is no further
    /// batch.
    slot* slot_now() {
        auto const held = gate_.hold();
        return books_.ready() || !books_.can_fill_slot() ? nullptr : fill_slot();
    }

    /// Marks the pinned slot `p` as filled, which took `fill_ns` nanoseconds. Enqueues its copy, or
    /// wakes the consumer to do so.
    void filled(pinned& p, std::uint64_t fill_ns) noexcept {
        bool wake = false, passed = false;
        {
            auto const held = gate_.hold();
            figures_.fill_ns += fill_ns;
            books_.filled(p);
            // Wake the waiting consumer: it copies this slot, or it finds the end of the range.
            wake   = consumer_waits_;
            passed = books_.take_passed() && idle_ != 0;
        }
        if (wake || passed) { gate_.notify(); }
        if (!wake) { copy_all(); }
    }
    /// Makes the slot `s` (pinned or device) empty again, because its batch is left out. The next
    /// batch follows.
    template <class Either>
    void left_out(Either& s, std::uint64_t fill_ns) noexcept {
        {
            auto const held = gate_.hold();
            figures_.fill_ns += fill_ns;
            ++figures_.left_out;
            books_.left_out(s);
            (void)books_.take_passed();
        }
        gate_.notify();
    }
    /// Ends the range at the batch of the slot `s` (pinned or device), because the source has no
    /// batch for it. `why` is the error, or null.
    template <class Either>
    void ended(Either& s, std::exception_ptr why) noexcept {
        {
            auto const held = gate_.hold();
            books_.ended(s, std::move(why));
        }
        gate_.notify();
    }
    /// Makes the device slot `s` ready for the consumer, because its copies are enqueued.
    void posted(slot& s, std::uint64_t fill_ns) noexcept {
        bool wake = false;
        {
            auto const held = gate_.hold();
            figures_.fill_ns += fill_ns;
            books_.copied(s, nullptr);
            wake = consumer_waits_;
        }
        if (wake) { gate_.notify(); }
    }

    /// Claims a filled pinned slot `from` and a free device slot `to` for a copy by this thread.
    /// Returns false if there is no such pair, or if another thread is copying. A claim ends with a
    /// call of `copied`, which claims the next pair.
    bool claim(pinned*& from, slot*& to) noexcept {
        auto const held = gate_.hold();
        return claim_next(from, to);
    }
    bool copied(pinned*& from, slot*& to, std::exception_ptr problem) noexcept {
        bool wake = false, more = false;
        {
            auto const held = gate_.hold();
            if (problem == nullptr && from->now == pinned::state::copying) {
                // Otherwise the copy is already complete, and the slot may hold another batch.
                from->enqueued = true;
            }
            bool const flies = from->now == pinned::state::copying && idle_ != 0;
            bool const alone = awake_ == 0 && books_.in_flight() == 1;
            // No thread watches this copy.
            bool const unseen = flies && (from->flagged ? !polling_ : alone);
            bool const wanted = consumer_waits_ && !consumer_copies_;
            wake              = wanted || unseen || stopping_ || problem != nullptr;
            books_.copied(*to, std::move(problem));
            more = claim_next(from, to);
        }
        if (wake) { gate_.notify(); }
        return more;
    }
    /// Waits until no thread enqueues a copy; called after `stop`. A thread that releases a batch
    /// may also copy, and nothing joins that thread.
    void await_copier() {
        auto held = gate_.hold();
        gate_.wait(held, [&] { return !books_.copying(); });
    }
    /// Makes the pinned slot `p` empty again; called by the callback after its copy.
    void copy_completed(pinned& p) noexcept {
        bool wake = false;
        {
            auto const held = gate_.hold();
            // Polling found the end of the copy before its callback came.
            if (p.completed_early != 0) {
                --p.completed_early;
                return;
            }
            books_.make_empty(p);
            wake = idle_ != 0;
        }
        if (wake) { gate_.notify(); }
    }
    /// Makes the pinned slot `p` empty again, because polling found its copy complete.
    /// `copy_number` is the number of that copy; a later copy of `p` is not affected.
    void copy_completed_early(pinned& p, std::uint64_t copy_number) noexcept {
        {
            auto const held = gate_.hold();
            if (p.now != pinned::state::copying || p.copy_number != copy_number) { return; }
            if (!p.flagged) { ++p.completed_early; }
            books_.make_empty(p);
        }
        gate_.notify();
    }
    /// Adds `p` to the empty pinned slots again and wakes threads that wait for one.
    void put_back(pinned& p) noexcept {
        {
            auto const held = gate_.hold();
            books_.make_empty(p);
        }
        gate_.notify();
    }
    /// An enqueued copy that is not known to be complete. `which` is its number in its pinned slot,
    /// or 0 if there is no such copy. `over` is an event that completes no earlier than the copy.
    struct copy_in_progress {
        std::uint64_t                   which = 0;
        typename Platform::event const* over  = nullptr;
    };
    copy_in_progress copy_of(pinned const& p) {
        auto const held = gate_.hold();
        if (p.now != pinned::state::copying || !p.enqueued) { return {}; }
        return {p.copy_number, p.over};
    }
    /// Ends the range with the error `why`, because the device has failed. Batches that are not
    /// filled yet never come.
    void fail(std::exception_ptr why) noexcept {
        {
            auto const held = gate_.hold();
            books_.fail(std::move(why));
        }
        gate_.notify();
    }

    /// Removes all empty pinned slots from the table and returns them, so that their times can be
    /// read. `put_back` adds each again.
    slot_queue<pinned> take_empties() noexcept {
        auto const held = gate_.hold();
        complete_flagged(); // at the end no producer polls the completion flags any more
        return books_.take_empties();
    }

    /// Time that a waiting thread stays awake before it sleeps. Small batches take about as long.
    static constexpr std::chrono::microseconds awake{100};
    static constexpr bool                      stays_awake =
        requires(typename Platform::gate& g, guard& held, bool (*ready)()) {
            g.wait_awake(held, awake, ready);
        };
    /// Lets the waiting producers that are awake test their conditions again.
    void notify_awake() noexcept {
        if constexpr (stays_awake) { gate_.notify_awake(); }
    }

    /// Calls `note` with the statistics while the lock is held, to change or read them.
    template <class Note>
    auto note(Note note) {
        auto const held = gate_.hold();
        return note(figures_);
    }

    [[nodiscard]] bool can_copy() const noexcept { return !stopping_ && books_.can_copy(); }
    /// Returns true if a producer must enqueue a copy: a copy is possible, and the consumer is not
    /// waiting for a batch.
    [[nodiscard]] bool        must_copy() const noexcept { return can_copy() && !consumer_waits_; }
    [[nodiscard]] slot_states count_states() const noexcept {
        slot_states n = books_.states();
        n.waiting     = idle_;
        return n;
    }

    loader_options          options_;
    std::vector<slot>       slots_;
    std::vector<pinned>     pinned_;
    typename Platform::gate gate_;
    books                   books_;
    loader_statistics       figures_;
    std::size_t             idle_           = 0; ///< number of producers that wait
    std::size_t             awake_          = 0; ///< number of waiting producers that do not sleep
    std::uint64_t           begun_          = 0; ///< time of the first fill of the epoch
    bool                    consumer_waits_ = false; ///< the consumer waits for a batch
    /// The waiting consumer is copying or filling a slot.
    bool consumer_copies_ = false;
    bool stopping_        = false;
    bool polling_         = false; ///< a producer polls the completion flags
    bool backing_off_     = false; ///< a producer polls for released batches

private:
    bool claim_next(pinned*& from, slot*& to) noexcept {
        if (!can_copy()) { return false; }
        books_.copy(from, to);
        if (books_.take_passed() && idle_ != 0) { gate_.notify(); }
        return true;
    }
    pinned* fill() noexcept {
        start_clock();
        return stopping_ ? nullptr : books_.fill();
    }
    slot* fill_slot() noexcept {
        start_clock();
        return stopping_ ? nullptr : books_.fill_slot();
    }
    void start_clock() {
        if (!books_.begun()) { begun_ = clock::now(); }
    }

    /// Waits as a producer until `there()` is true or the loader stops. If the callback of a copy
    /// is overdue, asks the device about it, because a device that has failed calls no callback.
    template <class There>
    void idle(guard& held, There there) {
        auto const ready = [&] { return stopping_ || there(); };
        if (ready()) { return; }
        complete_flagged();
        if (ready()) { return; }
        auto const    since  = clock::now();
        std::uint64_t looked = since;
        std::uint64_t turn   = 0; // turn of the copy for which this thread last stayed awake
        ++idle_;
        while (!ready()) {
            if (should_poll()) {
                poll_flag(held, ready, looked, turn);
            } else if (books_.in_flight() != 0) {
                if (!gate_.wait_for(held, watchdog, [&] { return ready() || should_poll(); })) {
                    held.unlock();
                    check_copies();
                    held = gate_.hold();
                }
            } else {
                auto const enough = [&] { return ready() || books_.in_flight() != 0; };
                if (wait_awake(held, enough)) { continue; }
                while (!enough() && should_back_off(since)) { back_off(held, enough, since); }
                gate_.wait(held, [&] { return enough() || should_back_off(since); });
            }
        }
        --idle_;
        figures_.slot_ns += clock::now() - since;
    }

    /// Waits for `ready` without sleeping, for the time `awake`. Returns true if it became true.
    template <class Ready>
    bool wait_awake(guard& held, Ready const& ready) {
        if constexpr (stays_awake) {
            ++awake_;
            bool const came = gate_.wait_awake(held, awake, ready);
            --awake_;
            return came;
        } else {
            return false;
        }
    }
    /// Returns true if this producer should poll, with growing pauses, for the release of a device
    /// slot that a filled slot needs. It then enqueues the copy, so that the consumer neither
    /// copies nor wakes another thread. After one second it blocks instead.
    [[nodiscard]] bool should_back_off(std::uint64_t since) {
        if constexpr (stays_awake) {
            return !backing_off_ && books_.waiting() && clock::now() - since < watchdog_ns;
        } else {
            return false;
        }
    }
    template <class Ready>
    void back_off(guard& held, Ready const& ready, std::uint64_t since) {
        constexpr std::uint64_t least = 20'000, most = 1'000'000; // pauses in ns
        std::uint64_t const nap = larger_of(least, smaller_of((clock::now() - since) / 8, most));
        backing_off_            = true;
        ++awake_;
        gate_.wait_for(held, std::chrono::nanoseconds{nap}, ready);
        --awake_;
        backing_off_ = false;
    }
    /// Returns true if this producer should poll the completion flags: a copy with a flag is in
    /// progress, and no other producer polls.
    [[nodiscard]] bool should_poll() {
        if constexpr (completion_flags<Platform>) {
            return !polling_ && oldest_flagged() != nullptr;
        } else {
            return false;
        }
    }
    /// Returns the pinned slot of the oldest copy in progress that has a completion flag, or null.
    [[nodiscard]] pinned* oldest_flagged() noexcept {
        pinned* first = nullptr;
        for (pinned& p : pinned_) {
            bool const flies = p.now == pinned::state::copying && p.enqueued && p.flagged;
            if (flies && (first == nullptr || p.sequence < first->sequence)) { first = &p; }
        }
        return first;
    }
    /// Makes each pinned slot empty if its completion flag shows that its copy is complete.
    void complete_flagged() noexcept {
        if constexpr (completion_flags<Platform>) {
            for (;;) {
                pinned* const p = oldest_flagged();
                if (p == nullptr || !pinned::flag_reached(p->flag, p->copy_number)) { return; }
                books_.make_empty(*p);
            }
        }
    }
    /// Polls the completion flag of the oldest copy, and makes its pinned slot empty when the copy
    /// is complete. One producer polls at a time. The others wait, and one of them polls next.
    template <class Ready>
    void poll_flag(guard& held, Ready const& ready, std::uint64_t& looked, std::uint64_t& turn) {
        pinned&             p           = *oldest_flagged();
        std::uint64_t const copy_number = p.copy_number;
        polling_                        = true;
        ++awake_;
        bool const first = std::exchange(turn, p.sequence) != p.sequence;
        bool const over  = await_mark<Platform>(gate_, held, p, first, ready);
        --awake_;
        polling_ = false;
        if (over) {
            if (p.now == pinned::state::copying && p.copy_number == copy_number) {
                books_.make_empty(p);
            }
        } else if (clock::now() - looked > watchdog_ns) {
            looked = clock::now();
            held.unlock();
            check_copies();
            held = gate_.hold();
        }
        // Wakes another producer, which polls next.
        if (idle_ > 1 && (over || ready())) { gate_.notify(); }
    }

    /// Time after which the device is asked if a copy is complete. A copy takes far less.
    static constexpr std::chrono::seconds watchdog{1};
    static constexpr std::uint64_t        watchdog_ns = std::chrono::nanoseconds{watchdog}.count();

    home_process home_;
};

} // namespace vram
