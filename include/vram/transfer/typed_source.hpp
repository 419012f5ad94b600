// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `typed_source` lets a source fill elements instead of bytes.

#include <vram/base/align.hpp>            // unsatisfiable
#include <vram/transfer/loader_error.hpp> // loader_error

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
/// Failure   `loader_error{too_large}` where more elements are said than there is room for; what
///           the callable throws
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
        return bytes(fill_(room(to), index, stop), to, index);
    }
    std::size_t operator()(std::span<std::byte> to, std::size_t index)
        requires std::invocable<Fill&, elements, std::size_t>
    {
        return bytes(fill_(room(to), index), to, index);
    }
    std::size_t operator()(std::span<std::byte> to)
        requires std::invocable<Fill&, elements>
    {
        return bytes(fill_(room(to)), to, 0);
    }

private:
    /// What does not make a whole element at the end is left out.
    static elements room(std::span<std::byte> to) noexcept {
        return {reinterpret_cast<Element*>(to.data()), to.size() / sizeof(Element)};
    }
    static std::size_t bytes(std::size_t count, std::span<std::byte> to, std::size_t index) {
        std::size_t const most = to.size() / sizeof(Element);
        if (count > most) {
            std::size_t const said =
                count > unsatisfiable / sizeof(Element) ? unsatisfiable : count * sizeof(Element);
            throw loader_error{loader_error::reason::too_large, index, said, to.size()};
        }
        return count * sizeof(Element);
    }

    Fill fill_;
};

/// The callable `fill` as a source of elements.
template <class Element, class Fill>
[[nodiscard]] typed_source<Element, Fill> typed(Fill fill) {
    return typed_source<Element, Fill>{std::move(fill)};
}

} // namespace vram
