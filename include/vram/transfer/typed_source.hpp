// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `typed_source` lets a source fill elements instead of bytes.

#include <vram/transfer/batch_source.hpp> // batch_count

#include <concepts>    // invocable
#include <cstddef>     // size_t, ptrdiff_t, byte
#include <limits>      // numeric_limits
#include <span>        // span
#include <stop_token>  // stop_token
#include <type_traits> // is_trivially_copyable_v, is_signed_v, conditional_t
#include <utility>     // move

namespace vram {

/// A source for a loader made of a callable that gets elements and returns how many it wrote: 0 is
/// the end, and a negative number means that it failed. It receives the index and the stop token,
/// or the index, or neither, as any source.
///
///     loader batches{typed<float>([&](std::span<float> to, std::size_t index) {
///         return read_samples(index, to);
///     }), stream, {.batch_bytes = 1'000'000 * sizeof(float)}};
///
/// Failure   what the callable throws; if it returns more elements than there is room for, or a
///           negative number, the loader throws, as with any source
/// Threads   as the callable
/// Cost      none
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
    /// What does not make a whole element at the end is left out.
    static elements room(std::span<std::byte> to) noexcept {
        return {reinterpret_cast<Element*>(to.data()), to.size() / sizeof(Element)};
    }
    /// The loader refuses what is more than there is room for, also if the bytes have no number. A
    /// negative count stays as it is.
    template <class Count>
    static constexpr auto bytes(Count count) noexcept {
        static_assert(
            batch_count<Count>,
            "typed: the callable returns the number of elements that it wrote, an integer or bool");
        if constexpr (std::is_same_v<Count, bool>) {
            return count;
        } // true: the whole range
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

/// The callable `fill` as a source of elements.
template <class Element, class Fill>
[[nodiscard]] typed_source<Element, Fill> typed(Fill fill) {
    return typed_source<Element, Fill>{std::move(fill)};
}

} // namespace vram
