// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_supply` assigns batches to a loader's blocks, and the copies to its threads.

#include <vram/base/core/report_caught.hpp>
#include <vram/concepts/core/owning_process.hpp>
#include <vram/transfer/core/copy_channel.hpp> // copy_channel, copy_owner
#include <vram/transfer/core/pinned_slot.hpp>  // pinned_slot, has_timing
#include <vram/transfer/core/slot.hpp>
#include <vram/transfer/core/slot_table.hpp>
#include <vram/transfer/core/staged_wait.hpp>
#include <vram/transfer/core/wake_rules.hpp>
#include <vram/transfer/loader_error.hpp>
#include <vram/transfer/loader_options.hpp>
#include <vram/transfer/loader_statistics.hpp>
#include <vram/transfer/platform_clock.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>   // memset
#include <exception> // exception_ptr
#include <optional>  // optional
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// The part of a loader that its producers (threads that fill batches) use: gives them empty
/// blocks, takes the filled ones, and enqueues the copies from pinned to device blocks.
///
/// Threads   Any number of producers. No stream or event is used with the lock held, because a
///           callback may need the lock.
template <class Platform>
class slot_supply : private copy_owner<Platform> {
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

    /// Returns how many blocks of the loader are in each state at this moment. Takes the loader's
    /// lock.
    [[nodiscard]] slot_states states() {
        expect_owning_process();
        auto const held = threads_.hold();
        return count_states();
    }

protected:
    using table                       = slot_table<slot, pinned>;
    static constexpr std::size_t none = table::none;

    using guard = typename staged_wait<Platform>::guard;

