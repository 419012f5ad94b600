// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `bump_chunk` allocates from one chunk with a bump pointer, and records which stream used which
/// part.

#include <vram/base/align.hpp>           // align
#include <vram/base/core/heap_array.hpp> // heap_array
#include <vram/order/core/tag.hpp>       // tag

#include <cstddef> // size_t
#include <cstdint> // uintptr_t, uint64_t
#include <utility> // move

namespace vram {
namespace detail {

/// Allocates from one chunk with a bump pointer, the top. Consecutive blocks below the top that
/// were allocated by one stream form a run. Memory above the top has pending uses (`tag`s). If the
/// top is lowered, runs become pending uses; if it is raised, pending uses of that memory end,
/// because the new user was ordered after them. Pending uses are sorted by address with the lowest
/// last, so both operations work at the end of the array.
///
/// Failure   The `reserve` functions throw `std::bad_alloc` and change nothing. No other function
///           fails.
/// Threads   One thread at a time.
/// Cost      Allocation takes constant time as long as the same stream allocates. Finding the run
///           of a block is a binary search.
template <class Stream>
class bump_chunk {
public:
    struct run {
        /// Address of the run, the alignment gap before its first block included.
        std::uintptr_t begin = 0;
        std::uintptr_t end   = 0;
        /// Bytes of the run's blocks, freed ones included, alignment gaps not.
        std::size_t bytes = 0;
        std::size_t freed = 0; ///< bytes of the run's blocks that were freed
        /// Bytes of the run's blocks that were freed by a stream other than the one that allocated
        /// the run, or with `deallocate_sync`.
        std::size_t   freed_by_others = 0;
        Stream        user{}; ///< the stream that allocated the run
        std::uint64_t id = 0; ///< the id of the stream that allocated the run
        /// True if one stream allocated the run, false if it was allocated for any stream
        /// (`allocate_sync`).
        bool named = false;
        /// True if the stream that allocated the run was retired or destroyed. `last` is then its
        /// pending use of the run.
        bool ended = false;
        tag  last{};
    };

    bump_chunk(void* base, std::size_t bytes, std::size_t alignment) noexcept
        : begin_{reinterpret_cast<std::uintptr_t>(base)},
          end_{begin_ + bytes},
          top_{begin_},
          floor_{begin_},
          alignment_{alignment} {}

    /// Returns the address at which a block of `bytes` would begin, or 0 if the chunk has no room.
    [[nodiscard]] std::uintptr_t place(std::size_t bytes, std::size_t alignment) const noexcept {
        std::uintptr_t const start = align(top_, alignment);
        return start <= end_ && bytes <= end_ - start ? start : 0;
    }
    /// Calls `look(use)` for each pending use of the memory from the top to `until`. The alignment
    /// gap before a new block counts as part of it.
    template <class Look>
    void for_each_wait(std::uintptr_t until, Look const& look) const {
        for (std::size_t i = waits_.size(); i-- != 0 && waits_[i].begin < until;) {
            look(waits_[i]);
        }
    }
    /// Marks the pending uses by the stream with timeline index `slot` as graph-retained, if they
    /// belong to the epoch `from` or a later one. Called if the stream is being captured.
    void keep_for_capture(std::size_t slot, std::uint64_t from) noexcept {
        for (tag& t : waits_) {
            if (t.slot == slot && t.epoch >= from) { t.epoch = tag::captured; }
        }
    }
    /// Changes graph-retained uses into pending uses until the epoch `epoch(slot)` of their stream.
    template <class Epoch>
    void end_captures(Epoch const& epoch) noexcept {
        auto const end = [&](tag& t) {
            if (t.epoch == tag::captured) { t.epoch = epoch(t.slot); }
        };
        for (tag& t : waits_) { end(t); }
        for (tag& t : other_uses_) { end(t); }
        for (run& r : runs_) {
            if (r.ended) { end(r.last); }
        }
    }
    template <class Done>
    void drop(Done const& done) noexcept {
        for (heap_array<tag>* const tags : {&waits_, &other_uses_}) {
            std::size_t left = 0;
            for (tag const& t : *tags) {
                if (!done(t)) { (*tags)[left++] = t; }
            }
            while (tags->size() != left) { tags->pop(); }
        }
    }

