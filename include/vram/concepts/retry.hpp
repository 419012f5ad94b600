// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `retry` is something to try when a resource has said no.

#include <vram/base/out_of_memory.hpp> // shortage

#include <concepts> // same_as
#include <cstddef>  // size_t

namespace vram {

/// A failed attempt, as a retry policy sees it.
struct failed_attempt {
    std::size_t bytes     = 0; ///< what is being asked for
    std::size_t alignment = 0;
    unsigned    tries     = 0;  ///< which try of this policy at this request it is, from 1
    shortage    numbers   = {}; ///< what the failing resource told, where it told anything
};

/// A policy over resource `R`: does what it can to make room and says whether asking again is worth
/// while. It is asked until it says no; `max_tries` bounds that, whatever it says. Called with no
/// lock of the layer held, so it may use the resource.
template <class P, class R>
concept retry = requires(P& policy, R& resource, failed_attempt const& failed) {
    { policy(resource, failed) } -> std::same_as<bool>;
    { P::max_tries } -> std::convertible_to<unsigned>;
};

} // namespace vram
