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
#include <type_traits> // is_trivially_copyable_v, is_signed_v, conditional_t, ...
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
/// Failure   Throws the exceptions of the callable. If `loader_options::batch_bytes` is less than
///           one element, the loader throws `loader_error{too_large}`.
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
        return filled(to, index, stop);
    }
    auto operator()(std::span<std::byte> to, std::size_t index)
        requires std::invocable<Fill&, elements, std::size_t>
    {
        return filled(to, index);
    }
    auto operator()(std::span<std::byte> to)
        requires std::invocable<Fill&, elements>
    {
        return filled(to);
    }

private:
    /// Calls `fill_` to write elements to `to`, and returns the number of bytes of these elements.
    /// If `fill_` returns a negative number, returns this number. If `to` is smaller than one
    /// element, returns the size of one element, so that the loader throws `too_large`.
    template <class... Argument>
    auto filled(std::span<std::byte> to, Argument const&... arguments) {
        using count =
            std::remove_cvref_t<std::invoke_result_t<Fill&, elements, Argument const&...>>;
        static_assert(
            detail::batch_count<count>,
            "typed: the callable returns the number of elements that it wrote, an integer or bool");
        using result = std::conditional_t<std::is_signed_v<count>, std::ptrdiff_t, std::size_t>;
        if (to.size() < sizeof(Element)) { return static_cast<result>(sizeof(Element)); }
        elements const room{reinterpret_cast<Element*>(to.data()), to.size() / sizeof(Element)};
        count const    got = fill_(elements{room}, arguments...);
        if constexpr (std::is_same_v<count, bool>) {
            return got ? room.size_bytes() : std::size_t{0};
        } else {
            if constexpr (std::is_signed_v<count>) {
                if (got < 0) { return static_cast<result>(got); }
            }
            constexpr auto most = static_cast<std::size_t>(std::numeric_limits<result>::max());
            auto const     n    = static_cast<std::size_t>(got);
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
