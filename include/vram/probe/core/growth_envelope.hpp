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

/// A steady rise of a sequence of sizes: from the size `from` at the step `since` to the size `to`
/// at the step `until`. All members are 0 if there is no rise.
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
/// program. Stores only the sizes that all later sizes exceed. One thread at a time.
///
/// A steady rise is almost straight. It is 1.5 times as high as each swing (a rise that fell again)
/// within it, and no earlier swing was at least about half as long and half as high.
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

    /// Returns a steady rise of `least` or more steps up to the last step, as long as possible. If
    /// a warm-up or a plateau at its start can be left out, begins after it. All members are 0 if
    /// there is none.
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
        /// Greatest height above `size` from which later sizes fell again, to the size of the next
        /// entry or below; 0 if they never fell so.
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
    /// Returns true unless an earlier rise that fell again was at least about half as long and at
    /// least half as high.
    [[nodiscard]] bool is_new(std::uint64_t length, std::size_t height) const noexcept {
        for (std::size_t order = order_of(length / 2); order < returned_.size(); ++order) {
            if (returned_[order] >= height - height / 2) { return false; }
        }
        return true;
    }

    /// Returns the greatest height of a rise that fell again (a swing) in the entries from `i` on,
    /// or 0 if none.
    [[nodiscard]] std::size_t swing_from(std::size_t i) const noexcept {
        std::size_t most = 0;
        for (; i != entries_.size(); ++i) { most = larger_of(most, entries_[i].swing); }
        return most;
    }
    /// Returns true if the rise from the entry `i` on has at least `least` steps, is 1.5 times as
    /// high as each swing within it, and is unlike earlier swings (`is_new`).
    [[nodiscard]] bool is_high(std::size_t i, std::uint64_t least) const noexcept {
        std::uint64_t const length = last().step - entries_[i].step;
        std::size_t const   height = last().size - entries_[i].size;
        return length != 0 && length >= least && is_new(length, height) &&
               2 * (height / 3) >= swing_from(i);
    }

    /// Returns the index of the last entry of a plateau (`least` or more almost constant steps
    /// after a warm-up) in the rise from the entry `first` on; `first` if there is none.
    [[nodiscard]] std::size_t after_plateau(std::size_t first, std::uint64_t least) const noexcept {
        constexpr std::size_t parts = 128;
        // The rise is divided into `parts` stretches of equal length. `at[k]` is the smallest size
        // from the end of the first `k` stretches up to the last step.
        std::array<double, parts + 1> at{};
        std::uint64_t const           length = last().step - entries_[first].step;
        for (std::size_t k = 0; k <= parts; ++k) {
            at[k] = static_cast<double>(
                lowest_from(entries_[first].step + static_cast<std::uint64_t>(k) * length / parts));
        }
        for (std::size_t width = parts / 2; width >= 4 && width * length / parts >= least;
             width -= (width + 7) / 8) {
            // Tries each plateau of `width` stretches that ends at the stretch `q` and begins at
            // most twice its length after `first`.
            for (std::size_t q = smaller_of(parts - width, 3 * width); q >= width; --q) {
                // `usual` is the average rise of `width` stretches after `q`. A plateau rises by
                // less than a quarter of it.
                double const slope = (at[parts] - at[q]) / static_cast<double>(parts - q);
                double const usual = slope * static_cast<double>(width);
                bool         found = 4 * (at[q] - at[q - width]) < usual;
                // Each `width / 2` stretches after the plateau must rise by a quarter of their
                // average. Otherwise the sizes grow by jumps, and there is no plateau.
                for (std::size_t k = q; found && k + width / 2 <= parts; ++k) {
                    found = 8 * (at[k + width / 2] - at[k]) >= usual;
                }
                if (found) { return corner(entries_[first].step + (q - width) * length / parts); }
            }
        }
        return first;
    }
    /// Returns the index of the entry that lies farthest below a straight line from `step` to the
    /// last entry; the last index if none lies below.
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
    /// Removes about half of the entries or more, to make room. Keeps the first, the last, and
    /// others at least 1/2048 of all their steps apart.
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

    /// Returns the smallest size from `step` to the last step, or a larger one if `thin_out` has
    /// removed the entry of that size.
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
    /// Returns true if the sizes at seven equal distances between `begin` and `end` differ from a
    /// straight line by at most 20 % of the rise.
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
    /// `returned_[i]` is the greatest height of the swings (rises that fell again) with a length of
    /// 2^(i-1) to 2^i - 1 steps.
    std::array<std::size_t, 65> returned_{};
    std::uint64_t               steps_ = 0;
};

} // namespace detail
} // namespace vram
