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

/// Allocates blocks from one chunk by raising a bump pointer, the top. For each stream that
/// allocated or freed blocks below the top, the chunk stores a `use`: the range from the first to
/// the last of the stream's blocks. Another `use` stores the range that graphs of the stream may
/// access. For each stream that may still access the free memory above the top, the chunk stores a
/// pending use (`tag`), and another one for memory retained for graphs of the stream. `unwind`
/// lowers the top and turns uses into pending uses. An allocation raises the top and ends the
/// pending uses of the allocated memory: the caller has ordered the new user of the memory after
/// them.
///
/// Failure   `reserve` and `reserve_waits` throw `std::bad_alloc` and change nothing. No other
///           function fails.
/// Threads   One thread at a time.
/// Cost      Constant for the stream that allocated last, if no other stream has a pending use.
///           Otherwise linear in the number of streams that use the chunk.
template <class Stream>
class bump_chunk {
public:
    /// Stands for the epoch (the number of a part of a stream's work) of the last access in a use
    /// that has not ended: the stream may still get work that accesses the blocks.
    static constexpr std::uint64_t running = 0;

    /// A stream, its id, and its index (slot) in the table of timelines (records of streams).
    struct user {
        Stream        stream;
        std::uint64_t id;
        std::size_t   slot;
    };
    /// The memory that one stream uses, from its first to its last block. The epoch (part of the
    /// stream's work) in `part` is `running` if later work may use the blocks too, `tag::captured`
    /// if a graph of the stream retains the blocks, or the last epoch of a stream that was
    /// destroyed.
    struct use {
        tag  part;
        user by;
    };

    bump_chunk(void* base, std::size_t bytes, std::size_t alignment) noexcept
        : begin_{reinterpret_cast<std::uintptr_t>(base)},
          end_{begin_ + bytes},
          top_{begin_},
          alignment_{alignment} {}

    /// Returns the address at which a block of `bytes` would begin, or 0 if the chunk has no room.
    [[nodiscard]] std::uintptr_t place(std::size_t bytes, std::size_t alignment) const noexcept {
        std::uintptr_t const start = align(top_, alignment);
        return start <= end_ && bytes <= end_ - start ? start : 0;
    }
    /// Reserves host memory for the records of one more stream that uses blocks, of a graph
    /// captured on that stream, and of one more pending use (stream that may still access free
    /// memory). Then `take`, `add_use`, one call of `wait_for` and all later calls of `unwind`
    /// cannot fail.
    void reserve() {
        std::size_t const most = uses_.size() + 1;
        uses_.reserve(2 * most); // for each stream its own use, and that of a captured graph
        waits_.reserve(waits_.size() + 2 * 2 * most + 2);
    }
    /// Reserves host memory, so that one call of `wait_for` (records that a stream may still access
    /// free memory) and every later `unwind` cannot fail. Allocates nothing if `reserve` was called
    /// after the last `unwind`.
    void reserve_waits() { waits_.reserve(waits_.size() + 2 * uses_.size() + 2); }
    /// Allocates the block at `start` for the stream `by` (null: for any stream). The caller has
    /// ordered the stream after all accesses of other streams to this memory. `captured`: the
    /// stream is being captured.
    void take(std::uintptr_t start, std::size_t bytes, user const* by, bool captured) noexcept {
        std::uintptr_t const until = start + bytes;
        if (by != nullptr) {
            use& latest = add_use(top_, until, *by, captured ? tag::captured : running);
            // The use by the stream that allocated last is put at the end, where `try_take` looks
            // for it.
            std::swap(latest, uses_[uses_.size() - 1]);
        }
        raise_top(until);
    }
    /// Fast path of allocating a block at `start`, for the stream that allocated last; needs no
    /// host memory. Returns false and changes nothing if another stream or a graph allocated last,
    /// or may still access the memory.
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

    /// Returns the record of the use by the stream with the id `id` that has exactly the epoch
    /// `epoch` (part of the stream's work, `running` or `tag::captured`), or null.
    [[nodiscard]] use* find_use(std::uint64_t id, std::uint64_t epoch) noexcept {
        for (use& u : uses_) {
            if (u.by.id == id && u.part.epoch == epoch) { return &u; }
        }
        return nullptr;
    }
    /// Records that the stream `by` uses [begin, end) until its epoch (part of its work) `epoch` is
    /// complete. `epoch` is `running` if later work may use the memory too, and `tag::captured` if
    /// a graph may use it. If there is a record for this stream and epoch, extends its range
    /// instead of adding another. Returns the record. Requires a call of `reserve` before.
    use& add_use(std::uintptr_t begin, std::uintptr_t end, user const& by,
                 std::uint64_t epoch) noexcept {
        if (use* const u = find_use(by.id, epoch)) {
            u->part.begin = begin < u->part.begin ? begin : u->part.begin;
            u->part.end   = end > u->part.end ? end : u->part.end;
            return *u;
        }
        return uses_.push(use{{begin, end, epoch, by.slot}, by});
    }
    /// Called because the stream with the id `id` is about to be destroyed: only work up to the end
    /// of the epoch `last.epoch` may use the blocks of the stream. Uses by graphs of the stream
    /// stay.
    void end_use(std::uint64_t id, tag const& last) noexcept {
        use* const u = find_use(id, running);
        if (u == nullptr) { return; }
        u->part.epoch = last.epoch;
        u->part.slot  = last.slot;
    }

    /// Lowers the top (bump pointer) to `to`. The memory above it becomes free, with a record of
    /// each stream that may still access it. `pending(use)` returns the index (slot) of that stream
    /// and the last epoch (part of its work) that may access the memory. Epoch 0 means that no work
    /// may access it.
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
    /// Records that a stream may still access memory above the top (bump pointer). Requires
    /// `reserve` or `reserve_waits` before.
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
    /// Called because the stream with the index `slot` is being captured. Free memory of this chunk
    /// (above the bump pointer) that the stream has used in the epoch `from` (a numbered part of
    /// its work) or later may belong to the graph, so it is kept for the graph until
    /// `end_captures`, which `monotonic::forget_captures` calls.
    void keep_for_capture(std::size_t slot, std::uint64_t from) noexcept {
        for (std::size_t i = waits_.size(); i-- != 0;) {
            if (waits_[i].slot == slot && waits_[i].epoch >= from) { set_epoch(i, tag::captured); }
        }
    }
    /// Called when no launch of a captured graph is running or will follow. Unwound (freed) memory
    /// that was kept for a graph is unused from now on. Memory that was not unwound and that a
    /// graph used is from now on used by all work of its stream, unless the stream has ended
    /// (`lives(id)` returns false).
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
    /// Returns true if a graph retains part of the memory above the top (bump pointer).
    [[nodiscard]] bool has_retained() const noexcept {
        for (tag const& t : waits_) {
            if (t.epoch == tag::captured) { return true; }
        }
        return false;
    }
    [[nodiscard]] heap_array<tag> const& waits() const noexcept { return waits_; }

private:
    /// Raises the top (bump pointer) and removes the pending uses by streams of memory below it.
    void raise_top(std::uintptr_t to) noexcept {
        for (std::size_t i = waits_.size(); i-- != 0;) {
            if (waits_[i].begin >= to) { continue; }
            waits_[i].begin = to;
            if (waits_[i].end <= to) { (void)waits_.take(i); }
        }
        top_ = to;
    }
    /// Changes the epoch (part of the stream's work) of the pending use by a stream at `index`. The
    /// use may be merged with another one. Uses with a lower index keep their places.
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
