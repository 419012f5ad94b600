// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `peak_scope` measures the peak memory usage of a pool within a scope.

#include <vram/base/memory_usage.hpp>

#include <concepts> // same_as
#include <cstddef>

namespace vram {

/// A resource with peaks that can be restarted. `reset_peaks()` restarts the peaks from the current
/// values and returns the usage until then. `raise_peaks(usage)` raises the peaks to at least those
/// of `usage`.
template <class R>
concept resettable_peaks = requires(R& r, memory_usage const& u) {
    { r.reset_peaks() } -> std::same_as<memory_usage>;
    r.raise_peaks(u);
    { r.usage() } -> std::same_as<memory_usage>;
};

/// Measures the peak memory usage within a scope, independent of peaks before it. The peaks are
/// exact, except `live()` of an `arena`, which is an upper bound. When the scope ends, the pool's
/// own peaks are the same as without it. Scopes of one pool nest. Only the innermost scope can be
/// read: an outer scope has its peak again when the inner one has ended. If `reset_peaks()` is
/// called within a scope, the scope measures only from then on.
///
///     peak_scope step{memory};
///     train_step(memory);
///     step.live(), step.reserved()
///
/// Failure   Never fails.
/// Threads   Allocations of other threads within the scope are counted too. Scopes of other threads
///           must not partly overlap this one.
/// Cost      One `reset_peaks()` at the beginning and one `raise_peaks()` at the end: the lock of
///           the pool once or twice, or that of each shard of an arena. Each query costs a
///           `usage()`.
template <resettable_peaks Pool>
class peak_scope {
public:
    /// Begins the measurement. The pool must outlive the scope and must not be moved.
    [[nodiscard]] explicit peak_scope(Pool& pool) : pool_{pool}, before_{pool.reset_peaks()} {}
    peak_scope(peak_scope&&) = delete;
    /// Ends the measurement and restores the pool's own peaks.
    ~peak_scope() { pool_.raise_peaks(before_); }

    /// Returns the peak of `usage().live` in this scope; of an `arena`, an upper bound of it.
    [[nodiscard]] std::size_t live() const { return pool_.usage().peak_live; }
    /// Returns the peak of the reserved bytes in this scope.
    [[nodiscard]] std::size_t reserved() const { return pool_.usage().peak_reserved; }

private:
    Pool&        pool_;
    memory_usage before_;
};

} // namespace vram
