// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `batch_source` is where batches come from: a callable that fills, or a range that is copied.

#include <vram/transfer/loader_error.hpp> // loader_error

#include <concepts>   // same_as, convertible_to
#include <cstddef>    // size_t, byte
#include <cstring>    // memcpy
#include <optional>   // optional
#include <ranges>     // input_range, contiguous_range
#include <span>       // span, as_bytes
#include <stop_token> // stop_token
#include <utility>    // move

namespace vram {

/// Fills pinned memory in place: `fill(to, index, stop)` writes batch `index` into `to` and says
/// how many bytes of it are the batch; 0 ends the loader. The later arguments may be left out.
/// `stop` tells it that nobody waits for the batch any more; a source that takes long looks at it.
template <class F>
concept filling_source =
    requires(F& fill, std::span<std::byte> to, std::size_t index, std::stop_token stop) {
        { fill(to, index, stop) } -> std::convertible_to<std::size_t>;
    } || requires(F& fill, std::span<std::byte> to, std::size_t index) {
        { fill(to, index) } -> std::convertible_to<std::size_t>;
    } || requires(F& fill, std::span<std::byte> to) {
        { fill(to) } -> std::convertible_to<std::size_t>;
    };

/// A range of batches that lie elsewhere: spans, vectors, arrays of trivially copyable elements.
template <class R>
concept copied_source =
    std::ranges::input_range<R> &&
    std::ranges::contiguous_range<std::ranges::range_reference_t<R>> &&
    std::ranges::sized_range<std::ranges::range_reference_t<R>> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<std::ranges::range_reference_t<R>>>;

/// Either kind, as a loader sees it.
///
/// Failure   `loader_error{too_large}` where a batch is larger than its slot, with both numbers;
///           what the source throws passes through
/// Threads   called by one at a time
/// Cost      a range costs one more copy on the host than a callable that writes where it should
template <class Source>
    requires filling_source<Source> || copied_source<Source>
class batch_source {
public:
    explicit batch_source(Source source) : source_{std::move(source)} {}

    /// Writes batch `index` into `to`; its size, or 0 at the end.
    std::size_t fill(std::span<std::byte> to, std::size_t index, std::stop_token const& stop) {
        std::size_t const bytes = ask(to, index, stop);
        if (bytes > to.size()) {
            throw loader_error{loader_error::reason::too_large, index, bytes, to.size()};
        }
        return bytes;
    }

private:
    std::size_t ask(std::span<std::byte> to, std::size_t index, std::stop_token const& stop) {
        if constexpr (copied_source<Source>) {
            return copy_next(to);
        } else if constexpr (requires { source_(to, index, stop); }) {
            return source_(to, index, stop);
        } else if constexpr (requires { source_(to, index); }) {
            return source_(to, index);
        } else {
            return source_(to);
        }
    }

    /// Empty batches of a range are passed over: a size of 0 is the end.
    std::size_t copy_next(std::span<std::byte> to)
        requires copied_source<Source>
    {
        if (!at_) { at_.emplace(std::ranges::begin(source_)); }
        while (*at_ != std::ranges::end(source_)) {
            auto&&     element = **at_;
            auto const from    = std::as_bytes(std::span{element});
            if (from.size() <= to.size() && !from.empty()) {
                std::memcpy(to.data(), from.data(), from.size());
            }
            ++*at_;
            if (!from.empty()) { return from.size(); }
        }
        return 0;
    }

    template <class S>
    struct place {
        struct nothing {};
        using type = nothing;
    };
    template <copied_source S>
    struct place<S> {
        using type = std::optional<std::ranges::iterator_t<S>>;
    };

    Source                                             source_;
    [[no_unique_address]] typename place<Source>::type at_;
};

} // namespace vram
