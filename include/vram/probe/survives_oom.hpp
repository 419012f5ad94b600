// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `survives_oom` refuses each allocation of a piece of code in turn, and checks the code.

#include <vram/concepts/resource.hpp>   // resource, synchronous_resource
#include <vram/handle/resource_ref.hpp> // resource_ref_of
#include <vram/layer/ancestor.hpp>      // ancestor, has_ancestor
#include <vram/probe/core/oom_walk.hpp> // oom_walk, stack_of
#include <vram/probe/oom_survival.hpp>
#include <vram/probe/refusing.hpp>
#include <vram/probe/survives_oom_options.hpp>

#include <concepts>    // invocable
#include <type_traits> // remove_reference_t

namespace vram {

/// Tests if `work` survives refused allocations. Calls `work` many times, and refuses a different
/// allocation request each time. After each such run (call of `work`), checks that nothing leaked,
/// and that a run without refusals still returns the same value.
///
///     auto const result = survives_oom(memory, [&](auto& mr) { return sum_of(mr, input); });
///     CHECK_MESSAGE(result, result.text());
///
/// `work(mr)` allocates from `mr`. If the stack of `memory` contains the layer `refusing`, `mr` is
/// `memory` itself. Otherwise `mr` is a temporary layer `refusing` over `memory`. A `work()`
/// without a parameter needs a stack with that layer. After a refusal, `work` may throw any
/// exception. If it throws none, it must return the same value (compared by `==`) as without
/// refusals.
///
/// Each request is refused in two runs. In one run only this request is refused, in the other all
/// later requests are refused too. The result describes the first mistake, and the refused request
/// that caused it. The first run refuses nothing, and may fill objects that outlive a run, such as
/// a cache.
///
/// Only requests of the calling thread, and of each `sim_thread` that `work` starts, are refused.
/// If the layer is under a pool, the requests that are refused are those of the pool for chunks
/// (the large blocks that the pool divides).
///
/// Failure   Throws the exceptions of the first run, in which nothing is refused.
/// Threads   One call at a time for each layer.
/// Cost      3 + 4 n runs of `work` for n requests, or 3 + 2 n with `.for_good = false`.
template <synchronous_resource R, class Work>
[[nodiscard]] oom_survival survives_oom(R& memory, Work work,
                                        survives_oom_options const& options = {}) {
    using stack = std::remove_reference_t<decltype(detail::stack_of(memory))>;
    if constexpr (has_ancestor<stack, refusing>) {
        auto& layer = ancestor<refusing>(detail::stack_of(memory));
        return detail::oom_walk<R, Work, detail::is_layer<refusing, stack>>{layer.plan(), memory,
                                                                            work, options}
            .walk();
    } else {
        static_assert(resource<R>, "over a resource without stream order, survives_oom needs the "
                                   "layer refusing in the stack: write refusing<host_resource>");
        static_assert(std::invocable<Work&, refusing<resource_ref_of<R>>&>,
                      "the function takes the memory from which it allocates: write "
                      "survives_oom(memory, [&](auto& mr) { ... }), or put the layer refusing into "
                      "the stack");
        refusing<resource_ref_of<R>> lent{resource_ref_of<R>{memory}};
        return detail::oom_walk<refusing<resource_ref_of<R>>, Work, true>{lent.plan(), lent, work,
                                                                          options}
            .walk();
    }
}

} // namespace vram
