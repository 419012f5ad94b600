// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `batch_source` is a loader's access to its source, which writes batches into host memory,
/// enqueues copies, or is a range to be copied.

#include <vram/base/core/range_concepts.hpp>
#include <vram/transfer/loader_error.hpp>

#include <cerrno>   // errno
#include <concepts> // integral, same_as, convertible_to
#include <cstddef>
#include <cstring>     // memcpy
#include <optional>    // optional
#include <span>        // span, as_bytes
#include <stop_token>  // stop_token
#include <type_traits> // unwrap_reference_t, remove_reference_t, remove_cvref_t, is_signed_v
#include <utility>

namespace vram {
namespace detail {

/// A type that a source's function may return. An integer is the number of bytes of the batch; 0
/// means that no batch follows, and a negative number that the source failed. A `bool` is true if
/// the batch fills the whole block, and false if no batch follows.
template <class Number>
concept batch_count = std::integral<std::remove_cvref_t<Number>>;

/// A source that writes batches in any order: `fill(to, index, stop)` writes batch `index` into
/// pinned memory and returns the number of bytes, or 0 if there is no such batch. Several threads
/// may call it at once with different indices. After a stop request, the batch is not needed.
template <class F>
concept indexed_source =
    requires(F& f, std::span<std::byte> to, std::size_t index, std::stop_token stop) {
        { f.fill(to, index, stop) } -> batch_count;
    } || requires(F& f, std::span<std::byte> to, std::size_t index) {
        { f.fill(to, index) } -> batch_count;
    } || requires(F& f, std::span<std::byte> to, std::size_t index, std::stop_token stop) {
        { f(to, index, stop) } -> batch_count;
    } || requires(F& f, std::span<std::byte> to, std::size_t index) {
        { f(to, index) } -> batch_count;
    };

/// A source that writes batches into pinned memory and returns the bytes: an `indexed_source`, or a
/// callable `fill(to)` that writes the next batch, called by one thread at a time.
template <class F>
concept filling_source = indexed_source<F> || requires(F& fill, std::span<std::byte> to) {
    { fill(to) } -> batch_count;
};

/// A source that enqueues its own copies: `enqueue(to, index, copies)` enqueues, on the stream
/// `copies`, the work that writes batch `index` into the device memory `to`, and returns the bytes;
/// 0 if there is no such batch. One thread at a time calls the source.
template <class S, class Stream>
concept enqueueing_source =
    requires(S& s, std::span<std::byte> to, std::size_t index, Stream copies) {
        { s.enqueue(to, index, copies) } -> batch_count;
    };

/// A range of batches in host memory, such as vectors of floats: each element is a contiguous range
/// of trivially copyable elements.
template <class R>
concept copied_source =
    std::ranges::input_range<R> &&
    std::ranges::contiguous_range<std::ranges::range_reference_t<R>> &&
    std::ranges::sized_range<std::ranges::range_reference_t<R>> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<std::ranges::range_reference_t<R>>>;

/// A type that can be called like a `filling_source`, but may return any type. Used for a clear
/// compiler message if a source returns a wrong type.
template <class F>
concept callable_source =
    requires(F& f, std::span<std::byte> to, std::size_t index, std::stop_token stop) {
        f.fill(to, index, stop);
    } || requires(F& f, std::span<std::byte> to, std::size_t index) { f.fill(to, index); } ||
    requires(F& f, std::span<std::byte> to, std::size_t index, std::stop_token stop) {
        f(to, index, stop);
    } || requires(F& f, std::span<std::byte> to, std::size_t index) { f(to, index); } ||
    requires(F& f, std::span<std::byte> to) { f(to); };

/// A type with a member `enqueue` like that of an `enqueueing_source`, but with any return type.
/// Used for a clear compiler message if a source returns a wrong type.
template <class S, class Stream>
concept callable_enqueueing_source = requires(S& s, std::span<std::byte> to, std::size_t index,
                                              Stream copies) { s.enqueue(to, index, copies); };

/// A source with `size()`, the number of its batches, so that the loader can shuffle them. A
/// range (`copied_source`) is excluded, because its size also counts empty elements.
template <class S>
concept counted_source = !copied_source<S> && requires(S const& s) {
    { s.size() } -> std::convertible_to<std::size_t>;
};

/// A source with `size()` and `batch_bytes(index)`, the number of bytes of a batch. By these
/// functions, the loader learns the sizes of batches before they are filled.
template <class S>
concept measured_source = counted_source<S> && requires(S const& s, std::size_t index) {
    { s.batch_bytes(index) } -> std::convertible_to<std::size_t>;
};

/// A `measured_source` with a function `is_short(index)`, by which the source itself decides which
/// batches are short. A batch with few bytes can then count as full.
template <class S>
concept deciding_source = measured_source<S> && requires(S const& s, std::size_t index) {
    { s.is_short(index) } -> std::same_as<bool>;
};

/// The type of the source object: `Source` without a reference, or, for `std::ref(source)`, the
/// type of `source`.
template <class Source>
using source_itself = std::remove_reference_t<std::unwrap_reference_t<Source>>;

/// A source that can be read again from the beginning: any but a single-pass range. If it keeps a
/// position, it needs a member `restart()`, which is not checked here.
template <class S>
concept restartable_source =
    !std::ranges::range<source_itself<S>> || std::ranges::forward_range<source_itself<S>>;

/// Gives a loader the same interface to each kind of source: a callable, a class or a range.
///
/// Failure   `fill` and `enqueue` throw the exceptions of the source. `checked` throws
///           `loader_error` if the source returned an invalid number of bytes.
/// Threads   Several threads may call `fill` at the same time only if `concurrent` is true.
template <class Source>
class batch_source {
    using itself = source_itself<Source>;

public:
    /// True if several threads may call `fill` at the same time, each with another index.
    static constexpr bool concurrent = indexed_source<itself> && !copied_source<itself>;
    /// True if the batches are copied through pinned memory. False if the source itself enqueues
    /// the work that writes them into device memory.
    static constexpr bool fills = filling_source<itself> || copied_source<itself>;