    /// Reserves host memory, so that the next `take` and `cut`, and every `unwind`, cannot fail.
    void reserve() {
        runs_.reserve(runs_.size() + 1);
        waits_.reserve(most_waits() + 2);
    }
    /// Reserves host memory, so that the next `record_use`, or `take` on a captured stream, and
    /// every `unwind`, cannot fail.
    void reserve_other() {
        other_uses_.reserve(other_uses_.size() + 1);
        waits_.reserve(most_waits() + 2 + marks_ + 2);
    }
    /// Allocates the block at `start`. The caller has already ordered `user` after the pending uses
    /// of the memory. `user` null: the block is for any stream.
    void take(std::uintptr_t start, std::size_t bytes, Stream const* user,
              std::uint64_t id) noexcept {
        std::uintptr_t const until = start + bytes;
        end_uses(until);
        bool const own = is_on(user != nullptr, id);
        if (!own && ends_empty()) { runs_.pop(); }
        if (own || is_on(user != nullptr, id)) {
            lengthen(until, bytes);
        } else {
            run& fresh = runs_.push(run{.begin = top_, .end = until, .bytes = bytes, .id = id});
            if (user != nullptr) {
                fresh.user  = *user;
                fresh.named = true;
            }
        }
        top_ = until;
    }
    /// Fast path of `take`: lengthens the last run if the stream `id` allocated it, and if no other
    /// stream may still access the memory above the top. Needs no `reserve`. Returns false and
    /// changes nothing if that is not the case.
    bool try_extend(std::uintptr_t start, std::size_t bytes, std::uint64_t id,
                    std::size_t slot) noexcept {
        std::uintptr_t const until = start + bytes;
        std::size_t const    waits = waits_.size();
        if (!is_on(true, id)) { return false; }
        if (waits != 0 && waits_[waits - 1].begin < until) {
            tag& lowest = waits_[waits - 1];
            if (lowest.slot != slot || lowest.epoch == tag::captured || lowest.end <= until ||
                (waits != 1 && waits_[waits - 2].begin < until)) {
                return false;
            }
            lowest.begin = until;
        }
        lengthen(until, bytes);
        top_ = until;
        return true;
    }
    /// Fast path of `cut`: cuts a block on top off the last run and adds it to the lowest pending
    /// use, which must be of the same stream as `t` and begin at the top. Needs no `reserve`.
    /// Returns false and changes nothing if that is not possible.
    bool try_pop(void const* p, std::size_t bytes, tag const& t) noexcept {
        auto const at = reinterpret_cast<std::uintptr_t>(p);
        if (!is_on_top(p, bytes) || runs_.size() == 0 || waits_.size() == 0) { return false; }
        run& last   = runs_[runs_.size() - 1];
        tag& lowest = waits_[waits_.size() - 1];
        if (at < last.begin || bytes == 0 || bytes > last.bytes - last.freed ||
            other_uses_.size() != 0 || lowest.begin != top_ || !tag::of_one_kind(lowest, t)) {
            return false;
        }
        lowest.begin = at;
        lowest.epoch = t.epoch > lowest.epoch ? t.epoch : lowest.epoch;
        last.bytes -= bytes;
        last.end = at;
        top_     = at;
        return true;
    }
    /// Adds a pending use of memory above the top: the stream of `t` may still access it.
    void wait_for(tag const& t) noexcept {
        if (waits_.size() != 0) {
            tag& lowest = waits_[waits_.size() - 1];
            if (tag::of_one_kind(lowest, t) && t.begin <= lowest.begin && lowest.begin <= t.end) {
                lowest.begin = t.begin;
                lowest.end   = t.end > lowest.end ? t.end : lowest.end;
                lowest.epoch = t.epoch > lowest.epoch ? t.epoch : lowest.epoch;
                return;
            }
        }
        waits_.push(t);
        for (std::size_t i = waits_.size() - 1; i != 0 && waits_[i - 1].begin < t.begin; --i) {
            waits_[i]     = waits_[i - 1];
            waits_[i - 1] = t;
        }
    }

