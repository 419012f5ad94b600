// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `array` is a buffer of elements: device memory with a type and a length.

#include <vram/base/call_site.hpp>
#include <vram/base/contract.hpp>           // expects
#include <vram/base/core/smaller_of.hpp>    // larger_of
#include <vram/concepts/core/diagnosed.hpp> // refuse_buffer_copy
#include <vram/concepts/core/user_line.hpp> // user_line, part_kind
#include <vram/handle/buffer.hpp>

#include <concepts> // copy_constructible, same_as
#include <cstddef>
#include <span>        // span
#include <type_traits> // is_trivially_copyable_v
#include <utility>

namespace vram {

/// Device memory for `size()` elements from a resource, uninitialized. Move-only.
///
///     auto weights = make_array<float>(memory, stream, 1'000'000); // array<float, R>
///     weights.copy_from(initial); // a span in host memory
///     kernel<<<grid, block, 0, stream>>>(weights.data(), weights.size());
///
/// Failure   Throws the exceptions of the resource and the platform, and is then unchanged.
/// Threads   One thread at a time.
/// Streams   All operations are ordered on the array's stream, as for `buffer`.
/// Cost      Copies are enqueued; only `get` and `set` wait.
template <class Element, class R>
    requires std::is_trivially_copyable_v<Element>
class array {
    using bytes_type = buffer<R>;

public:
    using value_type    = Element;
    using resource_type = typename bytes_type::resource_type;
    using platform      = typename bytes_type::platform;
    using stream        = typename bytes_type::stream;
    using properties    = typename bytes_type::properties;

    /// Allocates `count` uninitialized elements from `mr` on the stream `s`.
    explicit array(R mr, stream s = {}, std::size_t count = 0, call_site at = call_site::current())
        : bytes_{std::forward<R>(mr), s, bytes_of(count), alignment, at} {}
    /// Allocates memory for the elements of `host` and enqueues their copy. `host` must not change
    /// until the copy is complete.
    array(R mr, stream s, std::span<Element const> host, call_site at = call_site::current())
        : array{std::forward<R>(mr), s, host.size(), at} {
        copy_from(host, at);
    }
    // Chosen by overload resolution for a copy of an array that is not const. The copy does not
    // compile: the error message says what to write instead.
    template <std::same_as<array> Same>
    array(Same& other) : array{detail::refuse_buffer_copy(other)} {}
    template <std::same_as<array> Same>
    array& operator=(Same& other) {
        return *this = detail::refuse_buffer_copy(other);
    }

    /// Changes the length to `count` elements. If `count` exceeds the capacity, the elements are
    /// copied to a new block. New elements are uninitialized.
    void resize(std::size_t count, call_site at = call_site::current()) {
        bytes_.resize(bytes_of(count), at);
    }
    /// Makes the capacity at least `count` elements, with a copy to a new block if necessary. The
    /// length does not change.
    void reserve(std::size_t count, call_site at = call_site::current()) {
        bytes_.reserve(bytes_of(count), at);
    }
    /// Reduces the capacity to the length, by a copy to a new block on the array's stream.
    void shrink_to_fit(call_site at = call_site::current()) { bytes_.shrink_to_fit(at); }

    /// Enqueues a copy of `host`, which must be as long as the array, and must not change until the
    /// copy is complete.
    void copy_from(std::span<Element const> host, call_site at = call_site::current()) {
        detail::user_line<platform> const here{at, {detail::part_kind::handle}};
        expects(host.size() == size(), "array: the source of a copy must be as long as the array",
                at);
        if (!empty()) { platform::copy(get_stream(), data(), host.data(), bytes_.size()); }
    }
    /// Enqueues a copy of the array into `host`, which must be as long as the array. The array's
    /// stream orders the copy.
    void copy_to(std::span<Element> host, call_site at = call_site::current()) const {
        detail::user_line<platform> const here{at, {detail::part_kind::handle}};
        expects(host.size() == size(), "array: the target of a copy must be as long as the array",
                at);
        if (!empty()) { platform::copy(get_stream(), host.data(), data(), bytes_.size()); }
    }
    /// Enqueues an operation on the array's stream that sets each byte of the array to `value`.
    void fill(std::byte value, call_site at = call_site::current()) {
        detail::user_line<platform> const here{at, {detail::part_kind::handle}};
        if (!empty()) { platform::fill(get_stream(), data(), value, bytes_.size()); }
    }

