// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_supply` assigns batches to a loader's blocks, and lets producers wait and enqueue copies.

#include <vram/base/core/durations.hpp>          // microseconds, nanoseconds, seconds
#include <vram/base/core/gate.hpp>               // the gate of platforms where time is real
#include <vram/base/core/smaller_of.hpp>         // larger_of, smaller_of
#include <vram/base/core/worker.hpp>             // their thread
#include <vram/concepts/completion_flags.hpp>    // completion_flags
#include <vram/concepts/core/owning_process.hpp> // owning_process
#include <vram/transfer/core/await_flag.hpp>     // await_flag
#include <vram/transfer/core/pinned_slot.hpp>    // pinned_slot
#include <vram/transfer/core/slot.hpp>           // slot
#include <vram/transfer/core/slot_table.hpp>     // slot_table
#include <vram/transfer/loader_error.hpp>        // loader_error
#include <vram/transfer/loader_options.hpp>      // loader_options
#include <vram/transfer/loader_statistics.hpp>   // loader_statistics
#include <vram/transfer/platform_clock.hpp>      // platform_clock

#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <exception> // exception_ptr
#include <utility>   // move, exchange, declval
#include <vector>    // vector

namespace vram {
namespace detail {

/// Operations of a loader's producers (threads that fill batches) and copies on its blocks. When a
/// filled pinned block and a free device block exist, the thread that completed the pair enqueues
/// the copy (`copy_all`). If the consumer (the thread of the loop) is waiting for a batch, it
/// enqueues the copy instead.
///
/// Threads   Any number of producers. No function of the platform is called while the lock `gate_`
///           is held, because a callback may need the lock.
/// Cost      Each step takes the lock once. It wakes only threads that can proceed.
template <class Platform>
class slot_supply {
public:
    using slot   = detail::slot<Platform>;
    using pinned = pinned_slot<Platform>;
    using stream = typename Platform::stream;
    using device = typename Platform::device;
    using clock  = platform_clock<Platform>;

    slot_supply(slot_supply const&)            = delete;
    slot_supply& operator=(slot_supply const&) = delete;

    [[nodiscard]] bool in_owning_process() const noexcept {
        return owner_.is_current() && !threads_stand_still<Platform>();
    }

    /// Returns how many blocks of the loader are in each state at this moment.
    [[nodiscard]] slot_states states() {
        expect_owning_process();
        auto const held = gate_.hold();
        return count_states();
    }

protected:
    using table                       = slot_table<slot, pinned>;
    static constexpr std::size_t none = table::none;

    using guard = decltype(std::declval<typename Platform::gate&>().hold());

    /// Creates the slots. Defaults (0) in `options` must have been replaced by numbers.
    slot_supply(loader_options const& options, device where)
        : options_{options}, table_{options.pinned_depth, options.device_depth, options.ordered} {
        slots_.reserve(options.device_depth);
        pinned_.reserve(options.pinned_depth);
        for (std::size_t i = 0; i < options.device_depth; ++i) {
            table_.add(slots_.emplace_back(where));
        }
        for (std::size_t i = 0; i < options.pinned_depth; ++i) {
            table_.add(pinned_.emplace_back(where, options.timing));
        }
    }
    ~slot_supply() = default;

    /// Throws `loader_error{forked}` in a forked child. A child must not even lock the mutex, which
    /// another thread of the parent may have held at the fork.
    void expect_owning_process(std::size_t index = 0) const {
        if (!in_owning_process()) { throw loader_error{loader_error::reason::forked, index}; }
    }

    /// Enqueues copies as long as a filled pinned slot and a free device slot exist (`claim`).
    virtual void copy_all() noexcept = 0;
    /// Queries the event of each copy that has not called back yet.
    virtual void check_copies() noexcept = 0;

