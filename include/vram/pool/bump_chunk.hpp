// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `bump_chunk` hands out one chunk from the bottom up, and remembers who used which part of it.

#include <vram/base/align.hpp>      // align
#include <vram/pool/heap_array.hpp> // heap_array
#include <vram/pool/tag.hpp>        // tag

#include <cstddef> // size_t
#include <cstdint> // uintptr_t, uint64_t
#include <utility> // move

namespace vram {

/// Below the top, what one stream took in a row is a run. Above it, tags say what is still being
/// waited for. When the top goes down, runs become tags; when it goes up, tags are used up. Tags
/// are sorted by their beginnings, the lowest last, so that both happen at the end of the row.
///
/// Failure   `std::bad_alloc` from the `reserve` functions, with nothing changed; nothing else
///           fails
/// Threads   one at a time
/// Cost      taking: constant, where one stream follows itself; finding: a search among the runs
template <class Stream>
class bump_chunk {
public:
    struct run {
        std::uintptr_t begin = 0; ///< with the gap before it, which is nobody else's either
        std::uintptr_t end   = 0;
        std::size_t    bytes = 0;     ///< taken and not yet cut off again, without gaps
        std::size_t    back  = 0;     ///< of these, given back
        std::size_t    freed = 0;     ///< of these, given back by others, or in use by nobody
        Stream         user{};        ///< who took it
        std::uint64_t  id    = 0;     ///< the user's
        bool           named = false; ///< there is a user, and not everybody
        bool           ended = false; ///< the user was retired, and `last` is its tag
        tag            last{};
    };

    bump_chunk(void* base, std::size_t bytes, std::size_t alignment) noexcept
        : begin_{reinterpret_cast<std::uintptr_t>(base)},
          end_{begin_ + bytes},
          top_{begin_},
          floor_{begin_},
          alignment_{alignment} {}

    /// Where `bytes` would begin, or 0: there is no room.
    [[nodiscard]] std::uintptr_t place(std::size_t bytes, std::size_t alignment) const noexcept {
        std::uintptr_t const start = align(top_, alignment);
        return start <= end_ && bytes <= end_ - start ? start : 0;
    }
    /// `look(tag)` at what must be waited for before the chunk is used up to `until`, the gap
    /// before a block among it: the next user answers for all of it.
    template <class Look>
    void for_each_wait(std::uintptr_t until, Look const& look) const {
        for (std::size_t i = waits_.size(); i-- != 0 && waits_[i].begin < until;) {
            look(waits_[i]);
        }
    }
    /// A graph is being captured on the stream in `slot`: what it used in the epoch `from` or later
    /// does not end by itself.
    void keep_for_capture(std::size_t slot, std::uint64_t from) noexcept {
        for (tag& t : waits_) {
            if (t.slot == slot && t.epoch >= from) { t.epoch = tag::captured; }
        }
    }
    /// What graphs kept waits until `epoch(slot)` from now on.
    template <class Epoch>
    void end_captures(Epoch const& epoch) noexcept {
        auto const end = [&](tag& t) {
            if (t.epoch == tag::captured) { t.epoch = epoch(t.slot); }
        };
        for (tag& t : waits_) { end(t); }
        for (tag& t : others_) { end(t); }
        for (run& r : runs_) {
            if (r.ended) { end(r.last); }
        }
    }
    /// Drops the tags that `done(tag)` calls over.
    template <class Done>
    void drop(Done const& done) noexcept {
        for (heap_array<tag>* const tags : {&waits_, &others_}) {
            std::size_t left = 0;
            for (tag const& t : *tags) {
                if (!done(t)) { (*tags)[left++] = t; }
            }
            while (tags->size() != left) { tags->pop(); }
        }
    }

