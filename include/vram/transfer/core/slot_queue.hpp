// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_queue` is a queue of slots that allocates nothing.

#include <vram/base/requirements.hpp>

#include <cstddef>
#include <utility>

namespace vram {
namespace detail {

/// A first-in, first-out queue of slots (places for a batch), linked through `Slot::next`.
///
/// Threads   One thread at a time.
/// Cost      Constant time, except `size`, which walks the queue.
template <class Slot>
class slot_queue {
public:
    void push(Slot& s) noexcept {
        s.next                         = nullptr;
        (last_ ? last_->next : first_) = &s;
        last_                          = &s;
    }
    /// Returns the slot that has been in the queue for longest, or null if the queue is empty.
    [[nodiscard]] Slot* front() const noexcept { return first_; }
    Slot*               pop() noexcept {
        Slot* const s = first_;
        if (s == nullptr) { return nullptr; }
        first_ = std::exchange(s->next, nullptr);
        if (first_ == nullptr) { last_ = nullptr; }
        return s;
    }
    [[nodiscard]] std::size_t size() const noexcept {
        std::size_t n = 0;
        for (Slot const* s = first_; s != nullptr; s = s->next) { ++n; }
        return n;
    }
    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }

private:
    Slot* first_ = nullptr;
    Slot* last_  = nullptr;
};

} // namespace detail
} // namespace vram
