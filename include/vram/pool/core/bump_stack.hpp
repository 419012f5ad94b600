// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `bump_stack` is a row of bump-allocated chunks with marks to which memory can be unwound.

#include <vram/base/core/heap_array.hpp>
#include <vram/pool/core/bump_chunk.hpp>
#include <vram/pool/free_pieces.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// A list of chunks. Blocks are allocated one after the other, from chunk to chunk. A mark is a
/// position behind a block, and later marks have larger serial numbers. A return to a mark frees
/// all blocks that were allocated after it.
///
/// Failure   `add`, `add_current` and `mark` throw `std::bad_alloc` and change nothing.
/// Threads   One thread at a time.
template <class Stream>
class bump_stack {
public:
    using chunk = bump_chunk<Stream>;

    bump_stack() = default;
    bump_stack(bump_stack&& other) noexcept
        : chunks_{std::move(other.chunks_)},
          marks_{std::move(other.marks_)},
          current_{std::exchange(other.current_, 0)},
          live_before_marks_{std::exchange(other.live_before_marks_, 0)} {}
    bump_stack& operator=(bump_stack&& other) noexcept {
        chunks_            = std::move(other.chunks_);
        marks_             = std::move(other.marks_);
        current_           = std::exchange(other.current_, 0);
        live_before_marks_ = std::exchange(other.live_before_marks_, 0);
        return *this;
    }

    [[nodiscard]] bool                     empty() const noexcept { return chunks_.size() == 0; }
    [[nodiscard]] heap_array<chunk>&       chunks() noexcept { return chunks_; }
    [[nodiscard]] heap_array<chunk> const& chunks() const noexcept { return chunks_; }
    /// Returns the chunk from which blocks are allocated. There must be one.
    [[nodiscard]] chunk& current() noexcept { return chunks_[current_]; }

    void   add(chunk fresh) { chunks_.push(std::move(fresh)); }
    chunk& add_current(chunk fresh) {
        add(std::move(fresh));
        if (chunks_.size() > 1) { std::swap(chunks_[chunks_.size() - 1], chunks_[++current_]); }
        return current();
    }
    /// Searches the empty chunks after the current chunk for one with room for the request, and
    /// makes it the current chunk. Returns false if there is none.
    bool use_next(std::size_t bytes, std::size_t alignment) noexcept {
        for (std::size_t i = current_ + 1; i < chunks_.size(); ++i) {
            if (chunks_[i].place(bytes, alignment) == 0) { continue; }
            std::swap(chunks_[i], chunks_[++current_]);
            return true;
        }
        return false;
    }
    /// Returns the chunk that contains `p`, or null. Also returns null if `p` is not below the
    /// chunk's bump pointer (the end of its allocated part).
    [[nodiscard]] chunk* used_around(void const* p) noexcept {
        for (std::size_t i = empty() ? 0 : current_ + 1; i-- != 0;) {
            chunk& c = chunks_[i];
            if (c.owns(p)) { return reinterpret_cast<std::uintptr_t>(p) < c.top() ? &c : nullptr; }
        }
        return nullptr;
    }
    /// Returns the counter of live bytes that were allocated between the two marks around the
    /// address `at` of the chunk `c`.
    [[nodiscard]] std::size_t& live_around(chunk const& c, std::uintptr_t at) noexcept {
        auto const  index = static_cast<std::size_t>(&c - chunks_.begin());
        std::size_t i     = marks_.size();
        while (i != 0 && marks_[i - 1].is_above(index, at)) { --i; }
        return i != 0 ? marks_[i - 1].live : live_before_marks_;
    }
    /// Returns the counter of live bytes allocated since the last mark, or since the start.
    [[nodiscard]] std::size_t& live_at_top() noexcept {
        return marked() ? marks_[marks_.size() - 1].live : live_before_marks_;
    }

