// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `powers` are the optional functions of a resource, beside allocating and freeing.

#include <vram/base/memory_usage.hpp> // memory_usage
#include <vram/concepts/resource.hpp> // resource, synchronous_resource

#include <concepts> // same_as
#include <cstddef>  // size_t

namespace vram {

/// The half of `fallible_resource` that streams have.
template <class R>
concept fallible_on_streams = requires(R& r, typename R::platform::stream s, std::size_t n) {
    { r.try_allocate(s, n, n) } -> std::same_as<void*>;
    requires noexcept(r.try_allocate(s, n, n)) || !detail::sees_noexcept;
};

/// `try_allocate_sync(bytes, alignment)`, and `try_allocate(stream, bytes, alignment)` where the
/// resource is stream-ordered: as `allocate`, but "no" is `nullptr` and nothing is thrown. Zero
/// bytes are `nullptr` as well.
template <class R>
concept fallible_resource =
    synchronous_resource<R> && (!resource<R> || fallible_on_streams<R>) &&
    requires(R& r, std::size_t n) {
        { r.try_allocate_sync(n, n) } -> std::same_as<void*>;
        requires noexcept(r.try_allocate_sync(n, n)) || !detail::sees_noexcept;
    };

/// `owns(p)`: whether `p` lies in memory that this resource handed out, or could have.
template <class R>
concept owning_resource = requires(R const& r, void const* p) {
    { r.owns(p) } -> std::same_as<bool>;
};

/// `trim(keep)`: gives unused memory back upstream until at most `keep` bytes of it are held;
/// returns the bytes that really went back.
template <class R>
concept trimmable_resource = requires(R& r, std::size_t keep) {
    { r.trim(keep) } -> std::same_as<std::size_t>;
};

/// `usage()`: the resource's own figures.
template <class R>
concept measured_resource = requires(R const& r) {
    { r.usage() } -> std::same_as<memory_usage>;
};

/// `retire(stream)`: the stream is about to be destroyed; whatever still refers to it is settled
/// now. Needed only for a stream whose end is not announced (see `announces_ends`): a raw
/// `cudaStream_t`.
template <class R>
concept retiring_resource = requires(R& r, typename R::platform::stream s) { r.retire(s); };

/// `forget_captures()`: no graph that was captured over this resource will run again; what was kept
/// for them is free. Whoever shares a resource cannot say so for the others: handles do not pass it
/// on, and it is none of the `powers` below.
template <class R>
concept forgetting_resource = requires(R& r) { r.forget_captures(); };

/// `try_allocate_ready(stream, bytes, alignment)`: an `allocate` out of memory that is held and
/// that the stream may have at once, or null; zero bytes are null as well. Nobody waits, and no
/// upstream is asked for more. Streams may be asked how far they are, by events that are recorded
/// for that, and it throws what an `allocate` may throw beside a refusal: for want of host memory,
/// and what the platform does.
template <class R>
concept reusing_resource =
    resource<R> && requires(R& r, typename R::platform::stream s, std::size_t n) {
        { r.try_allocate_ready(s, n, n) } -> std::same_as<void*>;
    };

/// `rounded_size(bytes, alignment)`: the bytes that a request takes of what the resource holds, at
/// least `bytes`. The same request always gives the same size; zero bytes give zero. `limiting`
/// counts these sizes.
template <class R>
concept rounding_resource = requires(R const& r, std::size_t n) {
    { r.rounded_size(n, n) } -> std::same_as<std::size_t>;
    requires noexcept(r.rounded_size(n, n)) || !detail::sees_noexcept;
};

/// `device()`: the device that the memory belongs to, or to which it is next.
template <class R>
concept located_resource = requires(R const& r) {
    { r.device() } -> std::same_as<typename R::platform::device>;
};

/// `trim_no_wait()`: gives idle chunks back that no stream uses; never waits. Returns the bytes.
template <class R>
concept promptly_trimmable_resource = requires(R& r) {
    { r.trim_no_wait() } -> std::same_as<std::size_t>;
};

/// `free_memory()`: the free pieces, as `free_pieces`.
template <class R>
concept surveyed_resource = requires(R const& r) { r.free_memory().largest; };

/// `reset_peaks()`: the peaks start again from what is out and held now; returns the figures from
/// before. `raise_peaks(usage)`: takes the peaks of those in again.
template <class R>
concept peaking_resource = requires(R& r, memory_usage const& before) {
    { r.reset_peaks() } -> std::same_as<memory_usage>;
    r.raise_peaks(before);
};

namespace detail {
/// The size that `r` takes for a request: `bytes` if it does not say.
template <class R>
[[nodiscard]] constexpr std::size_t rounded_size(R const& r, std::size_t bytes,
                                                 std::size_t alignment) noexcept {
    if constexpr (rounding_resource<R>) {
        return r.rounded_size(bytes, alignment);
    } else {
        return bytes;
    }
}
/// A handle of any resource, which may know the device.
template <class R>
concept perhaps_located = requires(R const& r) { *r.device(); };

/// The device of `r`; the current one if `r` does not say.
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

/// Every power of `R` as a constant, for parts that choose by them and for tests that nothing was
/// lost.
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

    /// Whether `R` can do all that `Upstream` can: a layer adds, it never takes away.
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
