// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `typed_source` makes a loader's source of a function that writes elements instead of bytes.

#include <vram/transfer/core/batch_source.hpp> // batch_count

#include <concepts> // invocable
#include <cstddef>
#include <limits>      // numeric_limits
#include <span>        // span
#include <stop_token>  // stop_token
#include <type_traits> // is_trivially_copyable_v, is_signed_v, conditional_t
#include <utility>

namespace vram {

/// A loader's source made of a callable that writes a span of elements and returns their number: 0
/// means no further batch, a negative number a failure. A `bool` result true means the whole span.
/// The callable may also take the index of the batch.
///
///     loader batches{typed<float>([&](std::span<float> to, std::size_t index) {
///         return read_samples(index, to);
///     }), stream, {.batch_bytes = 1'000'000 * sizeof(float)}};
///
/// Failure   Throws the exceptions of the callable.
/// Threads   The rules are those of the callable.
template <class Element, class Fill>
    requires std::is_trivially_copyable_v<Element>
class typed_source {
    using elements = std::span<Element>;

public:
    explicit typed_source(Fill fill) : fill_{std::move(fill)} {}

    auto operator()(std::span<std::byte> to, std::size_t index, std::stop_token const& stop)
        requires std::invocable<Fill&, elements, std::size_t, std::stop_token const&>
    {
        return bytes(fill_(room(to), index, stop));
    }
    auto operator()(std::span<std::byte> to, std::size_t index)
        requires std::invocable<Fill&, elements, std::size_t>
    {
        return bytes(fill_(room(to), index));
    }
    auto operator()(std::span<std::byte> to)
        requires std::invocable<Fill&, elements>
    {
        return bytes(fill_(room(to)));
    }

private:
    /// Returns the memory `to` as a span of elements, as many as fit.
    static elements room(std::span<std::byte> to) noexcept {
        return {reinterpret_cast<Element*>(to.data()), to.size() / sizeof(Element)};
    }
    /// Converts a number of elements to bytes, at most the largest number. A negative number is
    /// unchanged.
    template <class Count>
    static constexpr auto bytes(Count count) noexcept {
        static_assert(
            detail::batch_count<Count>,
            "typed: the callable returns the number of elements that it wrote, an integer or bool");
        if constexpr (std::is_same_v<Count, bool>) {
            return count;
        } // returned unchanged: true means the whole range
        else {
            using result = std::conditional_t<std::is_signed_v<Count>, std::ptrdiff_t, std::size_t>;
            if constexpr (std::is_signed_v<Count>) {
                if (count < 0) { return static_cast<result>(count); }
            }
            constexpr auto most = static_cast<std::size_t>(std::numeric_limits<result>::max());
            auto const     n    = static_cast<std::size_t>(count);
            return static_cast<result>(n > most / sizeof(Element) ? most : n * sizeof(Element));
        }
    }

    Fill fill_;
};

/// Returns a loader's source that calls `fill` to write batches as elements, for example
/// `typed<float>(fill)`. See `typed_source`.
template <class Element, class Fill>
[[nodiscard]] typed_source<Element, Fill> typed(Fill fill) {
    return typed_source<Element, Fill>{std::move(fill)};
}

} // namespace vram
