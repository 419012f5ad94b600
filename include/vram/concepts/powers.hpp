// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `powers` are the optional functions of a resource, besides allocating and freeing.

#include <vram/base/memory_usage.hpp>
#include <vram/concepts/resource.hpp> // resource, synchronous_resource

#include <concepts> // same_as
#include <cstddef>

namespace vram {

/// A resource with `try_allocate(stream, bytes, alignment)`, which returns null instead of
/// throwing. `fallible_resource` requires it of each stream-ordered resource.
template <class R>
concept fallible_on_streams = requires(R& r, typename R::platform::stream s, std::size_t n) {
    { r.try_allocate(s, n, n) } -> std::same_as<void*>;
    requires noexcept(r.try_allocate(s, n, n)) || !detail::sees_noexcept;
};

/// A resource with `try_allocate_sync(bytes, alignment)` and, if stream-ordered,
/// `try_allocate(stream, bytes, alignment)`. They return null instead of throwing, and for zero
/// bytes.
template <class R>
concept fallible_resource =
    synchronous_resource<R> && (!resource<R> || fallible_on_streams<R>) &&
    requires(R& r, std::size_t n) {
        { r.try_allocate_sync(n, n) } -> std::same_as<void*>;
        requires noexcept(r.try_allocate_sync(n, n)) || !detail::sees_noexcept;
    };

/// A resource with `owns(p)`, which returns true if `p` lies in memory that this resource has
/// allocated or could allocate.
template <class R>
concept owning_resource = requires(R const& r, void const* p) {
    { r.owns(p) } -> std::same_as<bool>;
};

/// A resource with `trim(keep)`, which tries to return free memory to the upstream. `keep`: bytes
/// of free memory that the resource may retain. The result is the number of bytes returned. If
/// `trim` also trims the upstream, the same bytes may be returned twice. The result is then the
/// larger of both numbers, not their sum.
template <class R>
concept trimmable_resource = requires(R& r, std::size_t keep) {
    { r.trim(keep) } -> std::same_as<std::size_t>;
};

/// A resource with `usage()`, which returns its counters, such as live and reserved bytes.
template <class R>
concept measured_resource = requires(R const& r) {
    { r.usage() } -> std::same_as<memory_usage>;
};

/// A resource with `retire(stream)`. The program calls `retire` before it destroys a raw
/// `cudaStream_t` that the resource used, because the resource has stored its handle. A pool with
/// `event_policy::eager` does not need the call.
template <class R>
concept retiring_resource = requires(R& r, typename R::platform::stream s) { r.retire(s); };

/// A resource with `forget_captures()`, which makes the memory available again that the resource
/// keeps for captured graphs. The caller guarantees that no graph with this memory is launched
/// again, and that no capture uses the resource now. The host waits for the last launch.
template <class R>
concept forgetting_resource = requires(R& r) { r.forget_captures(); };

/// A resource with `try_allocate_ready(stream, bytes, alignment)`, which allocates only memory that
/// the resource holds and the stream can use without a wait. It returns null if there is none, and
/// for zero bytes. It throws `std::bad_alloc` without host memory, and errors of the platform.
template <class R>
concept reusing_resource =
    resource<R> && requires(R& r, typename R::platform::stream s, std::size_t n) {
        { r.try_allocate_ready(s, n, n) } -> std::same_as<void*>;
    };

/// A resource with `rounded_size(bytes, alignment)`, the bytes that an allocation occupies. Equal
/// arguments give equal results, and zero bytes give zero.
template <class R>
concept rounding_resource = requires(R const& r, std::size_t n) {
    { r.rounded_size(n, n) } -> std::same_as<std::size_t>;
    requires noexcept(r.rounded_size(n, n)) || !detail::sees_noexcept;
};

/// A resource with `device()`, which returns the device of its memory or, for pinned or managed
/// memory, the device for which it was constructed.
template <class R>
concept located_resource = requires(R const& r) {
    { r.device() } -> std::same_as<typename R::platform::device>;
};

/// A resource with `trim_no_wait()`, which returns unused chunks to the upstream without waiting
/// for streams. Returns the bytes returned.
template <class R>
concept promptly_trimmable_resource = requires(R& r) {
    { r.trim_no_wait() } -> std::same_as<std::size_t>;
};

/// A resource with `free_memory()`, which returns a `free_pieces`: number and sizes of free pieces.
template <class R>
concept surveyed_resource = requires(R const& r) { r.free_memory().largest; };

/// A resource with `reset_peaks()` and `raise_peaks(usage)`. `reset_peaks` sets the peaks to the
/// present values and returns those from before; other members of the result may be 0.
/// `raise_peaks` raises the peaks at least to those in `usage`.
template <class R>
concept peaking_resource = requires(R& r, memory_usage const& before) {
    { r.reset_peaks() } -> std::same_as<memory_usage>;
    r.raise_peaks(before);
};

namespace detail {
/// Returns the bytes that an allocation of `bytes` bytes occupies in the resource `r`; `bytes` if
/// `r` has no function `rounded_size`.
template <class R>
[[nodiscard]] constexpr std::size_t rounded_size(R const& r, std::size_t bytes,
                                                 std::size_t alignment) noexcept {
    if constexpr (rounding_resource<R>) {
        return r.rounded_size(bytes, alignment);
    } else {
        return bytes;
    }
}
/// A type-erased handle of a resource, or a layer or pool over one. Its function `device()` returns
/// an optional, which is empty if the resource has no device.
template <class R>
concept perhaps_located = requires(R const& r) { *r.device(); };
/// A resource with `device()`, which returns a device or an optional one.
template <class R>
concept names_device = located_resource<R> || perhaps_located<R>;

/// Returns the device of `r`, or the current device if `r` does not name one.
template <class R>
[[nodiscard]] auto device_of_resource(R const& r) {
    if constexpr (located_resource<R>) {
        return r.device();
    } else if constexpr (perhaps_located<R>) {
        auto const known = r.device();
        return known ? *known : R::platform::current_device();
    } else {
        return R::platform::current_device();
    }
}
} // namespace detail

/// The optional functions of the resource `R` that a layer must pass on: each constant is true if
/// `R` has the function.
template <class R>
struct powers {
    static constexpr bool stream_ordered = resource<R>;
    static constexpr bool fallible       = fallible_resource<R>;
    static constexpr bool owning         = owning_resource<R>;
    static constexpr bool trimmable      = trimmable_resource<R>;
    static constexpr bool measured       = measured_resource<R>;
    static constexpr bool retiring       = retiring_resource<R>;
    static constexpr bool reusing        = reusing_resource<R>;
    static constexpr bool rounding       = rounding_resource<R>;
    static constexpr bool located        = located_resource<R>;
    static constexpr bool prompt         = promptly_trimmable_resource<R>;
    static constexpr bool surveyed       = surveyed_resource<R>;
    static constexpr bool peaking        = peaking_resource<R>;

    /// True if `R`, a layer over `Upstream`, has each of the functions above that `Upstream` has.
    template <class Upstream>
    static constexpr bool include =
        stream_ordered >= powers<Upstream>::stream_ordered &&
        fallible >= powers<Upstream>::fallible && owning >= powers<Upstream>::owning &&
        trimmable >= powers<Upstream>::trimmable && measured >= powers<Upstream>::measured &&
        retiring >= powers<Upstream>::retiring && reusing >= powers<Upstream>::reusing &&
        rounding >= powers<Upstream>::rounding && located >= powers<Upstream>::located &&
        prompt >= powers<Upstream>::prompt && surveyed >= powers<Upstream>::surveyed &&
        peaking >= powers<Upstream>::peaking;
};

} // namespace vram
