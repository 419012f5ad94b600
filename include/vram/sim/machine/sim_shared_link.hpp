// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_shared_link` divides the speed of a link among the operations that use it.

#include <vram/sim/machine/sim_operation.hpp>
#include <vram/sim/sim_time.hpp>

#include <algorithm> // min_element, find_if
#include <cstddef>
#include <cstdint>
#include <vector> // vector

namespace vram {
namespace detail {

/// The kinds of links. A link is a connection with limited speed, which simulated operations share.
/// The memory of a device (`memory`) is treated as a link, too.
enum class sim_link_kind : unsigned char {
    to_device,
    to_host,
    pageable_to_device,
    pageable_to_host,
    peer,
    memory
};

/// Returns a number that identifies a link by its kind and its `device` (or group of devices); a
/// link between devices also by the destination `other`.
[[nodiscard]] constexpr std::size_t sim_link_number(sim_link_kind kind, int device,
                                                    int other = 0) noexcept {
    return (static_cast<std::size_t>(kind) << 48U) | (static_cast<std::size_t>(device) << 24U) |
           static_cast<std::size_t>(other);
}

/// The operations that use one link, or the memory of a device, at the same time. Each of k
/// operations has 1/k of the speed.
///
/// Cost      O(operations of the link).
class sim_shared_link {
public:
    /// Adds the operation `op` to the users of the link. `op.task.transfer` is the time that `op`
    /// needs if the link has no other users.
    void add(sim_operation& op, sim_time now) {
        advance(now);
        users_.push_back({&op, served_ + static_cast<wide>(op.task.transfer.count()) * scale});
    }
    /// Removes the operation `op`, which has ended, from the users of the link.
    void remove(sim_operation const& op, sim_time now) {
        advance(now);
        users_.erase(std::find_if(users_.begin(), users_.end(),
                                  [&](use const& u) { return u.operation == &op; }));
        if (users_.empty()) { served_ = 0; }
    }

    /// Returns the operation that ends first if no other one begins to use the link, or null if
    /// none uses it.
    [[nodiscard]] sim_operation* first() const {
        auto const at = next();
        return at == users_.end() ? nullptr : at->operation;
    }
    /// Returns the time at which `first()` ends if no other operation begins to use the link.
    [[nodiscard]] sim_time first_end() const {
        wide const goal = next()->goal;
        wide const left = goal > served_ ? (goal - served_) * users_.size() : 0;
        return since_ + sim_time{static_cast<std::int64_t>((left + scale - 1) / scale)};
    }

    /// The operation on this link that ends next: its end is in the event queue of `sim_schedule`.
    /// Null if there is none.
    sim_operation* announced = nullptr;

private:
    __extension__ typedef unsigned __int128 wide;
    /// A multiple of all numbers from 1 to 16, so that the shares of up to 16 operations are whole
    /// numbers.
    static constexpr wide scale = 720720;

    struct use {
        sim_operation* operation;
        /// The operation ends when the counter `served_` of the link reaches this value.
        wide goal;
    };

    [[nodiscard]] std::vector<use>::const_iterator next() const {
        return std::min_element(users_.begin(), users_.end(), [](use const& a, use const& b) {
            return a.goal != b.goal ? a.goal < b.goal : a.operation->number < b.operation->number;
        });
    }
    void advance(sim_time now) {
        if (!users_.empty()) {
            served_ += static_cast<wide>((now - since_).count()) * scale / users_.size();
        }
        since_ = now;
    }

    std::vector<use> users_;
    /// Counter of the link's progress. While k operations use the link, the counter grows by
    /// `scale` / k in each nanosecond. It is 0 while no operation uses the link.
    wide served_ = 0;
    /// Time at which an operation last began or stopped using the link.
    sim_time since_{};
};

} // namespace detail
} // namespace vram