    /// Makes sure that `take` and `cut` cannot fail once, and `unwind` never.
    void reserve() {
        runs_.reserve(runs_.size() + 1);
        waits_.reserve(most_waits() + 2);
    }
    /// Makes sure that `hand_over`, or `take` in a capture, cannot fail once, and `unwind` never.
    void reserve_other() {
        others_.reserve(others_.size() + 1);
        waits_.reserve(most_waits() + 2 + marks_ + 2);
    }
    /// The next block, at `start`; what it had to wait for is waited for. `user` null: everybody.
    void take(std::uintptr_t start, std::size_t bytes, Stream const* user,
              std::uint64_t id) noexcept {
        std::uintptr_t const until = start + bytes;
        use_up(until);
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
    /// The same for a stream that goes on where it was, and whose own is all there is to wait for:
    /// needs no `reserve`. False, with nothing done: it is not so.
    bool go_on(std::uintptr_t start, std::size_t bytes, std::uint64_t id,
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
    /// Cuts a block on top off the last run, where that can be noted in the tag above: its stream
    /// is `t`'s, who is the last to use the block. Needs no `reserve`. False, with nothing done: it
    /// is not so.
    bool go_back(void const* p, std::size_t bytes, tag const& t) noexcept {
        auto const at = reinterpret_cast<std::uintptr_t>(p);
        if (!is_on_top(p, bytes) || runs_.size() == 0 || waits_.size() == 0) { return false; }
        run& last   = runs_[runs_.size() - 1];
        tag& lowest = waits_[waits_.size() - 1];
        if (at < last.begin || bytes == 0 || bytes > last.bytes - last.back ||
            others_.size() != 0 || lowest.begin != top_ || !tag::of_one_kind(lowest, t)) {
            return false;
        }
        lowest.begin = at;
        lowest.epoch = t.epoch > lowest.epoch ? t.epoch : lowest.epoch;
        last.bytes -= bytes;
        last.end = at;
        top_     = at;
        return true;
    }
    /// Adds a tag to those above the top.
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

    /// The run that holds all of a block, or null.
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
    /// Another stream than the one that took it is the last to use a part of a run, or a graph is.
    /// There is one such note for a stream, over all that it gave back here, and one for graphs.
    void hand_over(tag const& t) noexcept {
        for (tag& o : others_) {
            if (!tag::of_one_kind(o, t)) { continue; }
            o.begin = t.begin < o.begin ? t.begin : o.begin;
            o.end   = t.end > o.end ? t.end : o.end;
            o.epoch = t.epoch > o.epoch ? t.epoch : o.epoch;
            return;
        }
        others_.push(t);
    }

    /// Whether the block [at, at + bytes) is on top, and no mark stands above its beginning.
    [[nodiscard]] bool is_on_top(void const* p, std::size_t bytes) const noexcept {
        auto const at = reinterpret_cast<std::uintptr_t>(p);
        return at + bytes == top_ && at >= floor_;
    }
    /// Cuts the block on top off the last run that holds something.
    void cut(void const* p, std::size_t bytes) noexcept {
        if (ends_empty()) { runs_.pop(); }
        run& r = runs_[runs_.size() - 1];
        r.bytes -= bytes;
        r.end = reinterpret_cast<std::uintptr_t>(p);
        lower_top(r.end);
    }
    /// Down to where the last runs are all given back, and no mark stands above their beginnings:
    /// the top, where the last one is not, or was cut off whole and its stream may well go on.
    [[nodiscard]] std::uintptr_t back_to() const noexcept {
        std::uintptr_t to = top_;
        for (std::size_t i = runs_.size(); i != 0; --i) {
            run const& r = runs_[i - 1];
            if (r.back != r.bytes || r.begin < floor_) { break; }
            to = r.begin;
        }
        return to;
    }
    /// Takes the top down to `to`, where a run ended. `tag_of(run, tag&)` says whether somebody may
    /// still be using a run, and who. Returns the bytes that had not been given back.
    template <class TagOf>
    std::size_t unwind(std::uintptr_t to, TagOf const& tag_of) noexcept {
        std::size_t out = 0;
        while (runs_.size() != 0 && runs_[runs_.size() - 1].begin >= to) {
            run const r = runs_.take(runs_.size() - 1);
            out += r.bytes - r.back;
            // The user of a gap is whoever used it before, and the user of the run waited for that.
            bool const gaps = r.end - r.begin != r.bytes;
            tag        t{};
            if ((r.freed == r.bytes && !gaps) || !tag_of(r, t)) { continue; }
            wait_for({r.begin, r.end, t.epoch, t.slot});
        }
        lower_top(to);
        return out;
    }
    /// Of `marks` marks in this chunk the last stands at the top: no run goes across it, and no
    /// block below it is cut off. `reserve_marks` came before.
    void seal(std::size_t marks) noexcept {
        floor_ = marks != 0 ? top_ : begin_;
        marks_ = marks;
    }
    void reserve_marks(std::size_t marks) { waits_.reserve(most_waits() + marks * others_.size()); }

    [[nodiscard]] std::uintptr_t begin() const noexcept { return begin_; }
    [[nodiscard]] std::uintptr_t top() const noexcept { return top_; }
    [[nodiscard]] std::size_t    bytes() const noexcept { return end_ - begin_; }
    [[nodiscard]] std::size_t    room() const noexcept { return end_ - top_; }
    [[nodiscard]] std::size_t    alignment() const noexcept { return alignment_; }
    [[nodiscard]] void*          base() const noexcept { return reinterpret_cast<void*>(begin_); }
    [[nodiscard]] bool           empty() const noexcept { return top_ == begin_; }
    /// Whether a graph keeps some of it.
    [[nodiscard]] bool is_kept() const noexcept {
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
    /// Whether the last run is that of the stream `id`, or nobody's, and may become longer.
    [[nodiscard]] bool is_on(bool named, std::uint64_t id) const noexcept {
        if (runs_.size() == 0) { return false; }
        run const& last = runs_[runs_.size() - 1];
        return last.id == id && last.named == named && !last.ended && last.begin >= floor_;
    }
    /// Whether the last run was cut off whole, and has not even a gap.
    [[nodiscard]] bool ends_empty() const noexcept {
        return runs_.size() != 0 && runs_[runs_.size() - 1].begin == runs_[runs_.size() - 1].end;
    }
    void lengthen(std::uintptr_t until, std::size_t bytes) noexcept {
        run& last = runs_[runs_.size() - 1];
        last.end  = until;
        last.bytes += bytes;
    }
    /// As many tags as there can be before the next call of a `reserve`: every run becomes one, and
    /// every note one for each mark that the top goes down to, and one more when a block is cut.
    [[nodiscard]] std::size_t most_waits() const noexcept {
        return waits_.size() + runs_.size() + others_.size() * (marks_ + 2);
    }
    /// The top goes down, and the notes above it become tags.
    void lower_top(std::uintptr_t to) noexcept {
        for (std::size_t i = others_.size(); i-- != 0;) {
            tag& o = others_[i];
            if (o.end <= to) { continue; }
            wait_for({o.begin > to ? o.begin : to, o.end, o.epoch, o.slot});
            if (o.begin >= to) {
                (void)others_.take(i);
            } else {
                o.end = to;
            }
        }
        top_ = to;
    }
    /// What is waited for below `until` is so no longer. What a graph keeps it keeps: the next user
    /// is captured on the same stream, and may give it back when the capture is over.
    void use_up(std::uintptr_t until) noexcept {
        std::size_t first = waits_.size();
        while (first != 0 && waits_[first - 1].begin < until) { --first; }
        std::size_t left = first;
        for (std::size_t i = first; i != waits_.size(); ++i) {
            tag const t = waits_[i];
            if (t.epoch == tag::captured) {
                hand_over({t.begin, t.end < until ? t.end : until, t.epoch, t.slot});
            }
            if (t.end > until) { waits_[left++] = {until, t.end, t.epoch, t.slot}; }
        }
        while (waits_.size() != left) { waits_.pop(); }
    }

    std::uintptr_t  begin_;
    std::uintptr_t  end_;
    std::uintptr_t  top_;
    std::uintptr_t  floor_; ///< the last mark, or the beginning
    std::size_t     alignment_;
    std::size_t     marks_ = 0;
    heap_array<run> runs_;
    heap_array<tag> waits_;
    heap_array<tag> others_;
};

} // namespace vram
