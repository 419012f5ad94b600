// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `graph_frees` keeps blocks that were freed during captures until no graph uses them any more.

#include <vram/base/call_site.hpp>
#include <vram/base/core/heap_array.hpp>
#include <vram/base/core/unlocked.hpp>
#include <vram/base/error.hpp> // report_error
#include <vram/concepts/core/await_device.hpp>
#include <vram/concepts/core/observation.hpp> // host_waits_made
#include <vram/concepts/powers.hpp>           // device_of_resource
#include <vram/order/core/freed_blocks.hpp>
#include <vram/order/core/try_wait.hpp>

#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <utility> // exchange, move

namespace vram {
namespace detail {

/// A list of blocks that were freed during captures. Captured graphs may use the blocks, and may
/// run on any stream. The host therefore waits for whole devices before the blocks are reused.
///
/// Threads   One thread at a time, with the resource's lock held except in `finish_or_report`.
template <class Platform>
class graph_frees {
public:
    using stream = typename Platform::stream;
    using device = typename Platform::device;
    using link   = freed_blocks::link;

    graph_frees() = default;
    graph_frees(graph_frees&& other) noexcept { *this = std::move(other); }
    graph_frees& operator=(graph_frees&& other) noexcept {
        if (this == &other) { return *this; }
        blocks_   = std::move(other.blocks_);
        devices_  = std::move(other.devices_);
        unknown_  = std::exchange(other.unknown_, false);
        next_age_ = other.next_age_;
        return *this;
    }

    /// Adds a block that was freed while the stream `s` is being captured.
    void add(stream s, link* one) noexcept {
        one->age = next_age_++;
        blocks_.push(one);
        try {
            add_device(Platform::device_of(s));
        } catch (...) {
            unknown_ = true;
            try { // the device of `s` is usually current
                add_device(Platform::current_device());
            } catch (...) {} // then the devices that are known are waited for
        }
    }

    /// Makes the host wait, with the lock `guard` unlocked, for the devices of all streams that
    /// freed blocks during captures. Then moves the blocks that were added before the call to the
    /// list `free`. Returns the number of waits.
    template <class Guard, class R>
    std::size_t finish(Guard& guard, R const& mr, freed_blocks& free) {
        std::uint64_t const until = next_age_; // blocks added from now on are not moved to `free`
        std::size_t         waits = 0;
        auto const          await = [&](auto const& which) {
            unlocked(guard, [&] { await_device<Platform>(which()); });
            ++host_waits_made;
            ++waits;
        };
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            await([its = devices_[i]] { return its; });
        }
        // If the device of a captured stream is unknown, also waits for the device of the resource
        // `mr`.
        if (unknown_) {
            await([&] { return device_of_resource(mr); });
        }
        while (link const* const first = blocks_.first()) {
            if (first->age >= until) { return waits; }
            free.push(blocks_.pop());
        }
        devices_.clear();
        unknown_ = false;
        return waits;
    }
    /// Makes the host wait for the devices of all captured streams. If all waits succeed, moves all
    /// blocks to the list `free`. If any wait fails, reports all blocks as leaks.
    template <class R>
    void finish_or_report(R const& mr, freed_blocks& free) noexcept {
        bool all = true;
        for (device const& each : devices_) { all = try_wait<Platform>(each) && all; }
        if (unknown_) {
            auto const its = [&] { await_device<Platform>(device_of_resource(mr)); };
            all            = try_wait<Platform>(its, "the wait for a device") && all;
        }
        if (all) { return free.splice(blocks_); }
        blocks_.drain([](void* p, std::size_t bytes, std::size_t, call_site at) {
            report_error({.kind     = error_kind::leak,
                          .pointer  = p,
                          .bytes    = bytes,
                          .caller   = at,
                          .resource = "stream_ordered",
                          .cause    = "the device of a captured stream could not be waited for"});
        });
    }

    [[nodiscard]] bool        has(void const* p) const noexcept { return blocks_.has(p); }
    [[nodiscard]] std::size_t bytes() const noexcept { return blocks_.bytes(); }

private:
    void add_device(device its) {
        for (device const& each : devices_) {
            if (!(each != its)) { return; }
        }
        devices_.push(its);
    }

    freed_blocks       blocks_;
    heap_array<device> devices_; ///< known devices of the captured streams, each once
    /// True if the device of some captured stream is unknown, because a query failed.
    bool          unknown_  = false;
    std::uint64_t next_age_ = 0; ///< `age` (sequence number) of the block that is added next
};

} // namespace detail
} // namespace vram
