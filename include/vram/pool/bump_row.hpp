// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `bump_row` is a row of chunks that are used one after the other, and the marks that stand in it.

#include <vram/pool/bump_chunk.hpp>  // bump_chunk
#include <vram/pool/free_pieces.hpp> // free_pieces
#include <vram/pool/heap_array.hpp>  // heap_array

#include <cstddef> // size_t
#include <cstdint> // uintptr_t, uint64_t
#include <utility> // move, swap, exchange

namespace vram {

/// Chunks up to the current one are in the order in which they were used; those behind it are
/// empty. A mark is a place in that order, and has a serial number, larger than that of the one
/// before.
///
/// Failure   `std::bad_alloc` from `add` and `mark`, with nothing changed; nothing else fails
/// Threads   one at a time
/// Cost      adding, marking and taking from the current chunk are constant; whatever else goes
///           over the chunks
template <class Stream>
class bump_row {
public:
    using chunk = bump_chunk<Stream>;

    bump_row() = default;
    bump_row(bump_row&& other) noexcept
        : chunks_{std::move(other.chunks_)},
          marks_{std::move(other.marks_)},
          current_{std::exchange(other.current_, 0)} {}
    bump_row& operator=(bump_row&& other) noexcept {
        chunks_  = std::move(other.chunks_);
        marks_   = std::move(other.marks_);
        current_ = std::exchange(other.current_, 0);
        return *this;
    }

    [[nodiscard]] bool                     empty() const noexcept { return chunks_.size() == 0; }
    [[nodiscard]] heap_array<chunk>&       chunks() noexcept { return chunks_; }
    [[nodiscard]] heap_array<chunk> const& chunks() const noexcept { return chunks_; }
    /// The one that is being used; there is one.
    [[nodiscard]] chunk& current() noexcept { return chunks_[current_]; }

    /// Whether nothing is out of any chunk, and the next one to be used is the first.
    [[nodiscard]] bool at_start() const noexcept {
        return empty() || (current_ == 0 && chunks_[0].empty());
    }

    /// Adds a chunk behind all others.
    void add(chunk fresh) { chunks_.push(std::move(fresh)); }
    /// Adds a chunk, and goes on to it.
    chunk& go_on_to(chunk fresh) {
        add(std::move(fresh));
        if (chunks_.size() > 1) { std::swap(chunks_[chunks_.size() - 1], chunks_[++current_]); }
        return current();
    }
    /// Goes on to a chunk that is kept and has room. False: there is none.
    bool go_on(std::size_t bytes, std::size_t alignment) noexcept {
        for (std::size_t i = current_ + 1; i < chunks_.size(); ++i) {
            if (chunks_[i].place(bytes, alignment) == 0) { continue; }
            std::swap(chunks_[i], chunks_[++current_]);
            return true;
        }
        return false;
    }
    /// The chunk in use around `p`, the newest first, or null.
    [[nodiscard]] chunk* used_around(void const* p) noexcept {
        for (std::size_t i = empty() ? 0 : current_ + 1; i-- != 0;) {
            if (chunks_[i].owns(p)) { return &chunks_[i]; }
        }
        return nullptr;
    }

    /// Makes this moment one that can be come back to. Returns its serial number: that of the last
    /// mark, where nothing lies between the two.
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
    /// Whether a mark is there, and was not unwound itself.
    [[nodiscard]] bool has(std::uint64_t serial) const noexcept {
        std::size_t const left = marks_up_to(serial);
        return left != 0 && marks_[left - 1].serial == serial;
    }
    [[nodiscard]] bool marked() const noexcept { return marks_.size() != 0; }
    /// Takes back what was handed out since a mark that is there; `tag_of` as in `bump_chunk`.
    /// Returns the bytes that had not been given back.
    template <class TagOf>
    std::size_t unwind(std::uint64_t serial, TagOf const& tag_of) noexcept {
        for (std::size_t const left = marks_up_to(serial); marks_.size() != left;) { marks_.pop(); }
        place const to = marks_[marks_.size() - 1];
        return unwind_to(to.chunk, to.top, tag_of);
    }
    /// The same for all there is; every mark has ended.
    template <class TagOf>
    std::size_t reset(TagOf const& tag_of) noexcept {
        marks_.clear();
        return unwind_to(0, 0, tag_of);
    }

    /// From which chunk on, up to the end of the row, nothing is out and no mark stands there.
    [[nodiscard]] std::size_t first_idle() const noexcept {
        std::size_t const marked_up_to = marked() ? marks_[marks_.size() - 1].chunk + 1 : 0;
        std::size_t       first        = empty() ? 0 : current_ + 1;
        while (first > marked_up_to && chunks_[first - 1].empty()) { --first; }
        return first;
    }
    /// Takes one of these out of the row.
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
            now.releasable += chunks_[i].is_kept() ? 0 : chunks_[i].bytes();
        }
        return now;
    }

private:
    /// What a mark means.
    struct place {
        std::uint64_t  serial;
        std::size_t    chunk;
        std::uintptr_t top; ///< 0: there was no chunk yet
        std::size_t    nth; ///< in its chunk, from 1

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
    /// No mark stands behind that chunk.
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
    heap_array<place> marks_; ///< in the order they were made
    std::size_t       current_ = 0;
};

} // namespace vram
