// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_table` records the state of each block (slot) of a loader, and the next batch.

#include <vram/transfer/core/index_order.hpp>
#include <vram/transfer/core/slot_order.hpp>
#include <vram/transfer/core/slot_queue.hpp>
#include <vram/transfer/slot_states.hpp>

#include <cstddef>
#include <exception> // exception_ptr
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// Queues of a loader's blocks by state, and the number of batches as far as it is known. Pinned
/// blocks are in turn empty, filling, filled and copying; device blocks are in turn free, ready
/// (for the loop) and held (by the loop).
///
/// Threads   One thread at a time; the caller holds the loader's lock.
template <class Slot, class Pinned>
class slot_table {
public:
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    slot_table(std::size_t pinned, std::size_t device, bool ordered)
        : filled_{pinned, ordered}, slots_{device} {
        pinned_.reserve(pinned);
    }

    /// Adds a free device block, or an empty pinned block. All blocks must be added before any
    /// other function is called.
    void add(Slot& s) noexcept { free_.push(s); }
    void add(Pinned& p) {
        pinned_.push_back(&p);
        empty_.push(p);
    }

    /// Begins a pass over the source. `batches`: number of batches to request, or `none` if it is
    /// unknown. `order`: the source's indices of these batches. No thread may be filling or
    /// copying.
    void begin(std::size_t batches, index_order order) noexcept {
        order_ = std::move(order);
        error_ = nullptr;
        end_   = batches;
        index_ = 0;
        filled_.clear();
        empty_ = {};
        for (Pinned* const p : pinned_) { make_empty(*p); }
        while (Slot* const s = ready_.pop()) { free_.push(*s); }
        copying_ = false;
    }

    // `can_fill`: true if a pinned block is empty. `can_fill_slot`: true if a device block is free.
    // `no_more`: true if all batches of this pass over the source are assigned to blocks. `begun`:
    // true if the first batch of this pass is assigned to a block.
    [[nodiscard]] bool can_fill() const noexcept { return !empty_.empty(); }
    [[nodiscard]] bool can_fill_slot() const noexcept { return !free_.empty(); }
    [[nodiscard]] bool no_more() const noexcept { return index_ >= end_; }
    [[nodiscard]] bool begun() const noexcept { return index_ != 0; }

    /// Assigns the next batch to an empty pinned block, which must exist, and returns the block.
    /// Returns null if there is no further batch.
    Pinned* fill() noexcept {
        if (no_more()) { return nullptr; }
        Pinned& p = *empty_.pop();
        p.now     = Pinned::state::filling;
        return &assign(p);
    }
    void filled(Pinned& p) noexcept {
        bool const wanted = p.index < end_;
        p.now             = wanted ? Pinned::state::filled : Pinned::state::empty;
        if (wanted) { filled_.push(p); }
        pass_over();
    }
    /// Marks the batch in the pinned block `p` as left out, so that the batch is not copied. The
    /// block becomes empty when it reaches the front of the queue of filled blocks.
    void left_out(Pinned& p) noexcept {
        p.left_out = true;
        filled(p);
    }
    void left_out(Slot& s) noexcept {
        copying_ = false;
        free_.push(s);
    }
    /// Returns true if a pinned block has become empty since the last call because its batch was
    /// left out (`last_batch::drop`). Producers that wait for an empty block must then be woken.
    [[nodiscard]] bool take_passed() noexcept { return std::exchange(passed_, false); }
    /// Makes the loop end before the batch of the pinned block `p`, unless the loop already ends
    /// earlier. `why`: exception that the loop throws there, or null if the source has no further
    /// batch.
    void ended(Pinned& p, std::exception_ptr why) noexcept {
        p.now = Pinned::state::empty;
        end_at(p.index, std::move(why));
    }
    /// Assigns the next batch to a free device block, which must exist. Returns null if there is no
    /// further batch.
    Slot* fill_slot() noexcept {
        if (no_more()) { return nullptr; }
        copying_ = true;
        return &assign(*free_.pop());
    }

    /// Returns true if a copy can begin: the next batch is filled, a device block is free, and no
    /// other copy is being enqueued.
    [[nodiscard]] bool can_copy() const noexcept {
        return !copying_ && !free_.empty() && filled_.front() != nullptr;
    }
    /// Sets `from` to the pinned block with the next filled batch and `to` to a free device block.
    /// The calling thread then enqueues the copy between these blocks. `can_copy()` must be true.
    void copy(Pinned*& from, Slot*& to) noexcept {
        from = filled_.pop();
        to   = free_.pop();
        pass_over();
        from->now = Pinned::state::copying;
        to->index = from->index;
        copying_  = true;
    }
    /// Returns true if a thread is enqueueing a copy into a device block, or if a source that
    /// enqueues its own copies is doing so.
    [[nodiscard]] bool copying() const noexcept { return copying_; }
    /// Called after the copy into the device block `s` was enqueued or failed. If `problem` is
    /// null, the loop can get the batch. Otherwise the loop throws `problem` in place of the batch,
    /// unless the loop ends earlier.
    void copied(Slot& s, std::exception_ptr problem) noexcept {
        copying_ = false;
        if (problem == nullptr) { return ready_.push(s); }
        // The block is free at once, although a part of the failed copy may still run. A later copy
        // into the block runs after that part, because both run on the same stream.
        free_.push(s);
        end_at(s.index, std::move(problem));
    }
    /// Makes the loop end before the batch of the device block `s`, unless the loop already ends
    /// earlier. `why`: exception that the loop throws there, or null if the source has no further
    /// batch.
    void ended(Slot& s, std::exception_ptr why) noexcept {
        copying_ = false;
        free_.push(s);
        end_at(s.index, std::move(why));
    }
    /// Removes and returns a device block that the loop does not hold, or returns null. Called only
    /// before a pass over the source begins, because the block may hold a ready batch of the pass
    /// before.
    Slot* take_spare() noexcept { return free_.empty() ? ready_.pop() : free_.pop(); }
    void  put_spare(Slot& s) noexcept { free_.push(s); }
    /// Makes the pinned block `p` empty, so that a producer can fill it with another batch.
    void make_empty(Pinned& p) noexcept {
        p.now      = Pinned::state::empty;
        p.left_out = false;
        empty_.push(p);
    }
    slot_queue<Pinned> take_empties() noexcept { return std::exchange(empty_, {}); }