    /// Returns the element at `i`. The host waits for the stream, so this is for tests and single
    /// results.
    [[nodiscard]] Element get(std::size_t i, call_site at = call_site::current()) const {
        detail::user_line<platform> const here{at, {detail::part_kind::handle}};
        expects(i < size(), "array: the index must be less than size()", at);
        one_element box;
        platform::copy(get_stream(), &box.value, data() + i, sizeof(Element));
        platform::synchronize(get_stream());
        return box.value;
    }
    /// Sets the element with the index `i` to `value`. The host waits for the array's stream.
    void set(std::size_t i, Element const& value, call_site at = call_site::current()) {
        detail::user_line<platform> const here{at, {detail::part_kind::handle}};
        expects(i < size(), "array: the index must be less than size()", at);
        platform::copy(get_stream(), data() + i, &value, sizeof(Element));
        platform::synchronize(get_stream());
    }

    /// Makes `s` the stream of the array. The caller must have ordered `s` after all earlier work
    /// that uses the array.
    void set_stream(stream s) noexcept { bytes_.set_stream(s); }
    /// Frees the memory on the stream `s`, which becomes the array's stream. The array is empty
    /// then. The caller must have ordered `s` after the work that uses the array.
    void destroy(stream s, call_site at = call_site::current()) noexcept { bytes_.destroy(s, at); }
    /// Frees the memory on the array's stream. The array is empty then.
    void destroy() noexcept { bytes_.destroy(); }

    // clang-format off
    [[nodiscard]] Element*       data() noexcept       { return to_elements(bytes_.data()); }
    [[nodiscard]] Element const* data() const noexcept { return to_elements(bytes_.data()); }
    [[nodiscard]] std::size_t size() const noexcept     { return bytes_.size() / sizeof(Element); }
    [[nodiscard]] std::size_t capacity() const noexcept {
        return bytes_.capacity() / sizeof(Element);
    }
    [[nodiscard]] bool        empty() const noexcept    { return bytes_.empty(); }
    [[nodiscard]] stream      get_stream() const noexcept { return bytes_.get_stream(); }
    [[nodiscard]] std::span<Element>       span() noexcept       { return {data(), size()}; }
    [[nodiscard]] std::span<Element const> span() const noexcept { return {data(), size()}; }
    [[nodiscard]] resource_type&       upstream() noexcept       { return bytes_.upstream(); }
    [[nodiscard]] resource_type const& upstream() const noexcept { return bytes_.upstream(); }
    // clang-format on

private:
    static constexpr std::size_t alignment = detail::larger_of(default_alignment, alignof(Element));

    static Element*       to_elements(void* p) noexcept { return static_cast<Element*>(p); }
    static Element const* to_elements(void const* p) noexcept {
        return static_cast<Element const*>(p);
    }

    static constexpr std::size_t bytes_of(std::size_t count) noexcept {
        return count > unsatisfiable / sizeof(Element) ? unsatisfiable : count * sizeof(Element);
    }

    /// Uninitialized storage for one element. `Element` need not have a default constructor.
    union one_element {
        one_element() noexcept {}
        Element value;
    };

    bytes_type bytes_;
};

/// Makes an array: `make_array<float>(memory, stream, n)`. The array borrows `memory` if that
/// cannot be copied, and otherwise stores a copy of it.
template <class Element, class R>
[[nodiscard]] auto make_array(R& mr, typename R::platform::stream s, std::size_t count,
                              call_site at = call_site::current()) {
    if constexpr (std::copy_constructible<R>) {
        return array<Element, R>{mr, s, count, at};
    } else {
        return array<Element, R&>{mr, s, count, at};
    }
}

} // namespace vram
