// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `referred_range` is a range that refers to another range, as `std::ranges::ref_view` does.

#include <vram/base/core/range_concepts.hpp>

namespace vram {
namespace detail {

/// A range with the elements of another range, which must outlive it. If a loader's source is
/// an lvalue range, the loader stores this instead of a copy.
template <std::ranges::input_range Range>
class referred_range {
public:
    explicit(false) referred_range(Range& of) noexcept : of_{&of} {}

    [[nodiscard]] auto begin() const { return std::ranges::begin(*of_); }
    [[nodiscard]] auto end() const { return std::ranges::end(*of_); }

private:
    Range* of_;
};

} // namespace detail
} // namespace vram
