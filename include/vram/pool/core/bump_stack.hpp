// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `bump_stack` is a row of bump-allocated chunks that are used one after the other, with marks to
/// return to.

#include <vram/base/core/heap_array.hpp> // heap_array
#include <vram/pool/core/bump_chunk.hpp> // bump_chunk
#include <vram/pool/free_pieces.hpp>     // free_pieces

#include <cstddef> // size_t
#include <cstdint> // uintptr_t, uint64_t
#include <utility> // move, swap, exchange

namespace vram {
namespace detail {

/// A row of chunks. Chunks up to the current one are in the order in which they were used; the
/// chunks behind it are empty. A mark is a position in that order. Each mark has a serial number
/// that is larger than that of the mark before.
///
/// Failure   `add` and `mark` throw `std::bad_alloc` and change nothing. No other function fails.
/// Threads   One thread at a time.
/// Cost      Adding a chunk, marking, and allocating from the current chunk take constant time.
///           Other functions are linear in the number of chunks.
template <class Stream>
class bump_stack {
public:
    using chunk = bump_chunk<Stream>;

    bump_stack() = default;
    bump_stack(bump_stack&& other) noexcept
        : chunks_{std::move(other.chunks_)},
          marks_{std::move(other.marks_)},
          current_{std::exchange(other.current_, 0)} {}
    bump_stack& operator=(bump_stack&& other) noexcept {
        chunks_  = std::move(other.chunks_);
        marks_   = std::move(other.marks_);
        current_ = std::exchange(other.current_, 0);
        return *this;
    }

    [[nodiscard]] bool                     empty() const noexcept { return chunks_.size() == 0; }
    [[nodiscard]] heap_array<chunk>&       chunks() noexcept { return chunks_; }
    [[nodiscard]] heap_array<chunk> const& chunks() const noexcept { return chunks_; }
    /// Returns the chunk from which blocks are allocated. There must be one.
    [[nodiscard]] chunk& current() noexcept { return chunks_[current_]; }

    /// Returns true if no chunk contains an allocated byte and the first one is used next.
    [[nodiscard]] bool at_start() const noexcept {
        return empty() || (current_ == 0 && chunks_[0].empty());
    }

    void   add(chunk fresh) { chunks_.push(std::move(fresh)); }
    chunk& add_current(chunk fresh) {
        add(std::move(fresh));
        if (chunks_.size() > 1) { std::swap(chunks_[chunks_.size() - 1], chunks_[++current_]); }
        return current();
    }
    /// Makes the next empty chunk with room for the request current. Returns false without one.
    bool use_next(std::size_t bytes, std::size_t alignment) noexcept {
        for (std::size_t i = current_ + 1; i < chunks_.size(); ++i) {
            if (chunks_[i].place(bytes, alignment) == 0) { continue; }
            std::swap(chunks_[i], chunks_[++current_]);
            return true;
        }
        return false;
    }
    /// Returns the chunk that contains `p`, if it is the current one or one used before it, else
    /// null. The newest is searched first.
    [[nodiscard]] chunk* used_around(void const* p) noexcept {
        for (std::size_t i = empty() ? 0 : current_ + 1; i-- != 0;) {
            if (chunks_[i].owns(p)) { return &chunks_[i]; }
        }
        return nullptr;
    }

    /// Creates a mark at the current position with the number `serial`, and returns it. If no
    /// allocation was made since the last mark, returns the number of that mark instead.
    std::uint64_t mark(std::uint64_t serial) {
        std::uintptr_t const top = empty() ? 0 : current().top();
        if (marked() && marks_[marks_.size() - 1].is_at(current_, top)) {
            return marks_[marks_.size() - 1].serial;
        }
        std::size_t const marks = marks_in(current_) + 1;
        if (!empty()) { current().reserve_marks(marks); }
        marks_.push(place{serial, current_, top, marks});
        if (!empty()) { current().seal(marks); }
        return serial;
    }
    /// Returns true if the mark exists and no unwind to an earlier position removed it.
    [[nodiscard]] bool has(std::uint64_t serial) const noexcept {
        std::size_t const left = marks_up_to(serial);
        return left != 0 && marks_[left - 1].serial == serial;
    }
    [[nodiscard]] bool marked() const noexcept { return marks_.size() != 0; }
    /// Frees all blocks allocated since the mark with the number `serial`, which must exist, and
    /// removes all later marks. `tag_of(run, tag&)` stores the pending use of a run, or returns
    /// false if it has none. Returns the bytes that had not been freed.
    template <class TagOf>
    std::size_t unwind(std::uint64_t serial, TagOf const& tag_of) noexcept {
        for (std::size_t const left = marks_up_to(serial); marks_.size() != left;) { marks_.pop(); }
        place const to = marks_[marks_.size() - 1];
        return unwind_to(to.chunk, to.top, tag_of);
    }
    /// Frees all blocks and removes all marks. Returns the bytes that had not been freed.
    template <class TagOf>
    std::size_t reset(TagOf const& tag_of) noexcept {
        marks_.clear();
        return unwind_to(0, 0, tag_of);
    }

    /// Returns the index of the first of the chunks at the end of the row that contain neither an
    /// allocated byte nor a mark; the number of chunks if there are none.
    [[nodiscard]] std::size_t first_idle() const noexcept {
        std::size_t const marked_up_to = marked() ? marks_[marks_.size() - 1].chunk + 1 : 0;
        std::size_t       first        = empty() ? 0 : current_ + 1;
        while (first > marked_up_to && chunks_[first - 1].empty()) { --first; }
        return first;
    }
    /// Removes the chunk with that index, which is `first_idle()` or larger, from the row.
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
        std::uint64_t  serial;
        std::size_t    chunk;
        std::uintptr_t top; ///< address of the top when the mark was made, or 0 if no chunk existed
        std::size_t    nth; ///< number of the mark among those of its chunk, counted from 1

        [[nodiscard]] bool is_at(std::size_t index, std::uintptr_t height) const noexcept {
            return chunk == index && top == height;
        }
    };

    template <class TagOf>
    std::size_t unwind_to(std::size_t index, std::uintptr_t top, TagOf const& tag_of) noexcept {
        std::size_t out = 0;
        for (std::size_t i = empty() ? 0 : current_ + 1; i-- > index;) {
            chunk&               c  = chunks_[i];
            std::uintptr_t const to = i == index && top > c.begin() ? top : c.begin();
            out += c.unwind(to, tag_of);
            c.seal(marks_in(i));
        }
        current_ = index;
        return out;
    }
    /// Returns the number of marks in the chunk at `index`, if no later chunk contains a mark.
    [[nodiscard]] std::size_t marks_in(std::size_t index) const noexcept {
        if (!marked()) { return 0; }
        place const& last = marks_[marks_.size() - 1];
        return last.chunk == index ? last.nth : 0;
    }
    [[nodiscard]] std::size_t marks_up_to(std::uint64_t serial) const noexcept {
        std::size_t left = marks_.size();
        while (left != 0 && marks_[left - 1].serial > serial) { --left; }
        return left;
    }

    heap_array<chunk> chunks_;
    heap_array<place> marks_; ///< the existing marks in the order of creation
    std::size_t       current_ = 0;
};

} // namespace detail
} // namespace vram
