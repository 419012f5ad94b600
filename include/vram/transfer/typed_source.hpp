// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `typed_source` lets a source fill elements instead of bytes.

#include <vram/base/align.hpp> // unsatisfiable

#include <concepts>    // invocable
#include <cstddef>     // size_t, byte
#include <span>        // span
#include <stop_token>  // stop_token
#include <type_traits> // is_trivially_copyable_v
#include <utility>     // move

namespace vram {

/// A source for a loader out of a callable that is given elements, and answers how many it wrote: 0
/// is the end. It is told the index and the stop token, or the index, or neither, as any source.
///
///     loader batches{typed<float>([&](std::span<float> to, std::size_t index) {
///         return read_samples(index, to);
///     }), stream, {.batch_bytes = 1'000'000 * sizeof(float)}};
///
/// Failure   what the callable throws; where it says more elements than there is room for, the
///           loader throws, as of any source
/// Threads   as the callable
/// Cost      none
template <class Element, class Fill>
    requires std::is_trivially_copyable_v<Element>
class typed_source {
    using elements = std::span<Element>;

public:
    explicit typed_source(Fill fill) : fill_{std::move(fill)} {}

    std::size_t operator()(std::span<std::byte> to, std::size_t index, std::stop_token const& stop)
        requires std::invocable<Fill&, elements, std::size_t, std::stop_token const&>
    {
        return bytes(fill_(room(to), index, stop));
    }
    std::size_t operator()(std::span<std::byte> to, std::size_t index)
        requires std::invocable<Fill&, elements, std::size_t>
    {
        return bytes(fill_(room(to), index));
    }
    std::size_t operator()(std::span<std::byte> to)
        requires std::invocable<Fill&, elements>
    {
        return bytes(fill_(room(to)));
    }

private:
    /// What does not make a whole element at the end is left out.
    static elements room(std::span<std::byte> to) noexcept {
        return {reinterpret_cast<Element*>(to.data()), to.size() / sizeof(Element)};
    }
    /// Too many for the room are the loader's to refuse, and too many for a number as well.
    static constexpr std::size_t bytes(std::size_t count) noexcept {
        return count > unsatisfiable / sizeof(Element) ? unsatisfiable : count * sizeof(Element);
    }

    Fill fill_;
};

/// The callable `fill` as a source of elements.
template <class Element, class Fill>
[[nodiscard]] typed_source<Element, Fill> typed(Fill fill) {
    return typed_source<Element, Fill>{std::move(fill)};
}

} // namespace vram
