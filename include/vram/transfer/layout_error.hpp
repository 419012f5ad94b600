// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `layout_error` is thrown for data that cannot be divided, or laid out, as requested.

#include <vram/base/requirements.hpp> // C++20

#include <vram/transfer/what_text.hpp> // what_text

#include <cstddef>   // size_t
#include <exception> // exception
#include <string>    // string, to_string

namespace vram {

/// What does not fit together: `value` against `limit`, in dimension (or field) `dimension`.
class layout_error : public std::exception {
public:
    enum class reason {
        too_large,  ///< `value` times what is in the dimensions after it has no number: `limit`
        empty,      ///< a piece of nothing: the data would never end
        overlap,    ///< pieces overlap by `value`, and are no longer than that themselves: `limit`
        wrong_size, ///< there are `value` bytes, and `limit` are needed
        not_whole,  ///< `value` bytes are no whole number of samples; `limit` would be the most
        no_pattern, ///< memory on the device can be filled with a byte, not with such an element
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
    [[nodiscard]] std::size_t dimension() const noexcept { return dimension_; }

    [[nodiscard]] char const* what() const noexcept override { return text_.c_str(); }

private:
    static constexpr char const* literal(reason why) noexcept {
        switch (why) {
        case reason::too_large: return "vram: a layout is larger than memory can be";
        case reason::empty: return "vram: a layout is made of pieces of nothing";
        case reason::overlap: return "vram: pieces overlap by no less than they are long";
        case reason::wrong_size: return "vram: memory has not the size of its layout";
        case reason::not_whole: return "vram: a batch is no whole number of samples";
        case reason::no_pattern: return "vram: no byte repeated makes this element";
        }
        return "vram: layout";
    }
    [[nodiscard]] std::string text() const {
        auto const        n    = [](std::size_t number) { return std::to_string(number); };
        std::string const base = literal(why_);
        switch (why_) {
        case reason::too_large:
            return base + ": " + n(value_) + " in dimension " + n(dimension_) + ", of at most " +
                   n(limit_);
        case reason::overlap:
            return base + ": an overlap of " + n(value_) + ", and pieces of " + n(limit_);
        case reason::wrong_size: return base + ": " + n(value_) + " instead of " + n(limit_);
        case reason::not_whole: return base + ": " + n(value_) + " bytes, of at most " + n(limit_);
        case reason::empty:
        case reason::no_pattern: break;
        }
        return base;
    }

    reason      why_;
    std::size_t value_;
    std::size_t limit_;
    std::size_t dimension_;
    what_text   text_;
};

} // namespace vram
