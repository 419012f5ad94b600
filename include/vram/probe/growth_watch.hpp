// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `growth_watch` finds memory that grows over the iterations of a loop.

#include <vram/base/core/heap_array.hpp>
#include <vram/concepts/memory_info.hpp>
#include <vram/concepts/powers.hpp> // measured_resource, device_of_resource
#include <vram/probe/core/growth_envelope.hpp>
#include <vram/probe/core/site_marks.hpp>
#include <vram/probe/growth_options.hpp>
#include <vram/probe/memory_growth.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {

/// Reads the live bytes of a resource after each step of a loop, and finds a steady growth: an
/// almost straight rise over at least `growth_options::steps` steps.
///
///     growth_watch watch{memory};
///     for (auto& batch : batches) {
///         train_step(batch);
///         watch.step();
///     }
///     if (memory_growth const found = watch.growth()) { std::puts(found.text().c_str()); }
///
/// Memory that rises at the start and then stays constant is not reported. The same holds for
/// memory that rises and falls in turn, or that changes irregularly. If the rise at the start lasts
/// more than `steps` steps, it may be reported until the memory falls. If the resource has a layer
/// `tracking`, the result names the tags and program lines with increased live bytes. With `{.of =
/// growth_of::device}`, the object watches the used bytes of the device instead.
///
/// Failure   Throws `std::bad_alloc`, and the exceptions of `usage()` or of the platform.
/// Threads   One thread at a time. Allocations of all threads are counted.
/// Cost      One call of `usage()` for each step. With `growth_of::device`, also a query of the
///           device.
template <measured_resource R>
class growth_watch {
public:
    /// Starts the watch: reads the bytes for the first time, as those of step 0. The resource must
    /// outlive the watch.
    [[nodiscard]] explicit growth_watch(R const& memory, growth_options const& options = {})
        : memory_{&memory}, options_{options} {
        step();
    }
    explicit growth_watch(R const&&, growth_options const& = {}) = delete;

    /// Call this after each step of the loop. Reads the bytes that `growth_options::of` selects.
    void step() {
        memory_usage const usage = memory_->usage();
        if (sizes_.steps() == next_mark_) { mark(usage.live); }
        sizes_.add(size(usage));
    }

    /// Returns the steady growth that lasts up to the last call of `step`. Returns an empty result
    /// if the memory does not grow steadily.
    [[nodiscard]] memory_growth growth() const {
        detail::steady_rise const found = sizes_.rise(options_.steps);
        if (!found.found()) { return {.of = options_.of}; }
        // Finds the newest stored figures that are not newer than the start of the growth.
        point const*      then = &marks_[0];
        std::size_t const live = memory_->usage().live;
        for (point const& each : marks_) {
            if (each.step <= found.since) { then = &each; }
        }
        return {.of         = options_.of,
                .since      = found.since,
                .until      = found.until,
                .bytes      = found.bytes(),
                .live       = live > then->live ? live - then->live : 0,
                .live_since = then->step,
                .sites      = then->sites.risen(detail::site_figure::live)};
    }

    /// Returns the number of calls of `step` since the construction.
    [[nodiscard]] std::uint64_t steps() const noexcept { return sizes_.steps() - 1; }

private:
    struct point {
        std::uint64_t        step;
        std::size_t          live;
        detail::site_marks<> sites;
    };
    static constexpr std::size_t most_marks = 16;

    [[nodiscard]] std::size_t size(memory_usage const& usage) const {
        if (options_.of == growth_of::live) { return usage.live; }
        if (options_.of == growth_of::reserved) { return usage.reserved; }
        memory_info const info = R::platform::memory(detail::device_of_resource(*memory_));
        return info.total - info.free;
    }
    /// Stores the figures of the present step, and selects the step at which figures are stored
    /// next. If 16 copies are stored, drops every second one and doubles the distance between
    /// copies.
    void mark(std::size_t live) {
        marks_.push(point{sizes_.steps(), live, detail::site_marks<>{*memory_}});
        if (marks_.size() == most_marks) {
            detail::heap_array<point> fewer;
            for (std::size_t i = 0; i < most_marks; i += 2) { fewer.push(std::move(marks_[i])); }
            marks_ = std::move(fewer);
            distance_ *= 2;
        }
        next_mark_ = sizes_.steps() + distance_;
    }

    R const*                  memory_;
    growth_options            options_;
    detail::growth_envelope   sizes_;
    detail::heap_array<point> marks_;
    std::uint64_t             next_mark_ = 0;
    /// Number of steps between two stored copies of the figures. It doubles each time that 16
    /// copies are stored.
    std::uint64_t distance_ = 4;
};

} // namespace vram
