// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `memory_delta` measures the live bytes, peak and allocations of a scope.

#include <vram/base/core/smaller_of.hpp> // larger_of
#include <vram/base/memory_usage.hpp>
#include <vram/concepts/powers.hpp> // measured_resource
#include <vram/layer/statistics.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {

/// Measures the change of a resource's figures since the construction of this object.
///
///     memory_delta probe{memory};
///     train_step(memory);
///     probe.bytes(), probe.peak(), probe.allocations()
///
/// Sizes are in bytes as the resource rounds them. If the scope stays below an earlier peak of the
/// resource, `peak()` is only an upper bound, and `peak_is_exact()` is false. An `arena`, or a
/// layer over two resources, knows only an upper bound of its peak. A `statistics` layer counts for
/// each probe separately: sizes are then as requested, and the peak is exact (see `statistics` for
/// several threads).
///
/// Failure   Throws the exceptions of `usage()`.
/// Threads   The rules are those of `usage()`. Allocations of other threads are counted too.
/// Cost      One call of `usage()` for each function except `before()`.
template <measured_resource Resource>
class memory_delta {
public:
    /// Starts the measurement. The resource must outlive the probe.
    [[nodiscard]] explicit memory_delta(Resource const& memory)
        : memory_{&memory}, before_{memory.usage()} {}
    explicit memory_delta(Resource const&&) = delete;

    /// Returns the increase of live bytes since the start, or 0 if they have decreased.
    [[nodiscard]] std::size_t bytes() const { return risen(now().live, before_.live); }

    /// Returns the live bytes now minus those at the start; negative if memory was freed.
    [[nodiscard]] std::ptrdiff_t difference() const {
        return static_cast<std::ptrdiff_t>(now().live) - static_cast<std::ptrdiff_t>(before_.live);
    }

    /// Returns the decrease of live bytes since the start, or 0 if they have increased.
    [[nodiscard]] std::size_t returned() const { return risen(before_.live, now().live); }

    /// Returns the largest increase of live bytes over those at the start, at any moment since, or
    /// an upper bound of it (see `peak_is_exact`).
    [[nodiscard]] std::size_t peak() const {
        heights const h = seen(now());
        return risen(detail::larger_of(h.at_start, h.later), before_.live);
    }

    /// Returns true if `peak()` was reached in this scope, and false if it is only an upper bound.
    [[nodiscard]] bool peak_is_exact() const {
        memory_usage const after = now();
        heights const      h     = seen(after);
        return h.later > h.at_start ||
               (h.later == h.at_start && (after.live == h.later || before_.live == h.later));
    }

    /// Returns the increase of reserved bytes since the start; 0 if there are fewer.
    [[nodiscard]] std::size_t reserved() const { return risen(now().reserved, before_.reserved); }

    /// Returns the number of successful allocations since the start.
    [[nodiscard]] std::uint64_t allocations() const {
        return now().allocations - before_.allocations;
    }

    /// Restarts the measurement: results are relative to the present figures from now on.
    void reset() { before_ = now(); }

    /// Returns the figures (`usage()`) that the resource had when the measurement started.
    [[nodiscard]] memory_usage const& before() const noexcept { return before_; }
    /// Returns the present figures of the resource.
    [[nodiscard]] memory_usage now() const { return memory_->usage(); }

private:
    struct heights {
        std::size_t at_start; ///< peak of the live bytes at the start of the measurement
        std::size_t later;    ///< peak of the live bytes in later figures
    };
    /// Returns the peaks of live bytes in `before_` and `after`. If the peaks were reset or
    /// raised in between, returns `highest_live()` of both: the peaks since the resource was made.
    [[nodiscard]] heights seen(memory_usage const& after) const noexcept {
        if (after.restarts == before_.restarts) { return {before_.peak_live, after.peak_live}; }
        return {before_.highest_live(), after.highest_live()};
    }
    [[nodiscard]] static std::size_t risen(std::size_t to, std::size_t from) noexcept {
        return to > from ? to - from : 0;
    }

    Resource const* memory_;
    memory_usage    before_;
};

/// Measures the change of the figures of a `statistics` layer. Values and totals are exact; with
/// several threads the peak may be too low (see `statistics`). Probes may overlap.
///
/// Failure   Throws `std::bad_alloc` and the exceptions of `usage()`.
/// Threads   The rules are those of the layer. Allocations of other threads are counted too.
/// Cost      Each function takes time in proportion to the number of newer probes of the layer.
template <class Upstream, class Lock, class Histograms>
class memory_delta<statistics<Upstream, Lock, Histograms>> {
    using layer = statistics<Upstream, Lock, Histograms>;

public:
    /// Starts the measurement of the `statistics` layer `memory`, which must outlive this object.
    [[nodiscard]] explicit memory_delta(layer& memory)
        : memory_{&memory}, before_{memory.usage()}, asked_{memory.push()} {}
    memory_delta(memory_delta&&) = delete;
    ~memory_delta() { memory_->pop(asked_); }

    /// Returns the increase of live bytes since the start, or 0 if they have decreased.
    [[nodiscard]] std::size_t bytes() const { return positive(counted().bytes.value); }
    /// Returns the live bytes now minus those at the start; negative if memory was freed.
    [[nodiscard]] std::ptrdiff_t difference() const { return counted().bytes.value; }
    /// Returns the decrease of live bytes since the start, or 0 if they have increased.
    [[nodiscard]] std::size_t returned() const { return positive(-counted().bytes.value); }
    /// Returns the largest increase of live bytes since the start. May be too low if several
    /// threads allocate (see `statistics`).
    [[nodiscard]] std::size_t peak() const { return positive(counted().bytes.peak); }
    /// Returns true: the peak of a `statistics` layer is never an upper bound.
    [[nodiscard]] bool peak_is_exact() const noexcept { return true; }
    /// Returns the number of successful allocations since the start.
    [[nodiscard]] std::uint64_t allocations() const { return counted().blocks.total; }

    /// Returns the increase of reserved bytes since the start; 0 if there are fewer.
    [[nodiscard]] std::size_t reserved() const {
        std::size_t const after = memory_->usage().reserved;
        return after > before_.reserved ? after - before_.reserved : 0;
    }

    /// Returns all counters of the scope, including blocks and refusals.
    [[nodiscard]] counters counted() const { return memory_->now(asked_); }

    /// Restarts the measurement: all results are 0 again.
    void reset() {
        std::uint64_t const fresh = memory_->push();
        memory_->pop(std::exchange(asked_, fresh));
        before_ = memory_->usage();
    }

    /// Returns the figures of the layer at the start.
    [[nodiscard]] memory_usage const& before() const noexcept { return before_; }
    /// Returns the present figures of the layer.
    [[nodiscard]] memory_usage now() const { return memory_->usage(); }

private:
    [[nodiscard]] static std::size_t positive(std::ptrdiff_t n) noexcept {
        return n > 0 ? static_cast<std::size_t>(n) : 0;
    }

    layer*        memory_;
    memory_usage  before_;
    std::uint64_t asked_;
};

} // namespace vram
