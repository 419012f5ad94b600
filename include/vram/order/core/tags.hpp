// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tags` is a short list of pending uses of one free block.

#include <vram/order/core/tag.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list> // initializer_list

namespace vram {
namespace detail {

/// A list of at most `most` pending uses (streams that may still access freed memory) of one free
/// block. Each use has its own address range: memory outside these ranges may be used at once.
class tags {
public:
    static constexpr std::size_t most = 8;

    constexpr tags() = default;
    constexpr explicit tags(tag const& only) noexcept : size_{1} { items_[0] = only; }
    constexpr tags(tags const& other) noexcept : size_{other.size_} { copy(other); }
    constexpr tags& operator=(tags const& other) noexcept {
        size_ = other.size_;
        copy(other);
        return *this;
    }

    /// Adds the pending uses in `other`. May drop uses that are complete: `is_complete(use)` is
    /// true. Returns false and changes nothing if the list cannot hold all uses.
    template <class IsComplete>
    [[nodiscard]] bool merge(tags const& other, IsComplete const& is_complete) noexcept {
        if (other.size_ == 0) { return true; }
        if (size_ == 0) {
            *this = other;
            return true;
        }
        if (other.size_ == 1 && size_ < most) {
            size_ = join(items_, size_, other.items_[0], false);
            return true;
        }
        tag         all[2 * most];
        std::size_t count = 0;
        for (tags const* each : {static_cast<tags const*>(this), &other}) {
            for (tag const& t : *each) {
                if (!is_complete(t)) { count = join(all, count, t, false); }
            }
        }
        if (count > most) {
            // There are too many uses for the list. Uses of one stream are therefore merged even
            // across small gaps. The addresses in a gap then count as used.
            tag         spanned[2 * most];
            std::size_t fewer = 0;
            for (std::size_t i = 0; i < count; ++i) { fewer = join(spanned, fewer, all[i], true); }
            if (fewer > most) { return false; }
            for (std::size_t i = 0; i < fewer; ++i) { all[i] = spanned[i]; }
            count = fewer;
        }
        for (std::size_t i = 0; i < count; ++i) { items_[i] = all[i]; }
        size_ = count;
        return true;
    }

    /// Returns the pending uses of addresses in [from, to), each cut to that range.
    [[nodiscard]] tags within(std::uintptr_t from, std::uintptr_t to) const noexcept {
        tags part;
        for (tag t : *this) {
            if (!t.overlaps(from, to)) { continue; }
            t.begin                   = t.begin < from ? from : t.begin;
            t.end                     = t.end > to ? to : t.end;
            part.items_[part.size_++] = t;
        }
        return part;
    }

    /// Removes the pending uses of addresses below `from`. A use that begins below `from` and ends
    /// above it is shortened to begin at `from`.
    void drop_before(std::uintptr_t from) noexcept {
        for (std::size_t i = 0; i < size_;) {
            if (items_[i].end <= from) {
                items_[i] = items_[--size_];
            } else {
                items_[i].begin = items_[i].begin < from ? from : items_[i].begin;
                ++i;
            }
        }
    }

    /// Removes the pending uses for which `is_complete(use)` returns true.
    template <class IsComplete>
    void drop(IsComplete const& is_complete) noexcept {
        for (std::size_t i = 0; i < size_;) {
            if (is_complete(items_[i])) {
                items_[i] = items_[--size_];
            } else {
                ++i;
            }
        }
    }

    /// Returns one pending use that covers all memory kept for captured graphs, and any memory
    /// between. The result is empty if no memory is kept. All kept memory must be in use by the
    /// same stream.
    [[nodiscard]] tags kept() const noexcept {
        tags all;
        for (tag const& t : *this) {
            if (t.epoch != tag::captured) { continue; }
            if (all.size_ == 0) { all = tags{t}; }
            tag& a  = all.items_[0];
            a.begin = t.begin < a.begin ? t.begin : a.begin;
            a.end   = t.end > a.end ? t.end : a.end;
        }
        return all;
    }

    /// Marks pending uses as uses by a captured graph, which last until `forget_captures`. Marks
    /// only uses by the stream with the index `slot`, in the part `from` of its work (epoch) or
    /// later.
    void keep_for_capture(std::size_t slot, std::uint64_t from) noexcept {
        for (std::size_t i = 0; i < size_; ++i) {
            tag& t = items_[i];
            if (t.slot == slot && t.epoch >= from) { t.epoch = tag::captured; }
        }
    }

    [[nodiscard]] bool       empty() const noexcept { return size_ == 0; }
    [[nodiscard]] tag const* begin() const noexcept { return items_; }
    [[nodiscard]] tag const* end() const noexcept { return items_ + size_; }

private:
    constexpr void copy(tags const& other) noexcept {
        for (std::size_t i = 0; i < size_; ++i) { items_[i] = other.items_[i]; }
    }
    /// Adds the pending use `t` to the array `all`, which has `count` uses. If a use of the same
    /// kind overlaps or adjoins `t`, extends that use instead. If `spanning` is true, also extends
    /// a use across a gap that is not longer than both uses together. Returns the new number of
    /// uses.
    static std::size_t join(tag* all, std::size_t count, tag const& t, bool spanning) noexcept {
        for (std::size_t i = 0; i < count; ++i) {
            tag& a = all[i];
            if (!tag::of_one_kind(a, t)) { continue; }
            std::uintptr_t const begin = a.begin < t.begin ? a.begin : t.begin;
            std::uintptr_t const end   = a.end > t.end ? a.end : t.end;
            std::size_t const    both  = (a.end - a.begin) + (t.end - t.begin);
            if (end - begin > (spanning ? 2 * both : both)) { continue; }
            a.begin = begin;
            a.end   = end;
            a.epoch = a.epoch > t.epoch ? a.epoch : t.epoch;
            return count;
        }
        all[count] = t;
        return count + 1;
    }

    tag         items_[most]; ///< only the elements in use are ever read or copied
    std::size_t size_ = 0;
};

} // namespace detail
} // namespace vram