    /// Returns the run that contains the whole block, or null.
    [[nodiscard]] run* find(void const* p, std::size_t bytes) noexcept {
        auto const  at  = reinterpret_cast<std::uintptr_t>(p);
        std::size_t low = 0;
        for (std::size_t high = runs_.size(); low != high;) {
            std::size_t const middle = low + (high - low) / 2;
            if (runs_[middle].end > at) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        if (low == runs_.size()) { return nullptr; }
        run& r = runs_[low];
        return r.begin <= at && bytes <= r.end - at ? &r : nullptr;
    }
    /// Records that a part of a run was last used by a stream other than the one that allocated it,
    /// or by a graph. There is one record for each such stream, which covers all that it freed in
    /// this chunk, and one for graphs.
    void record_use(tag const& t) noexcept {
        for (tag& o : other_uses_) {
            if (!tag::of_one_kind(o, t)) { continue; }
            o.begin = t.begin < o.begin ? t.begin : o.begin;
            o.end   = t.end > o.end ? t.end : o.end;
            o.epoch = t.epoch > o.epoch ? t.epoch : o.epoch;
            return;
        }
        other_uses_.push(t);
    }

    /// Returns true if [p, p + bytes) ends at the top, and no mark lies above its beginning.
    [[nodiscard]] bool is_on_top(void const* p, std::size_t bytes) const noexcept {
        auto const at = reinterpret_cast<std::uintptr_t>(p);
        return at + bytes == top_ && at >= floor_;
    }
    /// Frees the block at the top: shortens the last non-empty run and lowers the top.
    void cut(void const* p, std::size_t bytes) noexcept {
        if (ends_empty()) { runs_.pop(); }
        run& r = runs_[runs_.size() - 1];
        r.bytes -= bytes;
        r.end = reinterpret_cast<std::uintptr_t>(p);
        lower_top(r.end);
    }
    /// Returns the address to which the top can be lowered: the beginning of the runs (consecutive
    /// blocks of one stream) at the end of the chunk that are entirely freed and not below a mark.
    /// Returns the top if there are none.
    [[nodiscard]] std::uintptr_t freed_from() const noexcept {
        std::uintptr_t to = top_;
        for (std::size_t i = runs_.size(); i != 0; --i) {
            run const& r = runs_[i - 1];
            if (r.freed != r.bytes || r.begin < floor_) { break; }
            to = r.begin;
        }
        return to;
    }
    /// Frees all blocks above `to`, the beginning of a run, and lowers the top to it. `tag_of(run,
    /// tag&)` returns true if a stream may still use the run, and stores that pending use. Returns
    /// the bytes that had not been freed.
    template <class TagOf>
    std::size_t unwind(std::uintptr_t to, TagOf const& tag_of) noexcept {
        std::size_t out = 0;
        while (runs_.size() != 0 && runs_[runs_.size() - 1].begin >= to) {
            run const r = runs_.take(runs_.size() - 1);
            out += r.bytes - r.freed;
            // An alignment gap belongs to its previous user. The stream of the run was ordered
            // after that user, so the run's use covers the gap as well.
            bool const gaps = r.end - r.begin != r.bytes;
            tag        t{};
            if ((r.freed_by_others == r.bytes && !gaps) || !tag_of(r, t)) { continue; }
            wait_for({r.begin, r.end, t.epoch, t.slot});
        }
        lower_top(to);
        return out;
    }
    /// Records that the chunk contains `marks` marks, the last of them at the top. No run continues
    /// across a mark and no block below it is cut off. Requires `reserve_marks` before.
    void seal(std::size_t marks) noexcept {
        floor_ = marks != 0 ? top_ : begin_;
        marks_ = marks;
    }
    void reserve_marks(std::size_t marks) {
        waits_.reserve(most_waits() + marks * other_uses_.size());
    }

    [[nodiscard]] std::uintptr_t begin() const noexcept { return begin_; }
    [[nodiscard]] std::uintptr_t top() const noexcept { return top_; }
    [[nodiscard]] std::size_t    bytes() const noexcept { return end_ - begin_; }
    [[nodiscard]] std::size_t    room() const noexcept { return end_ - top_; }
    [[nodiscard]] std::size_t    alignment() const noexcept { return alignment_; }
    [[nodiscard]] void*          base() const noexcept { return reinterpret_cast<void*>(begin_); }
    [[nodiscard]] bool           empty() const noexcept { return top_ == begin_; }
    /// Returns true if a graph may use part of the memory above the top.
    [[nodiscard]] bool has_retained() const noexcept {
        for (tag const& t : waits_) {
            if (t.epoch == tag::captured) { return true; }
        }
        return false;
    }
    [[nodiscard]] bool owns(void const* p) const noexcept {
        return reinterpret_cast<std::uintptr_t>(p) - begin_ < bytes();
    }
    [[nodiscard]] heap_array<run>&       runs() noexcept { return runs_; }
    [[nodiscard]] heap_array<tag> const& waits() const noexcept { return waits_; }

private:
    /// Returns true if the next block of the stream `id` (if not `named`, of a request without a
    /// stream) can extend the last run.
    [[nodiscard]] bool is_on(bool named, std::uint64_t id) const noexcept {
        if (runs_.size() == 0) { return false; }
        run const& last = runs_[runs_.size() - 1];
        return last.id == id && last.named == named && !last.ended && last.begin >= floor_;
    }
    /// Returns true if the last run is empty: all its blocks were cut off and it has no gap.
    [[nodiscard]] bool ends_empty() const noexcept {
        return runs_.size() != 0 && runs_[runs_.size() - 1].begin == runs_[runs_.size() - 1].end;
    }
    void lengthen(std::uintptr_t until, std::size_t bytes) noexcept {
        run& last = runs_[runs_.size() - 1];
        last.end  = until;
        last.bytes += bytes;
    }
    /// Returns the largest number of pending uses that can exist before the next `reserve`: one for
    /// each run, and for each record of another stream one per mark and one for a cut.
    [[nodiscard]] std::size_t most_waits() const noexcept {
        return waits_.size() + runs_.size() + other_uses_.size() * (marks_ + 2);
    }
    /// Lowers the top. Recorded uses of other streams above the new top become pending uses.
    void lower_top(std::uintptr_t to) noexcept {
        for (std::size_t i = other_uses_.size(); i-- != 0;) {
            tag& o = other_uses_[i];
            if (o.end <= to) { continue; }
            wait_for({o.begin > to ? o.begin : to, o.end, o.epoch, o.slot});
            if (o.begin >= to) {
                (void)other_uses_.take(i);
            } else {
                o.end = to;
            }
        }
        top_ = to;
    }
    /// Removes the pending uses of memory below `until`, because the new user is ordered after
    /// them. Parts that a graph may use stay recorded: the new user is captured on the same stream
    /// and may free the memory after the capture.
    void end_uses(std::uintptr_t until) noexcept {
        std::size_t first = waits_.size();
        while (first != 0 && waits_[first - 1].begin < until) { --first; }
        std::size_t left = first;
        for (std::size_t i = first; i != waits_.size(); ++i) {
            tag const t = waits_[i];
            if (t.epoch == tag::captured) {
                record_use({t.begin, t.end < until ? t.end : until, t.epoch, t.slot});
            }
            if (t.end > until) { waits_[left++] = {until, t.end, t.epoch, t.slot}; }
        }
        while (waits_.size() != left) { waits_.pop(); }
    }

    std::uintptr_t  begin_;
    std::uintptr_t  end_;
    std::uintptr_t  top_;
    std::uintptr_t  floor_; ///< address of the last mark, or the beginning of the chunk
    std::size_t     alignment_;
    std::size_t     marks_ = 0;
    heap_array<run> runs_;
    heap_array<tag> waits_;
    heap_array<tag> other_uses_;
};

} // namespace detail
} // namespace vram