    static constexpr bool indexed = concurrent || !fills;
    /// True if the source has `size()` and `batch_bytes(index)`: the size of each batch is known
    /// before it is filled.
    static constexpr bool measured = measured_source<itself>;
    static constexpr bool decides  = deciding_source<itself>;

    explicit batch_source(Source from) : source_{std::move(from)} {}

    /// Makes the source write batch `index` into the pinned memory `to`, and returns the source's
    /// result. If the source is a range, copies the range's next nonempty element instead.
    auto fill(std::span<std::byte> to, std::size_t index, std::stop_token const& stop)
        requires fills
    {
        return ask(to, index, stop);
    }

    /// Makes the source enqueue the work that writes batch `index` into the device memory `to`, and
    /// returns the source's result.
    template <class Stream>
        requires enqueueing_source<itself, Stream>
    auto enqueue(std::span<std::byte> to, std::size_t index, Stream copies) {
        return source().enqueue(to, index, copies);
    }

    /// Converts the source's result `count` to the bytes of the batch; true means all `room` bytes
    /// of its block. Throws `loader_error` if `count` exceeds `room` or is negative.
    template <batch_count Count>
    static std::size_t checked(Count count, std::size_t room, std::size_t index) {
        if constexpr (std::is_signed_v<Count>) {
            if (count < 0) { throw loader_error::negative(count, errno).at(index, index); }
        }
        if constexpr (std::same_as<Count, bool>) { return count ? room : 0; }
        auto const bytes = static_cast<std::size_t>(count);
        if (bytes > room) {
            loader_error e{loader_error::reason::too_large, index, bytes, room};
            throw loader_error{e.at(index, index)};
        }
        return bytes;
    }

    /// Returns the number of batches, or `unknown` if the source is a range or has no `size()`.
    [[nodiscard]] std::size_t size() const {
        if constexpr (counted_source<itself>) {
            return source().size();
        } else {
            return unknown;
        }
    }
    static constexpr std::size_t unknown = static_cast<std::size_t>(-1);

    /// Returns the source's largest number of bytes of a batch, or 0 if the source has no
    /// `batch_bytes()`.
    [[nodiscard]] std::size_t batch_bytes() const {
        if constexpr (requires(itself const& s) {
                          { s.batch_bytes() } -> std::convertible_to<std::size_t>;
                      }) {
            return source().batch_bytes();
        } else {
            return 0;
        }
    }

    /// Returns the bytes of batch `index`, which must be less than `size()`.
    [[nodiscard]] std::size_t bytes_of(std::size_t index) const
        requires measured
    {
        return source().batch_bytes(index);
    }

    /// Returns true if batch `index` is short: by the source's `is_short(index)` or, without this
    /// function, if it has fewer than `full` bytes.
    [[nodiscard]] bool is_short(std::size_t index, [[maybe_unused]] std::size_t full) const
        requires measured
    {
        if constexpr (decides) {
            return source().is_short(index);
        } else {
            return bytes_of(index) < full;
        }
    }

    /// Calls the source's `restart()`, if it has one. A range begins again at its first element.
    void restart()
        requires restartable_source<Source>
    {
        if constexpr (requires(itself& s) { s.restart(); }) { source().restart(); }
        if constexpr (copied_source<itself>) { at_.reset(); }
    }

private:
    itself&       source() noexcept { return source_; }
    itself const& source() const noexcept { return source_; }

    auto ask(std::span<std::byte> to, std::size_t index, std::stop_token const& stop) {
        if constexpr (copied_source<itself>) {
            return copy_next(to);
        } else if constexpr (requires(itself& f) { f.fill(to, index, stop); }) {
            return source().fill(to, index, stop);
        } else if constexpr (requires(itself& f) { f.fill(to, index); }) {
            return source().fill(to, index);
        } else if constexpr (requires(itself& f) { f(to, index, stop); }) {
            return source()(to, index, stop);
        } else if constexpr (requires(itself& f) { f(to, index); }) {
            return source()(to, index);
        } else {
            return source()(to);
        }
    }

    /// Copies the next nonempty element of the range to `to`, and returns the element's number of
    /// bytes, or 0 at the end of the range. An element larger than `to` is not copied.
    std::size_t copy_next(std::span<std::byte> to)
        requires copied_source<itself>
    {
        if (!at_) { at_.emplace(std::ranges::begin(source())); }
        while (*at_ != std::ranges::end(source())) {
            auto&&     element = **at_;
            auto const from    = std::as_bytes(std::span{element});
            if (from.size() <= to.size() && !from.empty()) {
                std::memcpy(to.data(), from.data(), from.size());
            }
            ++*at_;
            // An empty element is skipped, because a size of 0 would mean the end.
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
    [[no_unique_address]] typename place<itself>::type at_;
};

} // namespace detail
} // namespace vram
