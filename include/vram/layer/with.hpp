// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `with` composes a stack in reading order: `source | with::pool(1_GiB) | with::limiting(8_GiB)`.

#include <vram/concepts/resource.hpp> // synchronous_resource

#include <tuple>   // tuple, apply
#include <utility> // move, forward

namespace vram {

/// For each layer `x` there is a function object `with::x`. Called with the arguments of the layer,
/// it returns an object that creates the layer when it is joined with an upstream by `|`.
namespace with {

/// A layer without its upstream yet. `Layer` is the class template, `More` are its type arguments
/// behind the upstream. `upstream | pending` has the same type as the nested form
/// `Layer<Upstream>`, also if a layer stands on another of its kind (which class template argument
/// deduction would fold into one).
template <template <class...> class Layer, class... More>
struct pending_of {
    template <class... Args>
    struct made_of {
        std::tuple<Args...> args;

        template <synchronous_resource Upstream>
        friend Layer<Upstream, More...> operator|(Upstream upstream, made_of self) {
            return std::apply(
                [&](Args&... each) {
                    return Layer<Upstream, More...>(std::move(upstream), std::move(each)...);
                },
                self.args);
        }
    };
};

/// A layer without its upstream yet. Its only type argument is the upstream; `Args` are the
/// arguments of its constructor.
template <template <class...> class Layer, class... Args>
using pending = typename pending_of<Layer>::template made_of<Args...>;

/// Returns a layer without its upstream yet: `return layer<vram::limiting>(limit);`.
template <template <class...> class Layer, class... Args>
[[nodiscard]] constexpr auto layer(Args... args) {
    return pending<Layer, Args...>{{std::move(args)...}};
}

/// Returns a layer `Layer<Upstream, More...>` without its upstream yet: `return
/// layer_of<vram::fallback, Other>(std::move(other));`.
template <template <class...> class Layer, class... More, class... Args>
[[nodiscard]] constexpr auto layer_of(Args... args) {
    return typename pending_of<Layer, More...>::template made_of<Args...>{{std::move(args)...}};
}

/// The function object of a layer that needs no arguments: `with::x` can be used directly, or
/// called with options as `with::x({.option = 1})`.
template <template <class...> class Layer, class... Options>
struct word : pending<Layer> {
    [[nodiscard]] constexpr auto operator()() const { return layer<Layer>(); }
    [[nodiscard]] constexpr auto operator()(Options... options) const
        requires(sizeof...(Options) != 0)
    {
        return layer<Layer>(std::move(options)...);
    }
};

} // namespace with

} // namespace vram
