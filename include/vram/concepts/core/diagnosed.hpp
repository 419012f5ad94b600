// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `diagnosed` types make the first line of a compile error state the remedy.

#include <vram/concepts/platform_of.hpp>
#include <vram/concepts/resource.hpp> // resource, synchronous_resource

#include <concepts> // same_as, convertible_to
#include <cstddef>
#include <type_traits> // is_pointer_v, is_arithmetic_v, remove_cvref_t

namespace vram {
namespace detail {

template <class>
inline constexpr bool always_false = false;

/// Checks that `Upstream` can be the upstream of a layer or pool; compile errors tell the
/// programmer what to write instead. `type` is `Upstream` itself.
template <class Upstream>
struct check_upstream {
    static_assert(!std::is_pointer_v<Upstream>,
                  "a layer or pool takes its upstream by value, not by pointer: write "
                  "limiting{std::move(memory), 1_GiB} to pass it on, or "
                  "limiting{resource_ref{memory}, 1_GiB} to borrow it");
    static_assert(!std::is_arithmetic_v<Upstream>,
                  "the upstream of a layer or pool is a resource, not a size: write "
                  "pool<stream_ordered<cuda_resource>> memory{{.initial_size = 1_GiB}}, or "
                  "pool{std::move(upstream), {.max_size = 1_GiB}}");
    static_assert(std::is_pointer_v<Upstream> || std::is_arithmetic_v<Upstream> ||
                      synchronous_resource<Upstream>,
                  "the upstream of a layer or pool is a resource: write "
                  "pool<stream_ordered<cuda_resource>>; a resource of your own has the types "
                  "platform and properties and the functions allocate_sync(bytes, alignment), "
                  "deallocate_sync(p, bytes, alignment) noexcept and operator==");
    using type = Upstream;
};
template <class Upstream>
using checked_upstream = typename check_upstream<Upstream>::type;

/// Checks that the upstream of a pool is a stream-ordered resource. A failed check states the
/// remedy.
template <class Upstream>
struct check_ordered_upstream : check_upstream<Upstream> {
    static_assert(!synchronous_resource<Upstream> || resource<Upstream>,
                  "this pool needs a stream-ordered upstream: write "
                  "binned<stream_ordered<cuda_resource>>, with stream_ordered around the resource "
                  "that has no allocate(stream, ...)");
};
template <class Upstream>
using checked_ordered_upstream = typename check_ordered_upstream<Upstream>::type;

/// Checks that the two resources of a layer, such as `fallback`, belong to one platform.
template <class First, class Second>
struct check_pair {
    static_assert(std::same_as<typename First::platform, typename Second::platform>,
                  "both resources of fallback and segregated belong to one platform: write "
                  "cuda_resource and managed_resource, or sim_resource and sim_managed_resource");
    using type = First;
};

/// Called if a program copies a non-const layer or pool: stops the compilation with a message that
/// states the remedy.
template <class Stack>
[[nodiscard]] constexpr Stack&& refuse_copy(Stack& stack) noexcept {
    static_assert(always_false<Stack>,
                  "a pool or layer is never copied: write std::move(memory) to pass it on, "
                  "resource_ref{memory} to borrow it, or shared{std::move(memory)} to share it");
    return static_cast<Stack&&>(stack);
}

/// Called if a program copies a non-const buffer or array: stops the compilation with a message
/// that states the remedy.
template <class Memory>
[[nodiscard]] constexpr Memory&& refuse_buffer_copy(Memory& memory) noexcept {
    static_assert(always_false<Memory>,
                  "a buffer or array is never copied: write std::move(b) to pass it on, or make "
                  "another one on the stream and queue platform::copy(stream, to, from, bytes)");
    return static_cast<Memory&&>(memory);
}

/// True if `Argument`, the only argument of a pool's constructor, is a number that cannot be
/// converted to the upstream (the resource from which the pool allocates).
template <class Argument, class Upstream>
concept size_alone = std::is_arithmetic_v<Argument> && !std::convertible_to<Argument, Upstream>;

/// Called if a program constructs a pool from a plain number, as in `pool memory{1_GiB}`: stops the
/// compilation with a message that shows the right options.
template <class Stack>
[[nodiscard]] constexpr Stack&& refuse_size(Stack& stack) noexcept {
    static_assert(always_false<Stack>,
                  "a size is an option of a pool, with a name: write memory{{.max_size = 1_GiB}}, "
                  "or, for pool and monotonic, memory{{.initial_size = 1_GiB}}");
    return static_cast<Stack&&>(stack);
}

/// Called if a program passes a stream to a synchronous resource (one that takes no stream): stops
/// the compilation with a message that states the remedy.
template <class Stream>
constexpr void refuse_order() noexcept {
    static_assert(always_false<Stream>,
                  "this resource is synchronous and takes no stream: write "
                  "stream_ordered<cuda_resource>, with stream_ordered around the source and under "
                  "the other layers, or call allocate_sync(bytes) and deallocate_sync(p, bytes)");
}

/// True if `Argument` is not a number. Passed before a size, it is probably a stream.
template <class Argument>
concept not_a_size = !std::is_arithmetic_v<std::remove_cvref_t<Argument>>;

/// Base class of synchronous resources (those that take no stream). Calls of `allocate(stream,
/// bytes)` and `deallocate(stream, p, bytes)` do not compile. The compiler's message states the
/// remedy.
template <class Resource>
class synchronous_only {
public:
    template <not_a_size Stream>
    [[nodiscard]] void* allocate(Stream&&, std::size_t) {
        refuse_order<Stream>();
        return nullptr;
    }
    template <not_a_size Stream>
    void deallocate(Stream&&, void*, std::size_t) noexcept {
        refuse_order<Stream>();
    }
    friend bool operator==(synchronous_only const&, synchronous_only const&) = default;
};

/// A synchronous resource (one that takes no stream) of the platform `Platform`.
template <class R, class Platform>
concept synchronous_of = requires {
    typename R::platform;
    typename R::properties;
} && std::same_as<typename R::platform, Platform> && synchronous_resource<R> && !resource<R>;

/// A type with the member types of a resource (`platform` and `properties`), but of another
/// platform than `Platform`.
template <class R, class Platform>
concept resource_of_another_platform = requires {
    typename R::platform;
    typename R::properties;
} && !std::same_as<typename R::platform, Platform>;

/// Called if a program passes a resource to a handle of another platform: stops the compilation
/// with a message that states the remedy.
template <class R>
constexpr void refuse_platform() noexcept {
    static_assert(
        always_false<R>,
        "the resource belongs to another platform than the handle: write "
        "resource_ref<sim_platform> for sim_resource, and resource_ref<cuda_platform> for "
        "cuda_resource; any_resource and current likewise");
}

/// A stream, or an owner of streams, of another platform than `Platform`.
template <class Stream, class Platform>
concept stream_of_another_platform =
    requires { typename platform_of<Stream>; } && !std::same_as<platform_of<Stream>, Platform>;

/// True if a loader on `Platform` may be given `R` as its pinned memory: `R` belongs to `Platform`,
/// or to a platform without a device (pageable memory).
template <class R, class Platform>
inline constexpr bool pinned_for = true;
template <class R, class Platform>
    requires(!std::same_as<typename R::platform::device_resource,
                           typename R::platform::pinned_resource>)
inline constexpr bool pinned_for<R, Platform> =
    std::same_as<typename R::platform::stream, typename Platform::stream>;

/// Stops the compilation if a loader, an unloader or a staging object on `Platform` cannot use the
/// pinned memory of `R`. `value` is always true, so that a static_assert can read it.
template <class R, class Platform>
struct check_pinned {
    static_assert(pinned_for<R, Platform>,
                  "the pinned memory belongs to another platform than the stream: write "
                  "pinned_resource with cuda_stream, and sim_pinned_resource with sim_stream");
    static constexpr bool value = true;
};

/// Called if a program passes a stream to memory of another platform: stops the compilation with a
/// message that states the remedy.
template <class Stream>
constexpr void refuse_stream() noexcept {
    static_assert(always_false<Stream>,
                  "the stream belongs to another platform than the memory: write sim_stream with "
                  "sim_resource, and cuda_stream or cudaStream_t with cuda_resource");
}

} // namespace detail
} // namespace vram
