// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `batch_source` is where batches come from: a source that fills, one that enqueues, or a range
/// that is copied.

#include <vram/transfer/loader_error.hpp> // loader_error

#include <cerrno>      // errno
#include <concepts>    // integral, same_as, convertible_to
#include <cstddef>     // size_t, byte
#include <cstring>     // memcpy
#include <functional>  // reference_wrapper
#include <optional>    // optional
#include <ranges>      // input_range, contiguous_range
#include <span>        // span, as_bytes
#include <stop_token>  // stop_token
#include <type_traits> // unwrap_reference_t, remove_reference_t, remove_cvref_t, is_signed_v
#include <utility>     // move

namespace vram {

/// The result of a source: the number of bytes of the batch, 0 at the end. A negative number means
/// that the source failed, so the result of `read()` may be returned. If the source returns a
/// `bool`, true means that it wrote the whole range, and false that there is no further batch.
template <class Number>
concept batch_count = std::integral<std::remove_cvref_t<Number>>;

/// Fills the batch that it is asked for: `fill(to, index, stop)` writes batch `index` into pinned
/// memory, in place, and returns the number of bytes of the batch; 0 ends the loader. A callable,
/// or a class with a member `fill`. `stop` may be left out; it says that the batch is not needed
/// any more, and a source that takes long tests it. With several producers it is called by several
/// threads at once, each time with another index.
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

/// The same, or one that does not receive the index: `fill(to)` writes the next batch. That one is
/// called by one thread, however many producers there may be.
template <class F>
concept filling_source = indexed_source<F> || requires(F& fill, std::span<std::byte> to) {
    { fill(to) } -> batch_count;
};

/// Puts the copies of batch `index` on the copy stream itself: `enqueue(to, index, copies)` with
/// the device memory of the batch, and returns its bytes; 0 ends the loader.
/// No pinned memory is taken for it. It is called by one thread, in the order of the indices.
template <class S, class Stream>
concept enqueueing_source =
    requires(S& s, std::span<std::byte> to, std::size_t index, Stream copies) {
        { s.enqueue(to, index, copies) } -> batch_count;
    };

/// A range of batches that lie elsewhere: spans, vectors, arrays of trivially copyable elements.
template <class R>
concept copied_source =
    std::ranges::input_range<R> &&
    std::ranges::contiguous_range<std::ranges::range_reference_t<R>> &&
    std::ranges::sized_range<std::ranges::range_reference_t<R>> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<std::ranges::range_reference_t<R>>>;

/// Can be called as a source, whatever it returns.
template <class F>
concept callable_source =
    requires(F& f, std::span<std::byte> to, std::size_t index, std::stop_token stop) {
        f.fill(to, index, stop);
    } || requires(F& f, std::span<std::byte> to, std::size_t index) { f.fill(to, index); } ||
    requires(F& f, std::span<std::byte> to, std::size_t index, std::stop_token stop) {
        f(to, index, stop);
    } || requires(F& f, std::span<std::byte> to, std::size_t index) { f(to, index); } ||
    requires(F& f, std::span<std::byte> to) { f(to); };

/// The same for a source that enqueues.
template <class S, class Stream>
concept callable_enqueueing_source = requires(S& s, std::span<std::byte> to, std::size_t index,
                                              Stream copies) { s.enqueue(to, index, copies); };

/// Says how many batches it has: none is asked for beyond them, all of them must come, and they can
/// be shuffled. (The size of a range of spans or vectors is not used: empty ones are no batches.)
template <class S>
concept counted_source = !copied_source<S> && requires(S const& s) {
    { s.size() } -> std::convertible_to<std::size_t>;
};

/// Also says how many bytes each batch has, before it is asked for it: `batch_bytes(index)`. So the
/// loader knows beforehand which batches are short.
template <class S>
concept measured_source = counted_source<S> && requires(S const& s, std::size_t index) {
    { s.batch_bytes(index) } -> std::convertible_to<std::size_t>;
};

/// What a `Source` is, or refers to: `std::ref(source)` is one that the loader does not keep.
template <class Source>
using source_itself = std::remove_reference_t<std::unwrap_reference_t<Source>>;

/// Can be read again: `restart()` takes it to its beginning. Callables that receive the index, and
/// ranges that can be read twice, need no such member.
template <class S>
concept restartable_source =
    !std::ranges::range<source_itself<S>> || std::ranges::forward_range<source_itself<S>>;

/// Any kind, as a loader sees it.
///
/// Failure   `fill` and `enqueue` throw what the source throws; `checked` throws `loader_error`
/// Threads   as many at once as `concurrent` says
/// Cost      a range costs one more copy on the host than a source that writes where it should
template <class Source>
class batch_source {
    using itself = source_itself<Source>;

public:
    /// Whether batches can be filled by several threads at once.
    static constexpr bool concurrent = indexed_source<itself> && !copied_source<itself>;
    /// Whether it writes into pinned memory, or is copied there.
    static constexpr bool fills = filling_source<itself> || copied_source<itself>;

    /// Whether it receives the index of the batch.
    static constexpr bool indexed = concurrent || !fills;
    /// Whether it says the bytes of each batch.
    static constexpr bool measured = measured_source<itself>;

    explicit batch_source(Source from) : source_{std::move(from)} {}

    /// Has batch `index` written into `to`; returns what the source returns.
    auto fill(std::span<std::byte> to, std::size_t index, std::stop_token const& stop)
        requires fills
    {
        return ask(to, index, stop);
    }

    /// Has the copies of batch `index` put on `copies`; returns what the source returns.
    template <class Stream>
        requires enqueueing_source<itself, Stream>
    auto enqueue(std::span<std::byte> to, std::size_t index, Stream copies) {
        return source().enqueue(to, index, copies);
    }

    /// The bytes of batch `index`, of which the source returned `count`: 0 at the end. Throws
    /// `loader_error` if they are more than `room`, or if the source failed.
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

    /// How many batches there are; `unknown` where the source does not say.
    [[nodiscard]] std::size_t size() const {
        if constexpr (counted_source<itself>) {
            return source().size();
        } else {
            return unknown;
        }
    }
    static constexpr std::size_t unknown = static_cast<std::size_t>(-1);

    /// Bytes that a batch has at most, where the source says so; else 0.
    [[nodiscard]] std::size_t batch_bytes() const {
        if constexpr (requires(itself const& s) {
                          { s.batch_bytes() } -> std::convertible_to<std::size_t>;
                      }) {
            return source().batch_bytes();
        } else {
            return 0;
        }
    }

    /// The bytes of batch `index`, which there is.
    [[nodiscard]] std::size_t bytes_of(std::size_t index) const
        requires measured
    {
        return source().batch_bytes(index);
    }

    /// Back to the beginning.
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

    /// Empty batches of a range are passed over: a size of 0 is the end.
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

} // namespace vram
