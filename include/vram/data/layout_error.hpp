// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `layout_error` is thrown for data that cannot be divided, or laid out, as requested.

#include <vram/base/requirements.hpp>

#include <vram/base/core/what_text.hpp>

#include <cstddef>
#include <exception> // exception
#include <string>    // string, to_string

namespace vram {

/// Thrown if data cannot be divided or laid out as requested. Each `reason` describes the numbers
/// that `value()` and `limit()` return.
class layout_error : public std::exception {
public:
    /// Reasons of a `layout_error`.
    enum class reason {
        /// The layout needs more memory than can exist. `value()` is the number of elements or
        /// samples, and `limit()` is the largest possible number.
        too_large,
        empty,   ///< a piece, a tile, a record or a batch of 0 bytes
        overlap, ///< the overlap of `value()` bytes is not less than the piece of `limit()` bytes
        /// A size does not fit the layout. Either memory has `value()` bytes, but the layout needs
        /// `limit()` bytes. Or there are `value()` samples, but at most `limit()` are possible.
        wrong_size,
        /// A batch of `value` bytes is not a whole number of samples, or exceeds the largest batch
        /// of `limit` bytes.
        not_whole,
        /// The value of the elements beyond the border of a volume consists of `value()` bytes that
        /// differ. Device memory can only be filled by repeating one byte.
        no_pattern,
    };

    explicit layout_error(reason why, std::size_t value = 0, std::size_t limit = 0,
                          std::size_t dimension = 0) noexcept
        : why_{why},
          value_{value},
          limit_{limit},
          dimension_{dimension},
          text_{literal(why), [this] { return text(); }} {}

    [[nodiscard]] reason      why() const noexcept { return why_; }
    [[nodiscard]] std::size_t value() const noexcept { return value_; }
    [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
    /// Returns the index, from 0, of the dimension or field that caused the error. Also returns 0
    /// if the error concerns no dimension or field.
    [[nodiscard]] std::size_t dimension() const noexcept { return dimension_; }

    [[nodiscard]] char const* what() const noexcept override { return text_.c_str(); }

private:
    static constexpr char const* literal(reason why) noexcept {
        switch (why) {
        case reason::too_large: return "vram: a layout needs more memory than can exist";
        case reason::empty: return "vram: a layout has pieces of 0 bytes";
        case reason::overlap: return "vram: the overlap of pieces is not less than their length";
        case reason::wrong_size: return "vram: memory does not have the size of its layout";
        case reason::not_whole: return "vram: a batch is not a whole number of samples";
        case reason::no_pattern:
            return "vram: device memory cannot be filled with this element, because its bytes "
                   "differ";
        }
        return "vram: layout";
    }
    [[nodiscard]] std::string text() const {
        auto const        n    = [](std::size_t number) { return std::to_string(number); };
        std::string const base = literal(why_);
        switch (why_) {
        case reason::too_large:
            return base + ": " + n(value_) + " in dimension or field " + n(dimension_) +
                   ", of at most " + n(limit_);
        case reason::overlap:
            return base + ": an overlap of " + n(value_) + ", and pieces of " + n(limit_);
        case reason::wrong_size: return base + ": " + n(value_) + " instead of " + n(limit_);
        case reason::not_whole: return base + ": " + n(value_) + " bytes, of at most " + n(limit_);
        case reason::empty:
        case reason::no_pattern: break;
        }
        return base;
    }

    reason            why_;
    std::size_t       value_;
    std::size_t       limit_;
    std::size_t       dimension_;
    detail::what_text text_;
};

} // namespace vram