    /// Creates the device and pinned blocks and their events, but does not allocate memory for
    /// batches. The copies run on the stream in `copies` or, if `copies` is empty, on a new stream.
    /// `options` must be a result of `loader_core::complete`.
    slot_supply(loader_options const& options, device where, std::optional<stream> copies)
        : options_{options},
          table_{options.pinned_depth, options.device_depth, options.ordered},
          channel_{*this,   threads_,
                   pinned_, where,
                   copies,  {.priority = options.priority, .call_back = options.call_back}} {
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

    /// Throws `loader_error{forked}` in a forked child process, or if the process is ending and its
    /// threads are simulated. Takes no lock, because the child never gets a lock that another
    /// thread held during the fork.
    void expect_owning_process(std::size_t index = 0) const {
        if (!in_owning_process()) { throw loader_error{loader_error::reason::forked, index}; }
    }

    /// The byte with which `loader_options::checker` overwrites blocks. A `float` of such bytes is
    /// NaN, and an unsigned integer is the largest number.
    static constexpr unsigned char poison = 0xFF;

    /// Prepares the pinned block `p` to be filled. If no callback or completion flag reported the
    /// end of the last copy from `p`, waits for that copy. If `checker` is set, overwrites the
    /// block.
    void clear(pinned& p) {
        if (p.in_flight) {
            std::uint64_t const since = clock::now();
            Platform::synchronize(p.copied);
            p.in_flight = false;
            note([&](auto& f) {
                f.pinned_ns += clock::now() - since;
                ++f.host_waits;
            });
        }
        measure(p);
        if (options_.checker) { std::memset(p.memory, poison, options_.batch_bytes); }
    }
    /// Enqueues copies as long as a filled pinned block and a free device block exist. Returns at
    /// once if another thread is enqueueing a copy, or the loader stops.
    void copy_all() noexcept {
        pinned* from = nullptr;
        slot*   to   = nullptr;
        for (bool more = claim(from, to); more;) {
            more = copied(from, to, channel_.upload(*from, *to));
        }
    }

    /// Waits for an empty pinned block, assigns the next batch to it and returns it. Returns null
    /// if no batch is left or the loader stops. During the wait, enqueues copies that are possible.
    /// While the loop's thread waits for a batch, that thread enqueues the copies.
    pinned* await_pinned() {
        for (;;) {
            {
                auto       held   = threads_.hold();
                auto const copies = [&] { return rules_.producer_copies(can_copy()); };
                idle(held, [&] { return copies() || table_.no_more() || table_.can_fill(); });
                if (!copies()) { return fill(); }
            }
            copy_all();
        }
    }
    /// For a loader without producer threads: waits for an empty pinned block, assigns the next
    /// batch to it and returns it. Returns null if a batch is already filled or ready for the loop,
    /// no batch is left, or the loader stops.
    pinned* pinned_now() {
        auto held = threads_.hold();
        if (table_.waiting() || table_.ready()) { return nullptr; }
        idle(held, [&] { return table_.no_more() || table_.can_fill(); });
        return fill();
    }
    /// Waits for a free device block, assigns the next batch to it and returns it. The source then
    /// enqueues the copies of the batch into this block. Returns null if no batch is left or the
    /// loader stops.
    slot* await_slot() {
        auto held = threads_.hold();
        idle(held, [&] { return table_.no_more() || table_.can_fill_slot(); });
        return fill_slot();
    }
    /// For a loader without producer threads: assigns the next batch to a free device block and
    /// returns the block. The source then enqueues the copies of the batch into this block. Returns
    /// null at once if a batch is ready for the loop, no block is free, no batch is left, or the
    /// loader stops.
    slot* slot_now() {
        auto const held = threads_.hold();
        return table_.ready() || !table_.can_fill_slot() ? nullptr : fill_slot();
    }

    /// Called after the source has filled the pinned block `p` in `fill_ns` nanoseconds. If the
    /// loop's thread waits for a batch, it is woken and enqueues the copy of the block. Otherwise
    /// the calling thread enqueues all copies that are possible.
    void filled(pinned& p, std::uint64_t fill_ns) noexcept {
        bool wake = false, passed = false;
        {
            auto const held = threads_.hold();
            figures_.fill_ns += fill_ns;
            table_.filled(p);
            wake   = rules_.consumer_waits();
            passed = table_.take_passed() && threads_.waiting().idle != 0;
        }
        if (wake || passed) { threads_.notify(); }
        if (!wake) { copy_all(); }
    }
    /// Leaves out the short batch in the block `s` (`last_batch::drop`), which took `fill_ns`
    /// nanoseconds to fill. The statistics count the batch and this time.
    template <class Either>
    void left_out(Either& s, std::uint64_t fill_ns) noexcept {
        {
            auto const held = threads_.hold();
            figures_.fill_ns += fill_ns;
            ++figures_.left_out;
            table_.left_out(s);
            (void)table_.take_passed();
        }
        threads_.notify();
    }
    /// Makes the loop end before the batch of the block `s`, unless the loop already ends earlier.
    /// `why`: exception that the loop throws there, or null if the source has no further batch.
    template <class Either>
    void ended(Either& s, std::exception_ptr why) noexcept {
        {
            auto const held = threads_.hold();
            table_.ended(s, std::move(why));
        }
        threads_.notify();
    }
    /// Makes the batch in the device block `s` available to the loop. The source itself has
    /// enqueued the copies into the block. `fill_ns`: nanoseconds of host time for this.
    void posted(slot& s, std::uint64_t fill_ns) noexcept {
        bool wake = false;
        {
            auto const held = threads_.hold();
            figures_.fill_ns += fill_ns;
            table_.copied(s, nullptr);
            wake = rules_.consumer_waits();
        }
        if (wake) { threads_.notify(); }
    }

    /// Removes and returns a device block that the loop does not hold. The caller uses the block
    /// only to learn the size of batch `index`, and then returns it by `put_spare`. Throws
    /// `loader_error{all_held}` if the loop holds all device blocks.
    slot& take_spare(std::size_t index) {
        auto const  held = threads_.hold();
        slot* const s    = table_.take_spare();
        if (s == nullptr) {
            std::size_t const all = slots_.size();
            throw loader_error{loader_error::reason::all_held, index, all, all};
        }
        return *s;
    }
    void put_spare(slot& s) noexcept {
        auto const held = threads_.hold();
        table_.put_spare(s);
    }

    /// Waits until no thread is enqueueing a copy. It does not suffice to join the producers,
    /// because a thread of the program may enqueue a copy when it releases a batch.
    void await_copier() {
        auto held = threads_.hold();
        threads_.wait(held, [&] { return !table_.copying(); });
    }
    /// Returns true if the device may still access one of the pinned blocks: a copy failed, and the
    /// wait for the end of that copy failed too.
    [[nodiscard]] bool copies_unknown() const noexcept {
        for (pinned const& p : pinned_) {
            if (p.end_unknown) { return true; }
        }
        return false;
    }
    /// Blocks the calling thread until all copies from pinned to device blocks are complete and
    /// their callbacks have returned. Throws errors of the platform.
    void await_copies() {
        channel_.await_all();
        for (pinned& p : pinned_) { p.end_unknown = false; }
    }
    /// Adds the durations of complete copies to the statistics, if they are not included yet.
    /// Examines only the last copy from each pinned block that is empty.
    void measure_empties() {
        for (auto all = take_empties(); pinned* const p = all.pop();) {
            try {
                if (p->unmeasured && Platform::done(p->copied)) { measure(*p); }
            } catch (...) {
                report_caught({.kind     = error_kind::platform_error,
                               .pointer  = p->memory,
                               .resource = "loader",
                               .call     = "the timing of a copy"});
            }
            put_back(*p);
        }
    }

    /// Calls `note` with the loader's statistics, to change or read them, while the lock is held.
    /// Returns the result of `note`.
    template <class Note>
    auto note(Note note) {
        auto const held = threads_.hold();
        return note(figures_);
    }

    [[nodiscard]] bool can_copy() const noexcept { return !rules_.stopping() && table_.can_copy(); }
    [[nodiscard]] slot_states count_states() noexcept {
        // Without this call, blocks would count as copying although their copies are complete.
        channel_.complete_flagged();
        slot_states n = table_.states();
        n.waiting     = threads_.waiting().idle;
        return n;
    }

    loader_options         options_;
    std::vector<slot>      slots_;
    std::vector<pinned>    pinned_;
    staged_wait<Platform>  threads_;
    wake_rules             rules_;
    table                  table_;
    copy_channel<Platform> channel_;
    loader_statistics      figures_;
    /// Time (`clock::now()`) at which the first batch of the current pass over the source was
    /// assigned to a block, to be filled.
    std::uint64_t begun_ = 0;

private:
    /// Takes a filled pinned block `from` and a free device block `to`. The caller then enqueues
    /// the copy between these blocks. Returns false if no copy can begin now.
    bool claim(pinned*& from, slot*& to) noexcept {
        auto const held = threads_.hold();
        return claim_next(from, to);
    }
    /// Called after an attempt to enqueue the copy from `from` to `to`. `problem`: exception of the
    /// attempt, or null. If another copy can begin now, sets `from` and `to` to its blocks and
    /// returns true. Otherwise returns false.
    bool copied(pinned*& from, slot*& to, std::exception_ptr problem) noexcept {
        bool wake = false, more = false;
        {
            auto const held   = threads_.hold();
            bool const failed = problem != nullptr;
            bool const flies  = !failed && channel_.enqueued(*from);
            wake = rules_.wakes_after_copy(flies, from->flagged, channel_.in_progress(), failed,
                                           threads_.waiting());
            table_.copied(*to, std::move(problem));
            more = claim_next(from, to);
        }
        if (wake) { threads_.notify(); }
        return more;
    }
    bool claim_next(pinned*& from, slot*& to) noexcept {
        if (!can_copy()) { return false; }
        table_.copy(from, to);
        channel_.begin(*from);
        if (table_.take_passed() && threads_.waiting().idle != 0) { threads_.notify(); }
        return true;
    }
    pinned* fill() noexcept {
        start_clock();
        return rules_.stopping() ? nullptr : table_.fill();
    }
    slot* fill_slot() noexcept {
        start_clock();
        return rules_.stopping() ? nullptr : table_.fill_slot();
    }
    void start_clock() {
        if (!table_.begun()) { begun_ = clock::now(); }
    }

    /// Blocks a thread that fills batches until `there()` returns true or the loader stops. The
    /// lock `held` is released meanwhile. Adds the waiting time to `loader_statistics::slot_ns`.
    template <class There>
    void idle(guard& held, There const& there) {
        figures_.slot_ns += threads_.wait_eagerly(
            held, channel_, [&] { return rules_.stopping() || there(); },
            [&] { return table_.waiting(); });
    }

    void measure(pinned& p) {
        if constexpr (has_timing<Platform>) {
            if (!p.unmeasured) { return; }
            auto const ns = static_cast<std::uint64_t>(Platform::elapsed(p.begun, p.copied));
            p.unmeasured  = false;
            note([&](auto& f) { f.copy_ns += ns; });
        }
    }
    /// Makes the pinned block `p` empty again and wakes threads that wait for one.
    void put_back(pinned& p) noexcept {
        {
            auto const held = threads_.hold();
            table_.make_empty(p);
        }
        threads_.notify();
    }
    /// Removes and returns all empty pinned blocks. No producer can then fill these blocks while
    /// the caller reads their events without the lock. The caller must return each block by
    /// `put_back`.
    slot_queue<pinned> take_empties() noexcept {
        auto const held = threads_.hold();
        // Without this call, blocks with complete copies could be missing in the result.
        channel_.complete_flagged();
        return table_.take_empties();
    }

    void copy_ended(pinned& p) noexcept final { table_.make_empty(p); }
    /// Called with the lock held if the device has failed. The loop then throws `why` after the
    /// last batch that is already assigned to a block, unless the loop ends there or earlier.
    void device_failed(std::exception_ptr why) noexcept final { table_.fail(std::move(why)); }

    owning_process owner_;
};

} // namespace detail
} // namespace vram
