// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `peak_scope` measures the peak memory usage of a pool within a scope.

#include <vram/base/memory_usage.hpp>

#include <concepts> // same_as
#include <cstddef>

namespace vram {

/// A resource whose peaks can be set to the current values (`reset_peaks`) and later raised to the
/// earlier peaks (`raise_peaks`).
template <class R>
concept resettable_peaks = requires(R& r, memory_usage const& u) {
    { r.reset_peaks() } -> std::same_as<memory_usage>;
    r.raise_peaks(u);
    { r.usage() } -> std::same_as<memory_usage>;
};

/// Measures the peak memory usage of a pool within a scope, independent of earlier peaks. Scopes of
/// one pool nest; only the innermost can be read.
///
///     peak_scope step{memory};
///     train_step(memory);
///     step.live(), step.reserved()
///
/// Threads   Allocations of other threads count too; their scopes must not partly overlap this one.
/// Cost      `reset_peaks()`, `raise_peaks()`, and a `usage()` for each query.
template <resettable_peaks Pool>
class peak_scope {
public:
    /// Begins the measurement. The pool must outlive the scope and must not be moved.
    [[nodiscard]] explicit peak_scope(Pool& pool) : pool_{pool}, before_{pool.reset_peaks()} {}
    peak_scope(peak_scope&&) = delete;
    /// Ends the measurement. The peaks of the pool then include the time before this scope again.
    ~peak_scope() { pool_.raise_peaks(before_); }

    /// Returns the peak of the live bytes (`usage().live`) in this scope. For an `arena` this is an
    /// upper bound, the sum of the peaks of its pools.
    [[nodiscard]] std::size_t live() const { return pool_.usage().peak_live; }
    /// Returns the peak of the reserved bytes in this scope.
    [[nodiscard]] std::size_t reserved() const { return pool_.usage().peak_reserved; }

private:
    Pool&        pool_;
    memory_usage before_;
};

} // namespace vram
