// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `growth_envelope` finds a steady rise in a sequence of sizes.

#include <vram/base/core/heap_array.hpp>
#include <vram/base/core/smaller_of.hpp> // larger_of, smaller_of

#include <array> // array
#include <bit>   // bit_width
#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// A steady rise of a sequence of sizes, one per step: from the size `from` at the step `since` to
/// the size `to` at the step `until`. If there is no rise, all members are 0.
struct steady_rise {
    std::uint64_t since = 0; ///< number of the step from which on the sizes rise
    std::uint64_t until = 0; ///< number of the last step of the rise; equal to `since` if none
    std::size_t   from  = 0; ///< the size at the step `since`, before the rise
    std::size_t   to    = 0; ///< the size at the step `until`, larger than `from`; 0 if none

    [[nodiscard]] bool          found() const noexcept { return until != since; }
    [[nodiscard]] std::uint64_t steps() const noexcept { return until - since; }
    [[nodiscard]] std::size_t   bytes() const noexcept { return to - from; }
};

/// Finds a steady rise, as a leak causes it, in a sequence of sizes, one for each step of a
/// program. Stores an entry (a step and its size) for each size that all later sizes exceed. A
/// sequence that grows has entries over its whole length. If a sequence returns to an earlier size,
/// as a sawtooth or noise does, the entries with that size or a larger one are removed.
///
/// A rise from an entry to the last step is steady if three conditions hold. At each eighth of its
/// length, it differs from a straight line by at most a fifth of its height. It is at least 1.5
/// times as high as each swing within it (sizes that rose and then returned), so noise has no
/// steady rise. It is about twice as long, or more than twice as high, as each earlier rise after
/// which the sizes returned, so the next tooth of a sawtooth is no steady rise: for each power of
/// two of the length, the greatest height of those earlier rises is stored.
///
/// Failure   `add` throws `std::bad_alloc`.
/// Threads   One thread at a time.
/// Cost      `add` is constant on average, `rise` linear in the number of entries, of which there
///           are at most 4096, with 32 bytes each.
class growth_envelope {
public:
    /// Adds the size of the next step. The first step has the number 0.
    void add(std::size_t size) {
        entries_.reserve(entries_.size() + 1);
        std::uint64_t const now   = steps_++;
        std::size_t         top   = size;
        std::uint64_t       begin = now;
        std::size_t         low   = size;
        while (entries_.size() != 0 && last().size >= size) {
            top   = larger_of(top, last().top);
            begin = last().step;
            low   = last().size;
            entries_.pop();
        }
        if (top > low) { note_return(now - begin, top - low); }
        if (begin != now && entries_.size() != 0) {
            last().top   = larger_of(last().top, top);
            last().swing = larger_of(last().swing, last().top - last().size);
        }
        if (entries_.size() == most_entries) { thin_out(); }
        entries_.push(entry{now, size, size, 0});
    }

    /// Returns the longest steady rise that ends at the last step and has at least `least` steps,
    /// or an empty one if there is none. At most 64 entries are tried as the start of the rise.
    /// If the longest rise contains a plateau, as a warm-up before a leak does, returns the part
    /// after the plateau.
    [[nodiscard]] steady_rise rise(std::uint64_t least) const noexcept {
        if (entries_.size() < 2) { return {}; }
        std::size_t const stride = 1 + entries_.size() / 64;
        for (std::size_t i = 0; i + 1 < entries_.size(); i += stride) {
            if (!is_high(i, least) || !is_steady(entries_[i], last())) { continue; }
            std::size_t const later = after_plateau(i, least);
            entry const&      begin = entries_[is_high(later, least) ? later : i];
            return {begin.step, last().step, begin.size, last().size};
        }
        return {};
    }

