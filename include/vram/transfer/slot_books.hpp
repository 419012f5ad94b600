// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_books` says which block is whose, and which batch comes next: the ring's rules.

#include <vram/transfer/index_order.hpp> // index_order
#include <vram/transfer/slot_order.hpp>  // slot_order
#include <vram/transfer/slot_queue.hpp>  // slot_queue
#include <vram/transfer/slot_states.hpp> // slot_states

#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <exception> // exception_ptr
#include <utility>   // move, exchange
#include <vector>    // vector

namespace vram {

/// The slots of a ring, in queues by what they wait for, and the end of the range as far as it is
/// known. Pinned slots go round: empty, filling, filled, copying, empty; slots on the device: free,
/// ready, held, free. There may be no pinned slots: then those on the device are filled themselves.
///
/// Failure   an allocation, in the constructor alone
/// Threads   one at a time
/// Cost      constant; near the end a look at every pinned slot
template <class Slot, class Pinned>
class slot_books {
public:
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    slot_books(std::size_t pinned, std::size_t device, bool ordered)
        : filled_{pinned, ordered}, slots_{device} {
        pinned_.reserve(pinned);
    }

    /// The slots, once, before anything else.
    void add(Slot& s) noexcept { free_.push(s); }
    void add(Pinned& p) {
        pinned_.push_back(&p);
        empty_.push(p);
    }

    /// A new epoch of `batches` batches (`none`: not known) that are asked for in `order`; nothing
    /// is being filled or copied.
    void begin(std::size_t batches, index_order order) noexcept {
        order_ = std::move(order);
        error_ = nullptr;
        end_   = batches;
        index_ = 0;
        filled_.clear();
        empty_ = {};
        for (Pinned* const p : pinned_) { land(*p); }
        while (Slot* const s = ready_.pop()) { free_.push(*s); }
        copying_ = false;
    }

    // Producers.
    [[nodiscard]] bool can_fill() const noexcept { return !empty_.empty(); }
    [[nodiscard]] bool can_fill_slot() const noexcept { return !free_.empty(); }
    [[nodiscard]] bool no_more() const noexcept { return index_ >= end_; }
    [[nodiscard]] bool begun() const noexcept { return index_ != 0; }

    /// The next batch, for an empty slot that there is; null where there is no more.
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
    /// The batch of `p` is left out: no copy, and the next one has its turn.
    void left_out(Pinned& p) noexcept {
        p.left_out = true;
        filled(p);
    }
    void left_out(Slot& s) noexcept {
        copying_ = false;
        free_.push(s);
    }
    /// Returns true once if a slot that held a batch that is left out has become empty.
    [[nodiscard]] bool take_passed() noexcept { return std::exchange(passed_, false); }
    /// There is no batch for `p`: the range ends there, with `why`, if it is an error.
    void ended(Pinned& p, std::exception_ptr why) noexcept {
        p.now = Pinned::state::empty;
        end_at(p.index, std::move(why));
    }
    /// The next batch, for a free slot that there is, to be filled on the device by this thread.
    Slot* fill_slot() noexcept {
        if (no_more()) { return nullptr; }
        copying_ = true;
        return &assign(*free_.pop());
    }

    // Copies.
    [[nodiscard]] bool can_copy() const noexcept {
        return !copying_ && !free_.empty() && filled_.front() != nullptr;
    }
    /// The next batch and a place for it, for this thread.
    void copy(Pinned*& from, Slot*& to) noexcept {
        from = filled_.pop();
        to   = free_.pop();
        pass_over();
        from->now      = Pinned::state::copying;
        from->enqueued = false;
        ++from->flight;
        from->turn = ++turns_;
        to->index  = from->index;
        copying_   = true;
        ++in_flight_;
    }
    /// Whether a thread is at a copy.
    [[nodiscard]] bool copying() const noexcept { return copying_; }
    /// Copies that have begun, and of whose end nobody has told.
    [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_; }
    /// The copy into `s` is enqueued, or failed.
    void copied(Slot& s, std::exception_ptr problem) noexcept {
        copying_ = false;
        if (problem == nullptr) { return ready_.push(s); }
        free_.push(s);
        end_at(s.index, std::move(problem));
    }
    /// There is no batch for `s`, which was to be filled on the device.
    void ended(Slot& s, std::exception_ptr why) noexcept {
        copying_ = false;
        free_.push(s);
        end_at(s.index, std::move(why));
    }
    /// The copy out of `p` is over.
    void land(Pinned& p) noexcept {
        if (p.now == Pinned::state::copying) { --in_flight_; }
        p.now      = Pinned::state::empty;
        p.left_out = false;
        empty_.push(p);
    }
    slot_queue<Pinned> take_empties() noexcept { return std::exchange(empty_, {}); }

    // The consumer.
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
    /// The consumer holds every slot, and there is a batch that needs one.
    [[nodiscard]] bool all_held() const noexcept {
        return held_ == slots_ && (pinned_.empty() || waiting());
    }
    /// Every batch before the end was taken, or is ready.
    [[nodiscard]] bool exhausted() const noexcept {
        if (end_ == none || copying_ || index_ < end_) { return false; }
        for (Pinned const* const p : pinned_) {
            bool const on_its_way =
                p->now == Pinned::state::filling || p->now == Pinned::state::filled;
            if (on_its_way && p->index < end_) { return false; }
        }
        return true;
    }
    /// No batch is begun any more: `why` is thrown after those that were.
    void fail(std::exception_ptr why) noexcept { end_at(index_, std::move(why)); }
    /// What ended the range, once.
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
    /// A batch that is left out, and whose turn it is, leaves its slot.
    void pass_over() noexcept {
        for (Pinned* p = filled_.front(); p != nullptr && p->left_out; p = filled_.front()) {
            land(*filled_.pop());
            passed_ = true;
        }
    }
    /// The range ends before batch `index`. What lies beyond an earlier end does not matter.
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
    std::exception_ptr   error_;            ///< thrown at the end
    std::size_t          end_       = none; ///< index of the first batch that there is not
    std::size_t          index_     = 0;    ///< of the batch that is filled next
    std::size_t          in_flight_ = 0;
    std::uint64_t        turns_     = 0;     ///< copies so far
    std::size_t          held_      = 0;     ///< slots that batches hold
    std::size_t          slots_     = 0;     ///< on the device
    bool                 copying_   = false; ///< a thread is at it
    bool                 passed_    = false; ///< see `take_passed`
};

} // namespace vram