    /// Waits for an empty pinned block and assigns the next batch to it. While it waits, the
    /// calling producer enqueues copies. Returns null if there is no further batch.
    pinned* await_pinned() {
        for (;;) {
            {
                auto held = gate_.hold();
                idle(held, [&] { return must_copy() || table_.no_more() || table_.can_fill(); });
                if (!must_copy()) { return fill(); }
            }
            copy_all();
        }
    }
    /// Assigns the next batch to a pinned block, for a loader without producer threads. Returns
    /// null if a batch is filled or ready, or if there is no further batch. Waits at most until one
    /// copy is complete and its block empty.
    pinned* pinned_now() {
        auto held = gate_.hold();
        if (table_.waiting() || table_.ready()) { return nullptr; }
        idle(held, [&] { return table_.no_more() || table_.can_fill(); });
        return fill();
    }
    /// Waits for a free device block and assigns the next batch to it. The caller makes the source
    /// enqueue its copies and then calls `posted`. Returns null if there is no further batch.
    slot* await_slot() {
        auto held = gate_.hold();
        idle(held, [&] { return table_.no_more() || table_.can_fill_slot(); });
        return fill_slot();
    }
    /// Assigns the next batch to a free device block, for a loader without producer threads. Does
    /// not wait. Returns null if no block is free, if a batch is ready, or if there is no further
    /// batch.
    slot* slot_now() {
        auto const held = gate_.hold();
        return table_.ready() || !table_.can_fill_slot() ? nullptr : fill_slot();
    }

    /// Records that the source has filled the pinned block `p` in `fill_ns` nanoseconds. Enqueues
    /// its copy, or wakes the waiting consumer, which then enqueues it.
    void filled(pinned& p, std::uint64_t fill_ns) noexcept {
        bool wake = false, passed = false;
        {
            auto const held = gate_.hold();
            figures_.fill_ns += fill_ns;
            table_.filled(p);
            // Wake the waiting consumer: it copies this block, or it detects that no batch follows.
            wake   = consumer_waits_;
            passed = table_.take_passed() && idle_ != 0;
        }
        if (wake || passed) { gate_.notify(); }
        if (!wake) { copy_all(); }
    }
    /// Makes the pinned or device block `s` empty again, because its batch is left out: the loop
    /// gets the next batch in its place.
    template <class Either>
    void left_out(Either& s, std::uint64_t fill_ns) noexcept {
        {
            auto const held = gate_.hold();
            figures_.fill_ns += fill_ns;
            ++figures_.left_out;
            table_.left_out(s);
            (void)table_.take_passed();
        }
        gate_.notify();
    }
    /// Lets the loop end before the batch of the pinned or device block `s`, because the source has
    /// no batch or threw `why`, which is null if it did not throw.
    template <class Either>
    void ended(Either& s, std::exception_ptr why) noexcept {
        {
            auto const held = gate_.hold();
            table_.ended(s, std::move(why));
        }
        gate_.notify();
    }
    /// Makes the batch in the device block `s` available to the loop: its copies are enqueued.
    void posted(slot& s, std::uint64_t fill_ns) noexcept {
        bool wake = false;
        {
            auto const held = gate_.hold();
            figures_.fill_ns += fill_ns;
            table_.copied(s, nullptr);
            wake = consumer_waits_;
        }
        if (wake) { gate_.notify(); }
    }