    [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

private:
    /// A stored size, with its step. The sizes of all later steps are larger.
    struct entry {
        std::uint64_t step;
        std::size_t   size;
        /// The largest size from `step` on, up to the step before that of the next entry.
        std::size_t top;
        /// The largest height above `size` from which the sizes after `step` fell again, to the
        /// size of the next entry or below; 0 if they did not fall.
        std::size_t swing;
    };

    [[nodiscard]] entry&             last() noexcept { return entries_[entries_.size() - 1]; }
    [[nodiscard]] entry const&       last() const noexcept { return entries_[entries_.size() - 1]; }
    [[nodiscard]] static std::size_t order_of(std::uint64_t length) noexcept {
        return static_cast<std::size_t>(std::bit_width(length));
    }
    void note_return(std::uint64_t length, std::size_t height) noexcept {
        std::size_t& known = returned_[order_of(length)];
        known              = larger_of(known, height);
    }
    /// Returns false if a rise of the given length and height may be the next tooth of a sawtooth:
    /// an earlier rise, after which the sizes returned, had about half of `length` or more and also
    /// half of `height` or more.
    [[nodiscard]] bool is_new(std::uint64_t length, std::size_t height) const noexcept {
        for (std::size_t order = order_of(length / 2); order < returned_.size(); ++order) {
            if (returned_[order] >= height - height / 2) { return false; }
        }
        return true;
    }

    /// Returns the greatest height of a rise after which the sizes returned (a swing), among those
    /// stored in the entry `i` and in later entries. 0 if there is none.
    [[nodiscard]] std::size_t swing_from(std::size_t i) const noexcept {
        std::size_t most = 0;
        for (; i != entries_.size(); ++i) { most = larger_of(most, entries_[i].swing); }
        return most;
    }
    /// Returns true if the rise from the stored size `i` to the last size meets three conditions:
    /// it has `least` steps or more; it is at least 1.5 times as high as each swing (a rise and a
    /// return) within it; and no earlier rise after which the sizes returned had about half of its
    /// length or more and also half of its height or more.
    [[nodiscard]] bool is_high(std::size_t i, std::uint64_t least) const noexcept {
        std::uint64_t const length = last().step - entries_[i].step;
        std::size_t const   height = last().size - entries_[i].size;
        return length != 0 && length >= least && is_new(length, height) &&
               2 * (height / 3) >= swing_from(i);
    }

    /// Finds a plateau, as it lies between a warm-up and a leak, in the rise from the entry `first`
    /// to the last step. Returns the index of its last entry, or `first` if there is none. With s
    /// for the average slope after it, a plateau of n steps meets four conditions: n is at least
    /// `least`; at most 2 n steps lie between `first` and the plateau; its slope is below s / 4;
    /// and the slope of any n / 2 steps after it is at least s / 4, so a growth by jumps has no
    /// plateau.
    [[nodiscard]] std::size_t after_plateau(std::size_t first, std::uint64_t least) const noexcept {
        constexpr std::size_t parts = 128;
        // The rise is divided into `parts` stretches of equal length: `at[k]` is the smallest size
        // after the first `k` of them.
        std::array<double, parts + 1> at{};
        std::uint64_t const           length = last().step - entries_[first].step;
        for (std::size_t k = 0; k <= parts; ++k) {
            at[k] = static_cast<double>(
                lowest_from(entries_[first].step + static_cast<std::uint64_t>(k) * length / parts));
        }
        for (std::size_t width = parts / 2; width >= 4 && width * length / parts >= least;
             width -= (width + 7) / 8) {
            for (std::size_t q = smaller_of(parts - width, 3 * width); q >= width; --q) {
                double const slope = (at[parts] - at[q]) / static_cast<double>(parts - q);
                double const usual = slope * static_cast<double>(width);
                bool         found = 4 * (at[q] - at[q - width]) < usual;
                for (std::size_t k = q; found && k + width / 2 <= parts; ++k) {
                    found = 8 * (at[k + width / 2] - at[k]) >= usual;
                }
                if (found) { return corner(entries_[first].step + (q - width) * length / parts); }
            }
        }
        return first;
    }
    /// Returns the index of the entry at `step` or later that is farthest below a straight line:
    /// the line from the smallest size at `step` or later, drawn at `step`, to the last size. If no
    /// entry is below the line, returns the index of the last entry.
    [[nodiscard]] std::size_t corner(std::uint64_t step) const noexcept {
        double       most = 0;
        std::size_t  best = entries_.size() - 1;
        double const from = static_cast<double>(lowest_from(step));
        double const slope =
            (static_cast<double>(last().size) - from) / static_cast<double>(last().step - step);
        for (std::size_t i = entries_.size() - 1; i-- != 0 && entries_[i].step >= step;) {
            double const below = from + slope * static_cast<double>(entries_[i].step - step) -
                                 static_cast<double>(entries_[i].size);
            if (below > most) {
                most = below;
                best = i;
            }
        }
        return best;
    }
    /// Removes about half of the entries, or more. Keeps the first and the last entry, and between
    /// them entries at a distance of at least 1/2048 of the whole length in steps.
    void thin_out() noexcept {
        std::uint64_t const gap  = (last().step - entries_[0].step) / (most_entries / 2) + 1;
        std::size_t         kept = 0;
        for (std::size_t i = 1; i != entries_.size(); ++i) {
            if (entries_[i].step - entries_[kept].step < gap && i + 1 != entries_.size()) {
                entries_[kept].top   = larger_of(entries_[kept].top, entries_[i].top);
                entries_[kept].swing = larger_of(entries_[kept].swing, entries_[i].swing);
            } else {
                entries_[++kept] = entries_[i];
            }
        }
        while (entries_.size() != kept + 1) { entries_.pop(); }
    }

    /// Returns the smallest size from the step with the number `step` to the last step. If
    /// `thin_out` has removed the entry of that size, returns the size of a later entry.
    [[nodiscard]] std::size_t lowest_from(std::uint64_t step) const noexcept {
        // Binary search for the first entry at `step` or later: its index is in [low, high].
        std::size_t low = 0, high = entries_.size() - 1;
        while (low < high) {
            std::size_t const middle = low + (high - low) / 2;
            if (entries_[middle].step < step) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return entries_[low].size;
    }
    /// Returns true if the rise from `begin` to `end` is close to a straight line: at each of seven
    /// equally distant steps between them, within a fifth of the total rise. The size at a step is
    /// the smallest from there on.
    [[nodiscard]] bool is_steady(entry const& begin, entry const& end) const noexcept {
        auto const height = static_cast<double>(end.size - begin.size);
        auto const length = end.step - begin.step;
        for (std::uint64_t eighth = 1; eighth < 8; ++eighth) {
            std::size_t const size = lowest_from(begin.step + length * eighth / 8);
            double const      part = static_cast<double>(size - begin.size) / height;
            double const      off  = part - static_cast<double>(eighth) / 8;
            if (off > 0.2 || off < -0.2) { return false; }
        }
        return true;
    }

    static constexpr std::size_t most_entries = 4096;

    heap_array<entry> entries_;
    /// Greatest height of the rises after which the sizes returned, by the length of the rise in
    /// steps. The index of a length is `order_of(length)`.
    std::array<std::size_t, 65> returned_{};
    std::uint64_t               steps_ = 0;
};

} // namespace detail
} // namespace vram