    /// Creates a mark with the number `serial` at the current position, and returns `serial`. If
    /// the last mark has this position, returns that mark's number instead.
    std::uint64_t mark(std::uint64_t serial) {
        std::uintptr_t const top = empty() ? 0 : current().top();
        if (marked() && marks_[marks_.size() - 1].is_at(current_, top)) {
            return marks_[marks_.size() - 1].serial;
        }
        marks_.push(place{serial, current_, top});
        return serial;
    }
    /// Returns true if the mark with the number `serial` exists: no unwind has removed it.
    [[nodiscard]] bool has(std::uint64_t serial) const noexcept {
        std::size_t const left = marks_up_to(serial);
        return left != 0 && marks_[left - 1].serial == serial;
    }
    [[nodiscard]] bool marked() const noexcept { return marks_.size() != 0; }
    /// Calls `visit(chunk, to)` for each chunk that may contain blocks allocated after the mark
    /// `serial`, newest first. If `serial` is 0, all blocks count. `to` is the bump pointer of the
    /// chunk after a return to the mark.
    template <class Visit>
    void each_since(std::uint64_t serial, Visit const& visit) {
        std::size_t const    left  = marks_up_to(serial);
        std::size_t const    first = left != 0 ? marks_[left - 1].chunk : 0;
        std::uintptr_t const top   = left != 0 ? marks_[left - 1].top : 0;
        for (std::size_t i = empty() ? 0 : current_ + 1; i-- > first;) {
            chunk& c = chunks_[i];
            visit(c, i == first && top > c.begin() ? top : c.begin());
        }
    }
    /// Removes all marks after the mark `serial`, or all marks if `serial` is 0. Returns the number
    /// of live bytes that were allocated after the mark `serial`. The caller must lower the bump
    /// pointers of the chunks first.
    std::size_t go_back(std::uint64_t serial) noexcept {
        std::size_t const left = marks_up_to(serial);
        std::size_t       live = 0;
        while (marks_.size() > left) {
            live += marks_[marks_.size() - 1].live;
            marks_.pop();
        }
        current_ = left != 0 ? marks_[left - 1].chunk : 0;
        return live + std::exchange(live_at_top(), 0);
    }

    /// Returns the index of the first idle chunk, or the number of chunks if none is idle. All
    /// chunks from there on have no allocated byte and no mark.
    [[nodiscard]] std::size_t first_idle() const noexcept {
        std::size_t const marked_up_to = marked() ? marks_[marks_.size() - 1].chunk + 1 : 0;
        std::size_t       first        = empty() ? 0 : current_ + 1;
        while (first > marked_up_to && chunks_[first - 1].empty()) { --first; }
        return first;
    }
    /// Removes and returns the chunk at `index`. The chunk must be idle (without an allocated byte
    /// and without a mark), so `index` must be at least `first_idle()`.
    chunk take_idle(std::size_t index) noexcept {
        std::size_t const last  = chunks_.size() - 1;
        std::size_t const first = first_idle();
        if (current_ >= first) { current_ = first != 0 ? first - 1 : 0; }
        if (index != last) { std::swap(chunks_[index], chunks_[last]); }
        return chunks_.take(last);
    }

    [[nodiscard]] bool owns(void const* p) const noexcept {
        for (chunk const& c : chunks_) {
            if (c.owns(p)) { return true; }
        }
        return false;
    }
    [[nodiscard]] free_pieces free_memory() const noexcept {
        free_pieces now;
        for (std::size_t i = current_; i < chunks_.size(); ++i) { now.add(chunks_[i].room()); }
        for (std::size_t i = first_idle(); i < chunks_.size(); ++i) {
            now.releasable += chunks_[i].has_retained() ? 0 : chunks_[i].bytes();
        }
        return now;
    }

private:
    struct place {
        std::uint64_t serial;
        std::size_t   chunk;
        /// the chunk's bump pointer when the mark was made, or 0 if no chunk existed
        std::uintptr_t top;
        std::size_t    live = 0; ///< live bytes allocated between this mark and the next one

        [[nodiscard]] bool is_at(std::size_t index, std::uintptr_t height) const noexcept {
            return chunk == index && top == height;
        }
        [[nodiscard]] bool is_above(std::size_t index, std::uintptr_t at) const noexcept {
            return index < chunk || (index == chunk && at < top);
        }
    };

    [[nodiscard]] std::size_t marks_up_to(std::uint64_t serial) const noexcept {
        std::size_t left = marks_.size();
        while (left != 0 && marks_[left - 1].serial > serial) { --left; }
        return left;
    }

    heap_array<chunk> chunks_;
    heap_array<place> marks_; ///< the existing marks in the order of creation
    std::size_t       current_           = 0;
    std::size_t       live_before_marks_ = 0;
};

} // namespace detail
} // namespace vram