    /// Takes a filled pinned block `from` and a free device block `to`, between which the calling
    /// thread then copies. Returns false if there is no such pair, or if another thread is copying.
    /// The caller then calls `copied`, which ends the copy and takes the next pair.
    bool claim(pinned*& from, slot*& to) noexcept {
        auto const held = gate_.hold();
        return claim_next(from, to);
    }
    bool copied(pinned*& from, slot*& to, std::exception_ptr problem) noexcept {
        bool wake = false, more = false;
        {
            auto const held = gate_.hold();
            if (problem == nullptr && from->now == pinned::state::copying) {
                // Not set if the copy is complete already: the block may then contain another
                // batch.
                from->enqueued = true;
            }
            bool const flies = from->now == pinned::state::copying && idle_ != 0;
            bool const alone = awake_ == 0 && table_.in_flight() == 1;
            // True if no thread waits for or polls the end of this copy.
            bool const unseen = flies && (from->flagged ? !polling_ : alone);
            bool const wanted = consumer_waits_ && !consumer_copies_;
            wake              = wanted || unseen || stopping_ || problem != nullptr;
            table_.copied(*to, std::move(problem));
            more = claim_next(from, to);
        }
        if (wake) { gate_.notify(); }
        return more;
    }
    /// Waits until no thread is enqueueing a copy; called after `stop`. The copying thread may be
    /// one that released a batch, which nothing joins.
    void await_copier() {
        auto held = gate_.hold();
        gate_.wait(held, [&] { return !table_.copying(); });
    }
    /// Makes the pinned block `p` empty again; called by the callback after its copy.
    void copy_completed(pinned& p) noexcept {
        bool wake = false;
        {
            auto const held = gate_.hold();
            // The block was made empty before this callback ran, by an event query.
            if (p.completed_early != 0) {
                --p.completed_early;
                return;
            }
            table_.make_empty(p);
            wake = idle_ != 0;
        }
        if (wake) { gate_.notify(); }
    }
    /// Makes the pinned block `p` empty again, because an event query showed that its copy with the
    /// number `copy_number` is complete. Does nothing if `p` has begun another copy since.
    void copy_completed_early(pinned& p, std::uint64_t copy_number) noexcept {
        {
            auto const held = gate_.hold();
            if (p.now != pinned::state::copying || p.copy_number != copy_number) { return; }
            if (!p.flagged) { ++p.completed_early; }
            table_.make_empty(p);
        }
        gate_.notify();
    }
    /// Makes the pinned block `p` empty again and wakes threads that wait for one.
    void put_back(pinned& p) noexcept {
        {
            auto const held = gate_.hold();
            table_.make_empty(p);
        }
        gate_.notify();
    }
    /// An enqueued copy that is not known to be complete. `which` is the number of the copy among
    /// those of its pinned block, or 0 if there is no such copy. `over` is an event that completes
    /// no earlier than the copy.
    struct copy_in_progress {
        std::uint64_t                   which = 0;
        typename Platform::event const* over  = nullptr;
    };
    copy_in_progress copy_of(pinned const& p) {
        auto const held = gate_.hold();
        if (p.now != pinned::state::copying || !p.enqueued) { return {}; }
        return {p.copy_number, p.over};
    }
    /// Lets the loop end with the exception `why`, because the device has failed. Batches that are
    /// not assigned to a block yet are not produced.
    void fail(std::exception_ptr why) noexcept {
        {
            auto const held = gate_.hold();
            table_.fail(std::move(why));
        }
        gate_.notify();
    }

    /// Removes all empty pinned blocks from the queue and returns them, so that the times of their
    /// copies can be read. `put_back` returns each to the queue.
    slot_queue<pinned> take_empties() noexcept {
        auto const held = gate_.hold();
        complete_flagged(); // at the end of a range no producer polls the completion flags
        return table_.take_empties();
    }

    /// The time for which a waiting thread polls before it sleeps: about that of a small batch.
    static constexpr std::chrono::microseconds awake{100};
    static constexpr bool                      stays_awake =
        requires(typename Platform::gate& g, guard& held, bool (*ready)()) {
            g.wait_awake(held, awake, ready);
        };
    /// Makes the waiting producers that poll evaluate their conditions again.
    void notify_awake() noexcept {
        if constexpr (stays_awake) { gate_.notify_awake(); }
    }

    /// Calls `note` with the loader's statistics, to change or read them, while the lock is held.
    template <class Note>
    auto note(Note note) {
        auto const held = gate_.hold();
        return note(figures_);
    }

    [[nodiscard]] bool can_copy() const noexcept { return !stopping_ && table_.can_copy(); }
    /// Returns true if a waiting producer must enqueue a copy: a pair of blocks is available, and
    /// the consumer is not waiting for a batch.
    [[nodiscard]] bool        must_copy() const noexcept { return can_copy() && !consumer_waits_; }
    [[nodiscard]] slot_states count_states() const noexcept {
        slot_states n = table_.states();
        n.waiting     = idle_;
        return n;
    }

    loader_options          options_;
    std::vector<slot>       slots_;
    std::vector<pinned>     pinned_;
    typename Platform::gate gate_;
    table                   table_;
    loader_statistics       figures_;
    std::size_t             idle_ = 0; ///< number of producers that wait
    /// Number of waiting producers that poll instead of sleeping.
    std::size_t awake_ = 0;
    /// Time of the first fill in this pass over the source.
    std::uint64_t begun_ = 0;
    /// True while the consumer, the thread of the loop, waits for a batch.
    bool consumer_waits_ = false;
    /// True while the waiting consumer enqueues a copy or fills a block.
    bool consumer_copies_ = false;
    bool stopping_        = false;
    bool polling_         = false; ///< true while a producer polls the completion flags
    bool backing_off_     = false; ///< true while a producer polls for released batches

private:
    bool claim_next(pinned*& from, slot*& to) noexcept {
        if (!can_copy()) { return false; }
        table_.copy(from, to);
        if (table_.take_passed() && idle_ != 0) { gate_.notify(); }
        return true;
    }
    pinned* fill() noexcept {
        start_clock();
        return stopping_ ? nullptr : table_.fill();
    }
    slot* fill_slot() noexcept {
        start_clock();
        return stopping_ ? nullptr : table_.fill_slot();
    }
    void start_clock() {
        if (!table_.begun()) { begun_ = clock::now(); }
    }

