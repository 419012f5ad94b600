// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `bump_chunk` allocates from one chunk with a bump pointer, and records which streams use it.

#include <vram/base/align.hpp>
#include <vram/base/core/heap_array.hpp>
#include <vram/order/core/tag.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// One chunk that allocates blocks by raising a bump pointer (the top). Records which streams use
/// the blocks below the top, and which may still access free memory above.
///
/// Failure   `reserve` and `reserve_waits` throw `std::bad_alloc` and change nothing.
/// Threads   One thread at a time.
/// Cost      At most quadratic in the number of streams; `take` and `try_take` linear.
template <class Stream>
class bump_chunk {
public:
    /// The epoch of a `use` that has not ended: later work of the stream may access the blocks too.
    static constexpr std::uint64_t running = 0;

    /// A stream, its id, and the index `slot` of its timeline (the record of the stream's
    /// progress).
    struct user {
        Stream        stream;
        std::uint64_t id;
        std::size_t   slot;
    };
    /// The range that the stream `by` uses, and the epoch (part of its work) that ends the use:
    /// `running` if not known yet, `tag::captured` for a graph.
    struct use {
        tag  part;
        user by;
    };

    bump_chunk(void* base, std::size_t bytes, std::size_t alignment) noexcept
        : begin_{reinterpret_cast<std::uintptr_t>(base)},
          end_{begin_ + bytes},
          top_{begin_},
          alignment_{alignment} {}

    /// Returns the address of a new block of `bytes`, or 0 if the chunk has no room.
    [[nodiscard]] std::uintptr_t place(std::size_t bytes, std::size_t alignment) const noexcept {
        std::uintptr_t const start = align(top_, alignment);
        return start <= end_ && bytes <= end_ - start ? start : 0;
    }
    /// Reserves host memory for one more `take` or `add_use`, one `wait_for`, and all later calls
    /// of `unwind`, so that these cannot fail.
    void reserve() {
        std::size_t const most = uses_.size() + 1;
        uses_.reserve(2 * most); // two uses for each stream: its own and its graph's
        waits_.reserve(waits_.size() + 2 * 2 * most + 2);
    }
    /// Reserves host memory for one more `wait_for` and all later calls of `unwind`, so that these
    /// cannot fail. `reserve` includes this.
    void reserve_waits() { waits_.reserve(waits_.size() + 2 * uses_.size() + 2); }
    /// Allocates the block at `start` for the stream `by` (null: any; nothing is recorded), or its
    /// graph if `captured`. The caller has made the stream wait for earlier uses.
    void take(std::uintptr_t start, std::size_t bytes, user const* by, bool captured) noexcept {
        std::uintptr_t const until = start + bytes;
        if (by != nullptr) {
            use& latest = add_use(top_, until, *by, captured ? tag::captured : running);
            // Moved to the end of the array: `try_take` looks there for the stream that allocated
            // last.
            std::swap(latest, uses_[uses_.size() - 1]);
        }
        raise_top(until);
    }
    /// Allocates the block at `start` and returns true if the last recorded use is a `running` one
    /// by the stream `id`, and no other stream or graph may use the memory.
    bool try_take(std::uintptr_t start, std::size_t bytes, std::uint64_t id,
                  std::size_t slot) noexcept {
        std::uintptr_t const until = start + bytes;
        if (uses_.size() == 0) { return false; }
        use& last = uses_[uses_.size() - 1];
        if (last.by.id != id || last.part.epoch != running) { return false; }
        for (tag const& t : waits_) {
            if (t.begin < until && (t.slot != slot || t.epoch == tag::captured)) { return false; }
        }
        last.part.end = until;
        raise_top(until);
        return true;
    }

    [[nodiscard]] use* find_use(std::uint64_t id, std::uint64_t epoch) noexcept {
        for (use& u : uses_) {
            if (u.by.id == id && u.part.epoch == epoch) { return &u; }
        }
        return nullptr;
    }
    /// Records that the stream `by` may access [begin, end) until its work `epoch` is complete
    /// (`running`: end unknown). Extends the use by this stream with the same epoch, if any.
    /// Requires `reserve`.
    use& add_use(std::uintptr_t begin, std::uintptr_t end, user const& by,
                 std::uint64_t epoch) noexcept {
        if (use* const u = find_use(by.id, epoch)) {
            u->part.begin = begin < u->part.begin ? begin : u->part.begin;
            u->part.end   = end > u->part.end ? end : u->part.end;
            return *u;
        }
        return uses_.push(use{{begin, end, epoch, by.slot}, by});
    }
    /// Sets the end of the open use (`running`) by the stream `id`, if any, to the epoch
    /// `last.epoch`, because the stream is destroyed.
    void end_use(std::uint64_t id, tag const& last) noexcept {
        use* const u = find_use(id, running);
        if (u == nullptr) { return; }
        u->part.epoch = last.epoch;
        u->part.slot  = last.slot;
    }

