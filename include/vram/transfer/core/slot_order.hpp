// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_order` puts slots that are filled in any order back into the order of their indices.

#include <vram/transfer/core/slot_queue.hpp>

#include <cstddef>
#include <vector> // vector

namespace vram {
namespace detail {

/// A queue of slots (places for one batch). If `ordered` is true, it returns the slots in the order
/// of their `index`, from 0 without gaps; otherwise in the order in which they were added. In an
/// ordered queue, the indices of the slots must differ by less than `window`.
///
/// Threads   One thread at a time.
template <class Slot>
class slot_order {
public:
    slot_order(std::size_t window, bool ordered) : places_(ordered ? window : 0) {}

    void push(Slot& s) noexcept {
        if (places_.empty()) {
            queue_.push(s);
        } else {
            places_[s.index % places_.size()] = &s;
        }
    }
    /// Returns the slot that `pop` would return now. Returns null if the next slot in the order has
    /// not been added yet.
    [[nodiscard]] Slot* front() const noexcept {
        return places_.empty() ? queue_.front() : places_[next_ % places_.size()];
    }
    Slot* pop() noexcept {
        if (places_.empty()) { return queue_.pop(); }
        Slot* const s = front();
        if (s != nullptr) { places_[next_++ % places_.size()] = nullptr; }
        return s;
    }
    /// Removes the slots with an index of at least `index`.
    void drop_from(std::size_t index) noexcept {
        for (Slot*& s : places_) {
            if (s != nullptr && s->index >= index) { s = nullptr; }
        }
        slot_queue<Slot> all = queue_;
        queue_               = {};
        while (Slot* const s = all.pop()) {
            if (s->index < index) { queue_.push(*s); }
        }
    }
    /// Removes all slots from the queue. If `ordered` is true, the next slot to be returned is that
    /// with the index 0.
    void clear() noexcept {
        for (Slot*& s : places_) { s = nullptr; }
        queue_ = {};
        next_  = 0;
    }

private:
    /// If the queue is ordered, the slot with the index `i` is at `i % places_.size()`. Otherwise
    /// this vector is empty.
    std::vector<Slot*> places_;
    slot_queue<Slot>   queue_;
    std::size_t        next_ = 0;
};

} // namespace detail
} // namespace vram
