// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `with` composes a stack in reading order: `source | with::pool(1_GiB) | with::limiting(8_GiB)`.

#include <vram/concepts/resource.hpp> // synchronous_resource

#include <utility>

namespace vram {

namespace detail {

/// A tuple: values in the order of their types. nvcc compiles it faster than `std::tuple`.
template <class... Values>
struct values_of {
    /// Calls `call` with the arguments `before`, followed by the values of the tuple, and returns
    /// the result. This tuple is empty, so no values follow.
    template <class Call, class... Before>
    decltype(auto) pass_to(Call const& call, Before&... before) {
        return call(before...);
    }
};

template <class First, class... Rest>
struct values_of<First, Rest...> {
    constexpr explicit values_of(First value, Rest... more)
        : first{std::move(value)}, rest{std::move(more)...} {}

    template <class Call, class... Before>
    decltype(auto) pass_to(Call const& call, Before&... before) {
        return rest.pass_to(call, before..., first);
    }

    First              first;
    values_of<Rest...> rest;
};

/// Stores the constructor arguments of a layer until `upstream | object` creates `Layer<Upstream,
/// More...>`.
template <template <class...> class Layer, class... More>
struct pending_layer_of {
    template <class... Args>
    struct made_of {
        values_of<Args...> args;

        template <synchronous_resource Upstream>
        friend Layer<Upstream, More...> operator|(Upstream upstream, made_of self) {
            return self.args.pass_to([&](Args&... each) {
                return Layer<Upstream, More...>(std::move(upstream), std::move(each)...);
            });
        }
    };
};

template <template <class...> class Layer, class... Args>
using pending_layer = typename pending_layer_of<Layer>::template made_of<Args...>;

} // namespace detail

/// Composes stacks: `upstream | with::x(arguments)` is the layer or pool `x` over `upstream`. Many
/// need no arguments and no call: `upstream | with::pool`.
namespace with {

/// Returns an object that creates a `Layer` with the arguments `args` when it is joined with an
/// upstream by `|`: `source | layer<vram::limiting>(limit)`.
template <template <class...> class Layer, class... Args>
[[nodiscard]] constexpr auto layer(Args... args) {
    return detail::pending_layer<Layer, Args...>{detail::values_of<Args...>{std::move(args)...}};
}

/// Returns an object that creates the layer `Layer<Upstream, More...>`: `source |
/// layer_of<vram::fallback, Other>(std::move(other))`.
template <template <class...> class Layer, class... More, class... Args>
[[nodiscard]] constexpr auto layer_of(Args... args) {
    return typename detail::pending_layer_of<Layer, More...>::template made_of<Args...>{
        detail::values_of<Args...>{std::move(args)...}};
}

/// The type of `with::x`, for a layer that needs no arguments: `source | with::x`, or `source |
/// with::x({.option = 1})`.
template <template <class...> class Layer, class... Options>
struct word : detail::pending_layer<Layer> {
    [[nodiscard]] constexpr auto operator()() const { return layer<Layer>(); }
    [[nodiscard]] constexpr auto operator()(Options... options) const
        requires(sizeof...(Options) != 0)
    {
        return layer<Layer>(std::move(options)...);
    }
};

} // namespace with

} // namespace vram