    /// Waits, as a producer, until `there()` returns true or the loader stops. A failed device
    /// calls no callbacks: if the callback of a copy has not run after one second, queries the
    /// event of the copy, which then returns the error.
    template <class There>
    void idle(guard& held, There there) {
        auto const ready = [&] { return stopping_ || there(); };
        if (ready()) { return; }
        complete_flagged();
        if (ready()) { return; }
        auto const    since  = clock::now();
        std::uint64_t looked = since;
        // Number of the copy polled last: the flag of a new one is first polled without sleeping.
        std::uint64_t turn = 0;
        ++idle_;
        while (!ready()) {
            if (should_poll()) {
                poll_flag(held, ready, looked, turn);
            } else if (table_.in_flight() != 0) {
                if (!gate_.wait_for(held, watchdog, [&] { return ready() || should_poll(); })) {
                    held.unlock();
                    check_copies();
                    held = gate_.hold();
                }
            } else {
                auto const enough = [&] { return ready() || table_.in_flight() != 0; };
                if (wait_awake(held, enough)) { continue; }
                while (!enough() && should_back_off(since)) { back_off(held, enough, since); }
                gate_.wait(held, [&] { return enough() || should_back_off(since); });
            }
        }
        --idle_;
        figures_.slot_ns += clock::now() - since;
    }

    /// Polls until `ready()` returns true, at most for the time `awake`. Returns the last result.
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
    /// Returns true if this producer should poll, with increasing pauses, for the release of a
    /// device block that a filled pinned block needs. The producer then enqueues the copy, so that
    /// the consumer neither copies nor wakes another thread. After one second it blocks.
    [[nodiscard]] bool should_back_off(std::uint64_t since) {
        if constexpr (stays_awake) {
            return !backing_off_ && table_.waiting() && clock::now() - since < watchdog_ns;
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
    /// Returns the pinned block of the oldest copy in progress that has a completion flag (a word
    /// in pinned memory that the device writes after the copy), or null.
    [[nodiscard]] pinned* oldest_flagged() noexcept {
        pinned* first = nullptr;
        for (pinned& p : pinned_) {
            bool const flies = p.now == pinned::state::copying && p.enqueued && p.flagged;
            if (flies && (first == nullptr || p.sequence < first->sequence)) { first = &p; }
        }
        return first;
    }
    /// Makes each pinned block empty if its completion flag shows that its copy is complete.
    void complete_flagged() noexcept {
        if constexpr (completion_flags<Platform>) {
            for (;;) {
                pinned* const p = oldest_flagged();
                if (p == nullptr || !pinned::flag_reached(p->flag, p->copy_number)) { return; }
                table_.make_empty(*p);
            }
        }
    }
    /// Polls the completion flag of the oldest copy, and makes its pinned block empty when the copy
    /// is complete. One producer at a time polls; the others wait, and one of them polls next.
    template <class Ready>
    void poll_flag(guard& held, Ready const& ready, std::uint64_t& looked, std::uint64_t& turn) {
        pinned&             p           = *oldest_flagged();
        std::uint64_t const copy_number = p.copy_number;
        polling_                        = true;
        ++awake_;
        bool const first = std::exchange(turn, p.sequence) != p.sequence;
        bool const over  = await_flag<Platform>(gate_, held, p, first, ready);
        --awake_;
        polling_ = false;
        if (over) {
            if (p.now == pinned::state::copying && p.copy_number == copy_number) {
                table_.make_empty(p);
            }
        } else if (clock::now() - looked > watchdog_ns) {
            looked = clock::now();
            held.unlock();
            check_copies();
            held = gate_.hold();
        }
        // Another producer polls next.
        if (idle_ > 1 && (over || ready())) { gate_.notify(); }
    }

    /// The time after which the event of a copy is queried, because the device may have failed.
    static constexpr std::chrono::seconds watchdog{1};
    static constexpr std::uint64_t        watchdog_ns = std::chrono::nanoseconds{watchdog}.count();

    owning_process owner_;
};

} // namespace detail
} // namespace vram
