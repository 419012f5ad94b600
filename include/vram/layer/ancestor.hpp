// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `ancestor` finds a layer in a stack by its template.

#include <vram/base/requirements.hpp>

#include <type_traits> // remove_cvref_t, remove_cv_t
#include <utility>

namespace vram {

namespace detail {

template <template <class...> class Layer, class Type>
inline constexpr bool is_layer = false;
template <template <class...> class Layer, class... Args>
inline constexpr bool is_layer<Layer, Layer<Args...>> = true;

/// A type like `shared`, which is a handle to a resource: its function `get()` returns the
/// resource.
template <class Stack>
concept is_handle =
    requires(Stack& s) { typename std::remove_cvref_t<decltype(s.get())>::platform; };

/// Returns true if `Stack`, or a resource under it at any depth, is a `Layer`.
template <template <class...> class Layer, class Stack>
consteval bool stands_on() {
    using stack = std::remove_cvref_t<Stack>;
    if constexpr (is_layer<Layer, stack>) {
        return true;
    } else if constexpr (requires(Stack& s) { s.upstream(); }) {
        return stands_on<Layer, decltype(std::declval<Stack&>().upstream())>();
    } else if constexpr (is_handle<Stack>) {
        return stands_on<Layer, decltype(std::declval<Stack&>().get())>();
    } else if constexpr (requires(Stack& s) { s.first(), s.second(); }) {
        return stands_on<Layer, decltype(std::declval<Stack&>().first())>() ||
               stands_on<Layer, decltype(std::declval<Stack&>().second())>();
    } else {
        return false;
    }
}

} // namespace detail

/// A type that is a layer made from the class template `Layer`, or has one under it at any depth.
template <class Stack, template <class...> class Layer>
concept has_ancestor = detail::stands_on<Layer, Stack>();

/// Returns a reference to the outermost layer in `stack` that is made from the class template
/// `Layer`. Under a layer with two upstreams, the second one is searched only if there is none in
/// the first. The resource of a `shared` handle is searched too.
///
///     pool<statistics<limiting<cuda_resource>>> memory;
///     ancestor<limiting>(memory).used();
///
/// Failure   A stack without such a layer does not compile.
/// Threads   The rules are those of the layer that is found.
/// Cost      None: the layer is selected at compile time.
template <template <class...> class Layer, has_ancestor<Layer> Stack>
[[nodiscard]] constexpr auto& ancestor(Stack& stack) noexcept {
    if constexpr (detail::is_layer<Layer, std::remove_cv_t<Stack>>) {
        return stack;
    } else if constexpr (requires(Stack& s) { s.upstream(); }) {
        return ancestor<Layer>(stack.upstream());
    } else if constexpr (detail::is_handle<Stack>) {
        return ancestor<Layer>(stack.get());
    } else if constexpr (has_ancestor<decltype(stack.first()), Layer>) {
        return ancestor<Layer>(stack.first());
    } else {
        return ancestor<Layer>(stack.second());
    }
}

} // namespace vram
