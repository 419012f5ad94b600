// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `peak_scope` measures the peak of a pool in a scope.

#include <vram/base/memory_usage.hpp> // memory_usage

#include <concepts> // same_as
#include <cstddef>  // size_t

namespace vram {

/// `reset_peaks()` lets the peaks start again from here and returns the figures as they were;
/// `raise_peaks(usage)` takes the peaks of those in again.
template <class R>
concept resettable_peaks = requires(R& r, memory_usage const& u) {
    { r.reset_peaks() } -> std::same_as<memory_usage>;
    r.raise_peaks(u);
    { r.usage() } -> std::same_as<memory_usage>;
};

/// The peaks of a scope, whatever was before: exact, but for the upper bound that `arena` has of
/// what was out. Afterwards the pool's own are what they would have been. Scopes of one pool nest.
/// The pool has the peaks of the innermost alone: an outer scope knows its own again when that has
/// ended, and one in which `reset_peaks()` is called only knows what came after.
///
///     peak_scope step{memory};
///     train_step(memory);
///     step.live(), step.reserved()
///
/// Failure   never
/// Threads   what other threads do in the scope is counted too; their scopes must not overlap this
///           one in part
/// Cost      a `reset_peaks()`, and a `raise_peaks()` in the end: the lock of the pool once or
///           twice, or that of each private pool; a `usage()` for each question
template <resettable_peaks Pool>
class peak_scope {
public:
    /// Starts here. The pool outlives the scope, and stays where it is.
    explicit peak_scope(Pool& pool) : pool_{pool}, before_{pool.reset_peaks()} {}
    peak_scope(peak_scope&&) = delete;
    ~peak_scope() { pool_.raise_peaks(before_); }

    /// The most that was out at once, in bytes as the pool rounds them.
    [[nodiscard]] std::size_t live() const { return pool_.usage().peak_live; }
    /// The most that was held at once.
    [[nodiscard]] std::size_t reserved() const { return pool_.usage().peak_reserved; }

private:
    Pool&        pool_;
    memory_usage before_;
};

} // namespace vram
