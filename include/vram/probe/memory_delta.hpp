// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `memory_delta` measures the live bytes, peak and allocations of a scope.

#include <vram/base/memory_usage.hpp> // memory_usage
#include <vram/concepts/powers.hpp>   // measured_resource
#include <vram/layer/statistics.hpp>  // statistics

#include <algorithm> // max
#include <cstddef>   // size_t, ptrdiff_t
#include <cstdint>   // uint64_t
#include <utility>   // exchange

namespace vram {

/// The difference between a resource then and now.
///
///     memory_delta probe{memory};
///     train_step(memory);
///     probe.bytes(), probe.peak(), probe.allocations()
///
/// All sizes are in bytes as the resource rounds them. A resource remembers one peak, since it was
/// made or its peaks last started again: a scope that stays below it is known to have risen to no
/// more than `peak()`, and `peak_is_exact()` is false. Where peaks start again within the scope
/// (`reset_peaks()`, a `peak_scope`), the probe goes by the highest that was ever out: what it saw
/// is not lost, but a scope that stays below that only has a bound. Of a `statistics` layer, the
/// probe asks a question of its own: then sizes are as they were asked for, and the peak is exact.
///
/// A peak is only as good as the resource's own: that of an `arena`, and of two resources together,
/// is a bound however high the scope rises; and those of CUDA's pools are the driver's, where
/// nobody tells that somebody else set them back.
///
/// Failure   never
/// Threads   as `usage()` of the resource; what other threads do in the scope is counted too
/// Cost      one `usage()` when made, and one for each question
template <measured_resource Resource>
class memory_delta {
public:
    /// Starts here. The resource outlives the probe.
    explicit memory_delta(Resource const& memory) : memory_{&memory}, before_{memory.usage()} {}
    explicit memory_delta(Resource const&&) = delete;

    /// Bytes more out now than at the start; 0 where there are fewer.
    [[nodiscard]] std::size_t bytes() const { return risen(now().live, before_.live); }

    /// Live bytes now minus those at the start: negative if memory was freed.
    [[nodiscard]] std::ptrdiff_t difference() const {
        return static_cast<std::ptrdiff_t>(now().live) - static_cast<std::ptrdiff_t>(before_.live);
    }

    /// Bytes fewer out now than at the start; 0 where there are more.
    [[nodiscard]] std::size_t returned() const { return risen(before_.live, now().live); }

    /// The most that was out beyond the start at any moment, or a bound that it stayed under.
    [[nodiscard]] std::size_t peak() const {
        heights const h = seen(now());
        return risen(std::max(h.then, h.since), before_.live);
    }

    /// Whether `peak()` was reached in this scope.
    [[nodiscard]] bool peak_is_exact() const {
        memory_usage const after = now();
        heights const      h     = seen(after);
        return h.since > h.then ||
               (h.since == h.then && (after.live == h.since || before_.live == h.since));
    }

    /// Bytes more held from the upstream or the device than at the start; 0 where there are fewer.
    [[nodiscard]] std::size_t reserved() const { return risen(now().reserved, before_.reserved); }

    /// Requests that were met since the start.
    [[nodiscard]] std::uint64_t allocations() const {
        return now().allocations - before_.allocations;
    }

    /// Starts again, here.
    void reset() { before_ = now(); }

    [[nodiscard]] memory_usage const& before() const noexcept { return before_; }
    [[nodiscard]] memory_usage        now() const { return memory_->usage(); }

private:
    struct heights {
        std::size_t then; ///< the highest that the resource knew at the start
        std::size_t since;
    };
    /// Peaks that started again meanwhile leave out what was before: then those of all time count.
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

/// The same of a layer that counts. Probes of one layer may overlap in any way.
///
/// Failure   `std::bad_alloc` when made
/// Threads   any; what other threads do in the scope is counted too
/// Cost      an answer costs the probes that were made since this one
template <class Upstream, class Lock>
class memory_delta<statistics<Upstream, Lock>> {
public:
    explicit memory_delta(statistics<Upstream, Lock>& memory)
        : memory_{&memory}, before_{memory.usage()}, asked_{memory.push()} {}
    memory_delta(memory_delta&&) = delete;
    ~memory_delta() { memory_->pop(asked_); }

    [[nodiscard]] std::size_t    bytes() const { return positive(counted().bytes.value); }
    [[nodiscard]] std::ptrdiff_t difference() const { return counted().bytes.value; }
    [[nodiscard]] std::size_t    returned() const { return positive(-counted().bytes.value); }
    [[nodiscard]] std::size_t    peak() const { return positive(counted().bytes.peak); }
    [[nodiscard]] bool           peak_is_exact() const noexcept { return true; }
    [[nodiscard]] std::uint64_t  allocations() const { return counted().blocks.total; }

    /// Bytes more held from the upstream or the device than at the start; 0 where there are fewer.
    [[nodiscard]] std::size_t reserved() const {
        std::size_t const after = memory_->usage().reserved;
        return after > before_.reserved ? after - before_.reserved : 0;
    }

    /// Everything that was counted in the scope: blocks and refusals, too.
    [[nodiscard]] counters counted() const { return memory_->now(asked_); }

    void reset() {
        std::uint64_t const fresh = memory_->push();
        memory_->pop(std::exchange(asked_, fresh));
        before_ = memory_->usage();
    }

    [[nodiscard]] memory_usage const& before() const noexcept { return before_; }
    [[nodiscard]] memory_usage        now() const { return memory_->usage(); }

private:
    [[nodiscard]] static std::size_t positive(std::ptrdiff_t n) noexcept {
        return n > 0 ? static_cast<std::size_t>(n) : 0;
    }

    statistics<Upstream, Lock>* memory_;
    memory_usage                before_;
    std::uint64_t               asked_;
};

} // namespace vram
