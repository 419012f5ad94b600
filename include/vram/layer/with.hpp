// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `with` composes a stack in reading order: `source | with::pool(1_GiB) | with::limiting(8_GiB)`.

#include <vram/concepts/resource.hpp> // synchronous_resource

#include <tuple>   // tuple, apply
#include <utility> // move, forward

namespace vram {

/// Each layer `x` puts a word `x` in here: called with the layer's arguments, it waits for its
/// upstream.
namespace with {

/// A layer that waits for its upstream. `Layer` is the class template, `More` are its arguments
/// behind the upstream. The nested spelling `layer<upstream>` and this one give the same type, also
/// where a layer stands on another of its kind (which class template argument deduction would fold
/// into one).
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

/// A layer whose only type argument is its upstream, with the arguments of its constructor.
template <template <class...> class Layer, class... Args>
using pending = typename pending_of<Layer>::template made_of<Args...>;

/// Makes a layer that waits for its upstream: `return layer<vram::limiting>(limit);`.
template <template <class...> class Layer, class... Args>
[[nodiscard]] constexpr auto layer(Args... args) {
    return pending<Layer, Args...>{{std::move(args)...}};
}

/// The same for `Layer<Upstream, More...>`: `return layer_of<vram::fallback,
/// Other>(std::move(other));`.
template <template <class...> class Layer, class... More, class... Args>
[[nodiscard]] constexpr auto layer_of(Args... args) {
    return typename pending_of<Layer, More...>::template made_of<Args...>{{std::move(args)...}};
}

/// The word of a layer that can do without arguments: `with::x` is enough, `with::x({.option = 1})`
/// says more.
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