    // `ready`: true if a device block holds a batch that the loop has not taken. The copy of the
    // batch into this block may not have ended. `waiting`: true if a pinned block contains the
    // batch that is to be copied next.
    [[nodiscard]] bool ready() const noexcept { return !ready_.empty(); }
    [[nodiscard]] bool waiting() const noexcept { return filled_.front() != nullptr; }

    Slot* take() noexcept {
        Slot* const s = ready_.pop();
        if (s != nullptr) { ++held_; }
        return s;
    }
    void give(Slot& s) noexcept {
        --held_;
        free_.push(s);
    }
    /// Returns true if the next batch cannot be delivered because the loop holds all device blocks.
    /// If the loader has pinned blocks, returns false until the next batch is filled.
    [[nodiscard]] bool all_held() const noexcept {
        return held_ == slots_ && (pinned_.empty() || waiting());
    }
    /// Returns true if no further batch of this pass over the source will become ready. The loop
    /// can then get only the batches that are ready now.
    [[nodiscard]] bool exhausted() const noexcept {
        if (end_ == none || copying_ || index_ < end_) { return false; }
        for (Pinned const* const p : pinned_) {
            bool const on_its_way =
                p->now == Pinned::state::filling || p->now == Pinned::state::filled;
            if (on_its_way && p->index < end_) { return false; }
        }
        return true;
    }
    /// Makes the loop throw `why` after the last batch that is already assigned to a block. Does
    /// nothing if the loop already ends there or earlier.
    void fail(std::exception_ptr why) noexcept { end_at(index_, std::move(why)); }
    /// Returns the exception with which the loop ends, or null if there is none. Also clears the
    /// stored exception, so that a second call returns null.
    std::exception_ptr error() noexcept { return std::exchange(error_, nullptr); }

    [[nodiscard]] slot_states states() const noexcept {
        slot_states n;
        for (Pinned const* const p : pinned_) {
            ++(p->now == Pinned::state::empty     ? n.empty
               : p->now == Pinned::state::filling ? n.filling
               : p->now == Pinned::state::filled  ? n.filled
                                                  : n.copying);
        }
        n.unused = free_.size();
        n.ready  = ready_.size();
        n.held   = held_;
        return n;
    }

private:
    template <class Either>
    Either& assign(Either& s) noexcept {
        s.index = index_++;
        s.asked = order_[s.index];
        return s;
    }
    /// Removes batches that are left out (`last_batch::drop`) from the front of the queue of filled
    /// pinned blocks, and makes their blocks empty.
    void pass_over() noexcept {
        for (Pinned* p = filled_.front(); p != nullptr && p->left_out; p = filled_.front()) {
            make_empty(*filled_.pop());
            passed_ = true;
        }
    }
    /// Makes the loop end before batch `index`, unless the loop already ends there or earlier. If
    /// `why` is not null, the loop throws `why` in place of batch `index`.
    void end_at(std::size_t index, std::exception_ptr why) noexcept {
        if (index >= end_) { return; }
        end_   = index;
        error_ = std::move(why);
        filled_.drop_from(index);
    }

    std::vector<Pinned*> pinned_;
    index_order          order_;
    slot_queue<Pinned>   empty_;
    slot_order<Pinned>   filled_;
    slot_queue<Slot>     free_;
    slot_queue<Slot>     ready_;
    /// The exception that the loop throws in place of the batch with index `end_`. Null if there is
    /// none, or if `error()` has returned it.
    std::exception_ptr error_;
    /// The loop ends before the batch with this index. `none` if the end is not known yet.
    std::size_t end_   = none;
    std::size_t index_ = 0; ///< index of the next batch to be assigned to a block
    /// Number of device blocks that the loop holds: `take` returned them, and `give` has not made
    /// them free again.
    std::size_t held_  = 0;
    std::size_t slots_ = 0; ///< number of all device blocks
    /// True while a thread enqueues a copy into a device block, or a source that enqueues its own
    /// copies does so. No other thread begins a copy during this time.
    bool copying_ = false;
    /// True if a pinned block has become empty because its batch was left out (`last_batch::drop`).
    /// `take_passed` sets this to false.
    bool passed_ = false;
};

} // namespace detail
} // namespace vram
