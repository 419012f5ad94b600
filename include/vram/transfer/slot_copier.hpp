// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_copier` is the ring's copies: from pinned memory to the device, in order, on a stream of
/// their own.

#include <vram/base/report_caught.hpp>    // report_caught
#include <vram/transfer/copy_lane.hpp>    // copy_lane
#include <vram/transfer/copy_problem.hpp> // copy_problem
#include <vram/transfer/slot_ring.hpp>    // slot_ring
#include <vram/transfer/stage.hpp>        // stage

#include <cstdint>   // uint64_t
#include <cstring>   // memset
#include <exception> // exception_ptr, current_exception
#include <optional>  // optional
#include <utility>   // move

namespace vram {

/// A ring whose copies are enqueued by the loop that waits for a batch, or else by whoever brings a
/// filled slot and a free one together: a producer that has filled, or a batch that ends. The copy
/// stream waits for the slot's last users, on the device; the end of a copy calls back, so that its
/// pinned slot is empty again and nobody has waited for it.
///
/// Failure   of a copy: thrown at its batch. Where no call-back can be had, whoever fills the slot
///           next waits for the copy's event instead
/// Streams   a lane for the copies, and one for the call-backs
/// Cost      a copy: a wait, an event, and the call-back's wait and call; nothing is allocated
template <class Platform>
class slot_copier : public slot_ring<Platform> {
    using ring = slot_ring<Platform>;

public:
    using typename ring::clock;
    using typename ring::device;
    using typename ring::pinned;
    using typename ring::slot;
    using typename ring::stream;

    /// Where the time went so far. On the consumer's thread.
    [[nodiscard]] loader_statistics statistics() {
        this->expect_home();
        if (this->options_.timing) { measure_empties(); }
        auto       s = this->note([](auto& f) { return f; });
        auto const t = this->times_.sum();
        s.use_ns     = t;
        return s;
    }

protected:
    /// What blocks are overwritten with in checker mode: as a float no number, and no small one.
    static constexpr unsigned char poison = 0xFF;

    slot_copier(loader_options const& options, device where, std::optional<stream> copies)
        : ring{options, where}, lane_{where, copies, options.priority} {
        for (pinned& p : this->pinned_) { p.owner = this; }
    }
    ~slot_copier() = default;

    /// Nobody reads `p` any more after this, and nobody needs what is in it.
    void clear(pinned& p) {
        if (p.in_flight) {
            std::uint64_t const since = clock::now();
            Platform::synchronize(p.left);
            p.in_flight = false;
            this->note([&](auto& f) {
                f.pinned_ns += clock::now() - since;
                ++f.host_waits;
            });
        }
        measure(p);
        if (this->options_.checker) { std::memset(p.memory, poison, this->options_.batch_bytes); }
    }

    copy_lane<Platform> lane_;

private:
    void copy_all() noexcept final {
        pinned* from = nullptr;
        slot*   to   = nullptr;
        for (bool more = this->claim(from, to); more;) {
            more = this->copied(from, to, copy(*from, *to));
        }
    }

    /// From here on `to` has the batch; `from` is empty once the copy is over, which may be before
    /// this returns.
    std::exception_ptr copy(pinned& from, slot& to) noexcept {
        stage<Platform> const shown{"vram copy"};
        stream const          on      = lane_.view();
        bool                  started = false;
        try {
            to.size   = from.size;
            to.filled = from.filled;
            to.asked  = from.asked;
            to.await_users(on);
            if (from.timed) { Platform::record(from.begun, on); }
            Platform::copy(on, to.memory, from.memory, from.size);
            started     = true;
            from.marked = false;
            if (from.timed) { Platform::record(from.left, on); }
            if (this->options_.call_back) { lane_.mark(from); }
            bool const unseen = !from.timed && !from.marked; // the mark is seen without an event
            if (unseen) { Platform::record(from.left, on); }
            Platform::record(to.copied, on);
            from.over = from.marked ? &to.copied : &from.left;
            to.mark   = from.marked ? from.mark : nullptr;
            to.flight = from.flight;
            depart(from, to);
            return nullptr;
        } catch (...) {
            std::exception_ptr problem = copy_problem<Platform>(to.index, to.asked);
            if (started) { to.unsure = from.unsure = !lane_.finish(); }
            return problem;
        }
    }
    /// Says who will know that the copy out of `from` is over: who looks at its mark, a call, or
    /// who fills it next.
    void depart(pinned& from, slot& to) noexcept {
        from.unmeasured = from.timed;
        if (from.marked) { return; }
        if (this->options_.call_back) {
            try {
                return lane_.call_after(to.copied, landed, &from);
            } catch (...) {
                report_caught({.kind     = error_kind::platform_error,
                               .pointer  = from.memory,
                               .resource = "loader",
                               .call     = "the callback after a copy"});
            }
        }
        from.in_flight = true;
        this->put_back(from);
    }
    static void landed(void* slot) {
        pinned& p = *static_cast<pinned*>(slot);
        static_cast<slot_copier*>(p.owner)->land(p);
    }

    void released(slot& s) noexcept final {
        if (!this->options_.checker) { return; }
        try {
            s.await_users(lane_.view());
            Platform::fill(lane_.view(), s.memory, std::byte{poison}, this->options_.batch_bytes);
        } catch (...) {
            report_caught({.kind     = error_kind::platform_error,
                           .pointer  = s.memory,
                           .resource = "loader",
                           .call     = "the fill of a released block"});
        }
    }

    void measure(pinned& p) {
        if constexpr (has_timing<Platform>) {
            if (!p.unmeasured) { return; }
            auto const ns = static_cast<std::uint64_t>(Platform::elapsed(p.begun, p.left));
            p.unmeasured  = false;
            this->note([&](auto& f) { f.copy_ns += ns; });
        }
    }
    void measure_empties() {
        for (auto all = this->take_empties(); pinned* const p = all.pop();) {
            try {
                if (p->unmeasured && Platform::done(p->left)) { measure(*p); }
            } catch (...) {
                report_caught({.kind     = error_kind::platform_error,
                               .pointer  = p->memory,
                               .resource = "loader",
                               .call     = "the timing of a copy"});
            }
            this->put_back(*p);
        }
    }

    void look_after_copies() noexcept final {
        for (pinned& p : this->pinned_) {
            try {
                auto const flight = this->flight_of(p);
                if (flight.which == 0 || !Platform::done(*flight.over)) { continue; }
                Platform::synchronize(*flight.over); // where it ended in an error, this throws it
                this->land_early(p, flight.which);
            } catch (...) { return this->fail(std::current_exception()); }
        }
    }
};

} // namespace vram
