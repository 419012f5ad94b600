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

/// A steady rise in a sequence of sizes, one for each step of a program. The size is `from` at the
/// step `since`, and `to` at the step `until`. If there is no rise, all members are 0.
struct steady_rise {
    std::uint64_t since = 0; ///< index of the step from which on the sizes rise
    std::uint64_t until = 0; ///< index of the last step of the rise
    std::size_t   from  = 0; ///< the size at the step `since`
    std::size_t   to    = 0; ///< the size at the step `until`, larger than `from`

    [[nodiscard]] bool          found() const noexcept { return until != since; }
    [[nodiscard]] std::uint64_t steps() const noexcept { return until - since; }
    [[nodiscard]] std::size_t   bytes() const noexcept { return to - from; }
};

/// Finds a steady rise in a sequence of sizes, one for each step of a program. Such a rise is a
/// sign of a leak. Only one thread at a time may call a function.
///
/// A steady rise is nearly straight, and at least 1.5 times as high as each swing (a rise that fell
/// again) within it. No swing so far had at least half of its height and about half of its length.
class growth_envelope {
public:
    /// Adds the size at the next step of the program. The first step has the index 0.
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

    /// Returns a steady rise of the sizes over at least `least` steps, up to the last step. If the
    /// rise begins with a plateau (almost constant sizes), and the rest is long and high enough,
    /// returns only the rest. All members are 0 if there is no rise.
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
    /// A stored step of the program and the size at this step. All later sizes are larger.
    struct entry {
        std::uint64_t step;
        std::size_t   size;
        /// The largest size from the step of this entry up to the step before the next entry.
        std::size_t top;
        /// Height of the highest swing (a rise that fell again) before the next entry; 0 for none.
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
    /// Returns true if a rise by `height` bytes in `length` steps is new: no earlier swing (a rise
    /// that fell again) was at least half as high and about half as long. Since `returned_` knows
    /// lengths by powers of two, a swing of a little over a quarter of `length` may suffice.
    [[nodiscard]] bool is_new(std::uint64_t length, std::size_t height) const noexcept {
        for (std::size_t order = order_of(length / 2); order < returned_.size(); ++order) {
            if (returned_[order] >= height - height / 2) { return false; }
        }
        return true;
    }

    /// Returns the height of the highest swing (a rise that fell again) from the entry `i` on; 0 if
    /// there was no swing.
    [[nodiscard]] std::size_t swing_from(std::size_t i) const noexcept {
        std::size_t most = 0;
        for (; i != entries_.size(); ++i) { most = larger_of(most, entries_[i].swing); }
        return most;
    }
    /// Returns true if the rise from the entry `i` to the last entry has `least` steps or more, is
    /// new (`is_new`), and is at least 1.5 times as high as each swing within it.
    [[nodiscard]] bool is_high(std::size_t i, std::uint64_t least) const noexcept {
        std::uint64_t const length = last().step - entries_[i].step;
        std::size_t const   height = last().size - entries_[i].size;
        return length != 0 && length >= least && is_new(length, height) &&
               2 * (height / 3) >= swing_from(i);
    }

    /// Finds a plateau (`least` or more steps of almost constant size) near the start of the rise
    /// from the entry `first` to the last entry. Returns the index of the entry at the end of the
    /// plateau, or `first` if there is no plateau.
    [[nodiscard]] std::size_t after_plateau(std::size_t first, std::uint64_t least) const noexcept {
        constexpr std::size_t parts = 128;
        // Divides the rise into `parts` parts with equally many steps. `at[k]` is the smallest size
        // from the end of the first `k` parts to the last step.
        std::array<double, parts + 1> at{};
        std::uint64_t const           length = last().step - entries_[first].step;
        for (std::size_t k = 0; k <= parts; ++k) {
            at[k] = static_cast<double>(
                lowest_from(entries_[first].step + static_cast<std::uint64_t>(k) * length / parts));
        }
        for (std::size_t width = parts / 2; width >= 4 && width * length / parts >= least;
             width -= (width + 7) / 8) {
            // For each `q`, tests if the `width` parts before the end of the part `q` are a plateau
            // (almost constant sizes).
            for (std::size_t q = smaller_of(parts - width, 3 * width); q >= width; --q) {
                // `usual` is the average rise of `width` parts after the plateau. In a plateau, the
                // sizes rise by less than a quarter of `usual`.
                double const slope = (at[parts] - at[q]) / static_cast<double>(parts - q);
                double const usual = slope * static_cast<double>(width);
                bool         found = 4 * (at[q] - at[q - width]) < usual;
                // After a plateau, each `width / 2` parts must rise by at least a quarter of the
                // average rise. This excludes sizes that grow by jumps.
                for (std::size_t k = q; found && k + width / 2 <= parts; ++k) {
                    found = 8 * (at[k + width / 2] - at[k]) >= usual;
                }
                if (found) { return corner(entries_[first].step + (q - width) * length / parts); }
            }
        }
        return first;
    }
    /// Compares the sizes of the entries from `step` on with a straight line from `step` to the
    /// last entry. Returns the index of the entry farthest below the line, or the index of the last
    /// entry if none lies below.
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
    /// Removes about half of the stored entries, or more, to make room for new ones. Keeps the
    /// first and the last entry, and removes entries that are close to their predecessor.
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

    /// Returns the size of the first entry from the step `step` on. This is the smallest size from
    /// `step` to the last step, unless `thin_out` has removed entries.
    [[nodiscard]] std::size_t lowest_from(std::uint64_t step) const noexcept {
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
    /// Returns true if the sizes from `begin` to `end` are close to a straight line. At seven steps
    /// between them, each size may be off the line by at most 20 % of the whole rise.
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
    /// `returned_[i]` is the height of the highest swing (a rise that fell again) among all swings
    /// that were 2^(i-1) to 2^i - 1 steps long.
    std::array<std::size_t, 65> returned_{};
    std::uint64_t               steps_ = 0;
};

} // namespace detail
} // namespace vram