    /// Frees the memory above `to`. Calls `pending(use)` for each use of memory above `to`: it
    /// returns the stream and epoch until which that memory must not be reused. Epoch 0: none.
    template <class Pending>
    void unwind(std::uintptr_t to, Pending const& pending) noexcept {
        for (std::size_t i = uses_.size(); i-- != 0;) {
            tag& part = uses_[i].part;
            if (part.end <= to) { continue; }
            tag const t = pending(uses_[i]);
            if (t.epoch != 0) {
                wait_for({part.begin > to ? part.begin : to, part.end, t.epoch, t.slot});
            }
            if (part.begin >= to) {
                (void)uses_.take(i);
            } else {
                part.end = to;
            }
        }
        top_ = to;
    }
    /// Records that a stream may still access memory above the top. Requires `reserve` or
    /// `reserve_waits` before.
    void wait_for(tag const& t) noexcept {
        for (tag& w : waits_) {
            if (!tag::of_one_kind(w, t)) { continue; }
            w.begin = t.begin < w.begin ? t.begin : w.begin;
            w.end   = t.end > w.end ? t.end : w.end;
            w.epoch = t.epoch > w.epoch ? t.epoch : w.epoch;
            return;
        }
        waits_.push(t);
    }
    /// Removes the pending uses (streams that may still access free memory) for which
    /// `is_complete(wait)` returns true.
    template <class IsComplete>
    void drop(IsComplete const& is_complete) noexcept {
        for (std::size_t i = waits_.size(); i-- != 0;) {
            if (is_complete(waits_[i])) { (void)waits_.take(i); }
        }
    }
    /// Marks pending uses by the stream with the index `slot`, from its epoch `from` on, as uses by
    /// a captured graph: they last until `end_captures`.
    void keep_for_capture(std::size_t slot, std::uint64_t from) noexcept {
        for (std::size_t i = waits_.size(); i-- != 0;) {
            if (waits_[i].slot == slot && waits_[i].epoch >= from) { set_epoch(i, tag::captured); }
        }
    }
    /// Called when captured graphs no longer run: ends their uses of memory. Blocks below the top
    /// then count as used by the captured stream itself, if `lives(id)` is true.
    template <class Lives>
    void end_captures(Lives const& lives) noexcept {
        drop([](tag const& t) { return t.epoch == tag::captured; });
        for (std::size_t i = uses_.size(); i-- != 0;) {
            if (uses_[i].part.epoch != tag::captured) { continue; }
            use const u = uses_.take(i);
            if (lives(u.by.id)) { (void)add_use(u.part.begin, u.part.end, u.by, running); }
        }
    }

    [[nodiscard]] std::uintptr_t begin() const noexcept { return begin_; }
    [[nodiscard]] std::uintptr_t end() const noexcept { return end_; }
    [[nodiscard]] std::uintptr_t top() const noexcept { return top_; }
    [[nodiscard]] std::size_t    bytes() const noexcept { return end_ - begin_; }
    [[nodiscard]] std::size_t    room() const noexcept { return end_ - top_; }
    [[nodiscard]] std::size_t    alignment() const noexcept { return alignment_; }
    [[nodiscard]] void*          base() const noexcept { return reinterpret_cast<void*>(begin_); }
    [[nodiscard]] bool           empty() const noexcept { return top_ == begin_; }
    [[nodiscard]] bool           owns(void const* p) const noexcept {
        return reinterpret_cast<std::uintptr_t>(p) - begin_ < bytes();
    }
    /// Returns true if part of the memory above the top (bump pointer) is kept for a captured
    /// graph.
    [[nodiscard]] bool has_retained() const noexcept {
        for (tag const& t : waits_) {
            if (t.epoch == tag::captured) { return true; }
        }
        return false;
    }
    [[nodiscard]] heap_array<tag> const& waits() const noexcept { return waits_; }

private:
    /// Raises the top (bump pointer) to `to`. Removes pending uses of memory below, and cuts those
    /// that reach above.
    void raise_top(std::uintptr_t to) noexcept {
        for (std::size_t i = waits_.size(); i-- != 0;) {
            if (waits_[i].begin >= to) { continue; }
            waits_[i].begin = to;
            if (waits_[i].end <= to) { (void)waits_.take(i); }
        }
        top_ = to;
    }
    /// Changes the epoch of the pending use at `index`, and merges it with a use of the same kind,
    /// if any. Uses with a lower index keep their places.
    void set_epoch(std::size_t index, std::uint64_t epoch) noexcept {
        tag t   = waits_.take(index);
        t.epoch = epoch;
        wait_for(t);
    }

    std::uintptr_t  begin_;
    std::uintptr_t  end_;
    std::uintptr_t  top_;
    std::size_t     alignment_;
    heap_array<use> uses_;
    heap_array<tag> waits_;
};

} // namespace detail
} // namespace vram
