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
/// the blocks below the top, and which streams may still access the free memory above the top.
///
/// Failure   `reserve` and `reserve_waits` throw `std::bad_alloc` and change nothing.
/// Threads   One thread at a time.
/// Cost      `take` and `try_take`: linear in the number of streams. All others: at most quadratic.
template <class Stream>
class bump_chunk {
public:
    /// Value of the epoch (a part of a stream's work) in a `use` without a known end: later work of
    /// the stream may access the blocks, too.
    static constexpr std::uint64_t running = 0;

    /// A stream, its id, and the index `slot` of its timeline (the record of the stream's
    /// progress).
    struct user {
        Stream        stream;
        std::uint64_t id;
        std::size_t   slot;
    };
    /// A use of allocated blocks by the stream `by`. `part` has the addresses of the blocks and the
    /// epoch (part of the stream's work) with which the use ends. The epoch is `running` if the end
    /// is not known yet. It is `tag::captured` if a captured graph uses the blocks.
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
        // Each stream may need two entries: for its own work, and for its captured graph.
        uses_.reserve(2 * most);
        waits_.reserve(waits_.size() + 2 * 2 * most + 2);
    }
    /// Reserves host memory for one more `wait_for` and all later calls of `unwind`, so that these
    /// cannot fail. A call of `reserve` makes this call unnecessary.
    void reserve_waits() { waits_.reserve(waits_.size() + 2 * uses_.size() + 2); }
    /// Allocates the block at `start`. If `by` is not null, records that the stream `by` uses the
    /// block, or, if `captured` is true, the captured graph of this stream. The caller must first
    /// make the stream wait for earlier users of the memory.
    void take(std::uintptr_t start, std::size_t bytes, user const* by, bool captured) noexcept {
        std::uintptr_t const until = start + bytes;
        if (by != nullptr) {
            use& latest = add_use(top_, until, *by, captured ? tag::captured : running);
            // `try_take` looks only at the end of the array, so the use must be there.
            std::swap(latest, uses_[uses_.size() - 1]);
        }
        raise_top(until);
    }
    /// Fast path of `take`. Returns false and changes nothing unless two conditions hold. The last
    /// recorded use is by the stream with the id `id` and has no known end. This stream need not
    /// wait for the memory.
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
    /// Records that the stream `by` may access [begin, end) until its epoch `epoch` (a part of its
    /// work) ends. The value `running` means that the end is not known. Extends the record of this
    /// stream and epoch, or adds a new one, and returns the record. Requires `reserve`.
    use& add_use(std::uintptr_t begin, std::uintptr_t end, user const& by,
                 std::uint64_t epoch) noexcept {
        if (use* const u = find_use(by.id, epoch)) {
            u->part.begin = begin < u->part.begin ? begin : u->part.begin;
            u->part.end   = end > u->part.end ? end : u->part.end;
            return *u;
        }
        return uses_.push(use{{begin, end, epoch, by.slot}, by});
    }
    /// Called when the stream with the id `id` ends. If a use of this chunk by the stream has no
    /// known end yet (its epoch is `running`), the use then ends with the stream's last work.
    /// `last`: the epoch of this work, and the index (`slot`) of the stream's timeline.
    void end_use(std::uint64_t id, tag const& last) noexcept {
        use* const u = find_use(id, running);
        if (u == nullptr) { return; }
        u->part.epoch = last.epoch;
        u->part.slot  = last.slot;
    }

    /// Lowers the top (bump pointer) to `to`, which frees the memory above. `pending(use)` is
    /// called for each use of this memory. It must return the stream and the epoch (part of its
    /// work) for which the next user must wait. An epoch of 0 means that no wait is needed.
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
    /// Keeps free memory for a captured graph until `end_captures`. Pending uses by the stream with
    /// the index `slot` become uses by the graph, if they end with the epoch `from` (a part of the
    /// stream's work) or a later one.
    void keep_for_capture(std::size_t slot, std::uint64_t from) noexcept {
        for (std::size_t i = waits_.size(); i-- != 0;) {
            if (waits_[i].slot == slot && waits_[i].epoch >= from) { set_epoch(i, tag::captured); }
        }
    }
    /// Called when no captured graph runs any more. Removes the graphs' pending uses of free
    /// memory. A graph's use of allocated blocks becomes a use by the graph's stream. If
    /// `lives(id)` is false for the id of this stream, the use is removed instead.
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
    /// Raises the top (bump pointer) to `to`. The memory below `to` is then allocated. Pending uses
    /// by streams are removed for the memory below `to`, and stay for the memory above.
    void raise_top(std::uintptr_t to) noexcept {
        for (std::size_t i = waits_.size(); i-- != 0;) {
            if (waits_[i].begin >= to) { continue; }
            waits_[i].begin = to;
            if (waits_[i].end <= to) { (void)waits_.take(i); }
        }
        top_ = to;
    }
    /// Changes the epoch (part of the stream's work) of the pending use at `index`. Another use by
    /// the same stream may absorb this use. Pending uses with a lower index keep their index.
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
