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

/// Measures how the figures of a resource, such as its live bytes, change from the construction of
/// this object on.
///
///     memory_delta probe{memory};
///     train_step(memory);
///     probe.bytes(), probe.peak(), probe.allocations()
///
/// Sizes are in bytes, as rounded by the resource. A resource stores only one peak of its live
/// bytes. If this peak was before the measurement, `peak()` is only an upper bound, and
/// `peak_is_exact()` returns false. An `arena`, or a layer over two resources, knows only an upper
/// bound of its peak. A `statistics` layer counts the requested sizes, and counts each measurement
/// separately. Its peak is exact if one thread allocates (see `statistics`).
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

    /// Returns the increase of live bytes since the measurement started, or 0 if they decreased.
    [[nodiscard]] std::size_t bytes() const { return risen(now().live, before_.live); }

    /// Returns the present live bytes minus those at the start of the measurement; may be negative.
    [[nodiscard]] std::ptrdiff_t difference() const {
        return static_cast<std::ptrdiff_t>(now().live) - static_cast<std::ptrdiff_t>(before_.live);
    }

    /// Returns the decrease of live bytes since the measurement started, or 0 if they increased.
    [[nodiscard]] std::size_t returned() const { return risen(before_.live, now().live); }

    /// Returns the largest increase of the live bytes at any moment since the measurement started.
    /// If `peak_is_exact()` returns false, the result is only an upper bound.
    [[nodiscard]] std::size_t peak() const {
        heights const h = seen(now());
        return risen(detail::larger_of(h.at_start, h.later), before_.live);
    }

    /// Returns true if the resource reached `peak()` in this scope by its own count. Returns false
    /// if the resource may have had its peak before. The peak of an `arena` or of a layer over two
    /// resources is an upper bound in both cases.
    [[nodiscard]] bool peak_is_exact() const {
        memory_usage const after = now();
        heights const      h     = seen(after);
        return h.later > h.at_start ||
               (h.later == h.at_start && (after.live == h.later || before_.live == h.later));
    }

    /// Returns the increase of the reserved bytes (obtained from the upstream or the device) since
    /// the measurement started, or 0 if they decreased.
    [[nodiscard]] std::size_t reserved() const { return risen(now().reserved, before_.reserved); }

    /// Returns the number of successful allocations since the measurement started.
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
        std::size_t at_start; ///< peak of the live bytes up to the start of the measurement
        std::size_t later;    ///< peak of the live bytes up to now
    };
    /// Returns the peaks of the resource's live bytes at the start of the measurement and in
    /// `after`. If the program reset or raised the peaks in between, returns the peaks since the
    /// construction of the resource instead.
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

/// Measures how the figures of a `statistics` layer change from the construction of this object on.
/// Bytes and numbers of allocations are exact. With several threads the peak may be too low (see
/// `statistics`). The lifetimes of several `memory_delta` objects may overlap.
///
/// Failure   Throws `std::bad_alloc` and the exceptions of `usage()`.
/// Threads   The rules are those of the layer. Allocations of other threads are counted too.
/// Cost      Each function takes time in proportion to the number of `memory_delta` objects of the
///           same layer that were created later.
template <class Upstream, class Lock, class Histograms>
class memory_delta<statistics<Upstream, Lock, Histograms>> {
    using layer = statistics<Upstream, Lock, Histograms>;

public:
    /// Starts the measurement of the `statistics` layer `memory`, which must outlive this object.
    [[nodiscard]] explicit memory_delta(layer& memory)
        : memory_{&memory}, before_{memory.usage()}, asked_{memory.push()} {}
    memory_delta(memory_delta&&) = delete;
    ~memory_delta() { memory_->pop(asked_); }

    /// Returns the increase of live bytes since the measurement started, or 0 if they decreased.
    [[nodiscard]] std::size_t bytes() const { return positive(counted().bytes.value); }
    /// Returns the present live bytes minus those at the start of the measurement; may be negative.
    [[nodiscard]] std::ptrdiff_t difference() const { return counted().bytes.value; }
    /// Returns the decrease of live bytes since the measurement started, or 0 if they increased.
    [[nodiscard]] std::size_t returned() const { return positive(-counted().bytes.value); }
    /// Returns the largest increase of live bytes at any moment since the measurement started. The
    /// result may be too low if several threads allocate (see `statistics`).
    [[nodiscard]] std::size_t peak() const { return positive(counted().bytes.peak); }
    /// Returns true: the peak of a `statistics` layer is never an upper bound.
    [[nodiscard]] bool peak_is_exact() const noexcept { return true; }
    /// Returns the number of successful allocations since the measurement started.
    [[nodiscard]] std::uint64_t allocations() const { return counted().blocks.total; }

    /// Returns the increase of the reserved bytes (obtained from the upstream or the device) since
    /// the measurement started, or 0 if they decreased.
    [[nodiscard]] std::size_t reserved() const {
        std::size_t const after = memory_->usage().reserved;
        return after > before_.reserved ? after - before_.reserved : 0;
    }

    /// Returns the counters of the layer since the measurement started, such as its refusals.
    [[nodiscard]] counters counted() const { return memory_->now(asked_); }

    /// Restarts the measurement: results are relative to the present figures from now on.
    void reset() {
        std::uint64_t const fresh = memory_->push();
        memory_->pop(std::exchange(asked_, fresh));
        before_ = memory_->usage();
    }

    /// Returns the figures (`usage()`) that the layer had when the measurement started.
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
