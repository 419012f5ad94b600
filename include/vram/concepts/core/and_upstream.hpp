// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `and_upstream` makes a call of a resource for the resource itself and for its upstream.

#include <vram/base/core/first_exception.hpp>
#include <vram/concepts/powers.hpp> // retiring_resource, forgetting_resource

namespace vram {
namespace detail {

/// Calls that a resource makes for itself, by `own()`, and for its upstream, if the upstream has
/// the function. The upstream is called also if `own` throws. Then the first exception is rethrown.
struct and_upstream {
    template <class Upstream, class Stream, class Own>
    static void retire(Upstream& upstream, Stream const& s, Own const& own) {
        first_exception failed;
        failed.of(own);
        if constexpr (retiring_resource<Upstream>) {
            failed.of([&] { upstream.retire(s); });
        }
        failed.rethrow();
    }
    template <class Upstream, class Own>
    static void forget_captures(Upstream& upstream, Own const& own) {
        first_exception failed;
        failed.of(own);
        if constexpr (forgetting_resource<Upstream>) {
            failed.of([&] { upstream.forget_captures(); });
        }
        failed.rethrow();
    }
};

} // namespace detail
} // namespace vram
