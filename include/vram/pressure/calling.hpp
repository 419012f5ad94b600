// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `calling` is a retry policy that calls a function of the program.

#include <vram/concepts/core/user_line.hpp> // user_code
#include <vram/concepts/retry.hpp>          // retry, failed_attempt

#include <concepts> // predicate
#include <utility>

namespace vram {

/// A retry policy for `retrying`: after a refusal calls `function(failed)`, which can make room,
/// for example by dropping a cache. The function returns true if the request should be tried again.
///
///     retrying mr{pool{cuda_resource{}}, calling{[&](failed_attempt const& f) {
///         return cache.drop(f.bytes);
///     }}};
///
/// Failure   An exception of the function ends the request.
/// Threads   Several threads may call the function at the same time.
/// Cost      The cost is that of the function.
template <std::predicate<failed_attempt const&> Function, unsigned Tries = 4>
class calling {
public:
    /// Largest number of times that `retrying` calls this retry policy for one request.
    static constexpr unsigned max_tries = Tries;

    /// Makes a retry policy that calls `function`.
    explicit calling(Function function) : function_{std::move(function)} {}

    /// Called by `retrying` after a refusal. Calls the program's function and returns its result,
    /// which is true to try the request again.
    template <class R>
    bool operator()(R&, failed_attempt const& failed) {
        detail::user_code<typename R::platform> const lines;
        return function_(failed);
    }

private:
    [[no_unique_address]] Function function_;
};

} // namespace vram
