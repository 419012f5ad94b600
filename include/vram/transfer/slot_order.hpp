// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_order` puts slots that get full in any order back into theirs.

#include <vram/transfer/slot_queue.hpp> // slot_queue

#include <cstddef> // size_t
#include <vector>  // vector

namespace vram {

/// Slots by their `index`, from 0 without a gap, of which no more than `window` are on their way at
/// a time; or, where order does not matter, as they come.
///
/// Threads   one at a time
/// Cost      constant, but for `drop_from`; no allocation once it is made
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
    /// The one whose turn it is; null where it has not come.
    [[nodiscard]] Slot* front() const noexcept {
        return places_.empty() ? queue_.front() : places_[next_ % places_.size()];
    }
    Slot* pop() noexcept {
        if (places_.empty()) { return queue_.pop(); }
        Slot* const s = front();
        if (s != nullptr) { places_[next_++ % places_.size()] = nullptr; }
        return s;
    }
    /// Forgets those from `index` on.
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
    /// Forgets what is there; indices begin at 0 again.
    void clear() noexcept {
        for (Slot*& s : places_) { s = nullptr; }
        queue_ = {};
        next_  = 0;
    }

private:
    std::vector<Slot*> places_; ///< by index, where that matters
    slot_queue<Slot>   queue_;
    std::size_t        next_ = 0;
};

} // namespace vram
