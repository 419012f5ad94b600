// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_wait` implements the waits and queries of the host on simulated devices.

#include <vram/sim/machine/sim_call.hpp> // sim_call, sim_machine
#include <vram/sim/machine/sim_outside_step.hpp>

#include <algorithm> // max, none_of
#include <cstddef>
#include <cstdint>
#include <exception> // rethrow_exception
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// The waits and queries of one call of the simulated device. A wait advances the simulated time of
/// the calling thread. After `synchronize` and `await_all`, the completed work happens before the
/// thread's next step.
///
/// Failure   Members throw `sim_error`, or the exception of a kernel.
/// Threads   The calling thread holds the machine's lock, which is released during waits.
class sim_wait {
public:
    explicit sim_wait(sim_call& call) : call_{call}, m_{call.machine} {}

    /// Blocks until the operation `m` is complete. Takes `m` by value: the original may be a member
    /// of an event, and changes if that event is recorded again during the wait.
    void await(sim_moment m) {
        sim_host& h = *call_.host;
        if (!h.ordinary) {
            m_.turns.block(call_.held, h, [&] {
                if (!m.pending()) { return true; }
                h.operation = m;
                return false;
            });
            return;
        }
        while (m.pending()) { sim_outside_step(m_, call_.held); }
        h.clock = std::max(h.clock, m_.schedule.now());
    }

    /// Blocks until all work queued on the stream is complete; for the legacy default stream, also
    /// the work of the blocking streams.
    void synchronize(sim_stream_state& s) {
        call_.admit();
        if (s.capture) { break_capture(s); }
        if (s.legacy) { call_.refuse_implicit(s); }
        call_.unsafe();
        waiting const figure{m_, *call_.host, s.device};
        work const    all = work_of(s);
        for (sim_moment const& m : all.moments) { await(m); }
        m_.acquire(*call_.host, all.vclock);
        throw_pending(s.device);
    }
    void synchronize(sim_event_state& e) {
        call_.admit();
        if (e.capture) { refuse_captured(e); }
        call_.unsafe();
        if (e.recorded) {
            call_.expect_ordered(e, "synchronize");
            waiting const      figure{m_, *call_.host, e.device};
            vector_clock const then = e.vclock;
            await(e.place);
            m_.acquire(*call_.host, then);
        }
        throw_pending(e.device);
    }
    /// Blocks until all queued work of the device is complete. If streams of the device are being
    /// captured, invalidates all these captures and throws `sim_error{stream_capturing}`.
    void synchronize(int device) {
        call_.admit();
        sim_device_state& d = m_.at(device);
        for (sim_stream_state* const s : d.streams) {
            if (d.captured == 0) { break; }
            if (s->capture) { s->capture->broken = true; }
        }
        call_.unsafe();
        if (d.captured != 0) { throw sim_error{sim_status::stream_capturing, call_.where}; }
        vector_clock const then = past_of(d);
        wait_idle(device);
        m_.acquire(*call_.host, then);
        throw_pending(device);
    }
    /// Blocks until all work of the device is complete, as cudaFree does. Does not invalidate a
    /// capture.
    void await_all(int device) {
        call_.admit();
        vector_clock const then = past_of(m_.at(device));
        wait_idle(device);
        m_.acquire(*call_.host, then);
        throw_pending(device);
    }
    /// Blocks until all work that was queued on `device` before the call is complete. Does not
    /// order the calling thread after this work in the race check. The function builds no list of
    /// operations, so it needs no host memory.
    void wait_idle(int device) {
        waiting const       figure{m_, *call_.host, device};
        std::uint64_t const last = m_.schedule.count();
        sim_device_state&   d    = m_.at(device);
        // The lists of streams and operations may change during a wait, so they are read again
        // until all is complete.
        for (bool waited = true; waited;) {
            waited            = false;
            auto const finish = [&](sim_moment m) {
                if (!m.pending() || m.number > last) { return; }
                await(m);
                waited = true;
            };
            for (std::size_t i = 0; i < d.orphans.size(); ++i) { finish(d.orphans[i]); }
            for (std::size_t i = 0; i < d.active.size(); ++i) {
                sim_stream_state const& s = d.active[i];
                finish(s.tail);
                for (std::size_t k = 0; k < s.waits.size(); ++k) { finish(s.waits[k]); }
            }
        }
        d.orphans.sweep();
        for (std::size_t i = d.active.size(); i-- > 0;) {
            sim_stream_state& s = d.active[i];
            if (s.in_past && idle(s)) { d.active.remove(s); }
        }
    }

    /// Called before a query: runs queued work up to the simulated time of the calling thread.
    void reach() {
        if (call_.host->ordinary ? !m_.turns.outside_may_step()
                                 : m_.turns.order() == sim_order::by_time) {
            return;
        }
        while (!m_.schedule.executing() && m_.schedule.next() <= call_.host->clock &&
               m_.schedule.next() != sim_time::max()) {
            m_.schedule.step(call_.held);
            m_.turns.progress.notify_all();
        }
    }

    [[nodiscard]] bool done(sim_event_state& e) {
        if (e.capture) { refuse_captured(e); }
        call_.unsafe();
        ++m_.schedule.figures(e.device).queries;
        if (!e.recorded) { return true; }
        call_.expect_ordered(e, "query");
        if (e.place.pending()) { reach(); }
        return answer(e.place.pending(), knows(e.slot, e.count), e.vclock);
    }
    [[nodiscard]] bool done(sim_stream_state& s) {
        if (s.capture) { break_capture(s); }
        if (s.legacy) { call_.refuse_implicit(s); }
        call_.unsafe();
        ++m_.schedule.figures(s.device).queries;
        reach();
        work const all     = work_of(s);
        bool       pending = false;
        for (sim_moment const& m : all.moments) { pending = pending || m.pending(); }
        // If `known` is true, the thread is already ordered after all work of the stream, so
        // `answer` need not order it. `known` is false for the legacy default stream, because its
        // work includes that of blocking streams. It is also false if the stream's vector clock may
        // have changed after the step `s.count` (`joined`).
        bool const known = !s.legacy && !s.vclock.joined() && knows(s.slot, s.count);
        return answer(pending, known, all.vclock);
    }

private:
    /// The work that a wait for a stream covers: its incomplete operations, and the vector clock of
    /// all of its work.
    struct work {
        std::vector<sim_moment> moments;
        vector_clock            vclock;
    };

    /// Returns the work that a wait for the stream `s` covers: for the legacy default stream also
    /// that of the blocking streams.
    [[nodiscard]] work work_of(sim_stream_state& s) {
        if (s.id == 0) { throw sim_error{sim_status::invalid_handle, call_.where}; }
        if (s.legacy) { sim_machine::include_allocations(s); }
        work       all;
        auto const add = [&](sim_stream_state const& stream) {
            if (stream.tail.pending()) { all.moments.push_back(stream.tail); }
            for (sim_moment const& m : stream.waits) {
                if (m.pending()) { all.moments.push_back(m); }
            }
            all.vclock.join(stream.vclock);
        };
        add(s);
        if (!s.legacy) { return all; }
        sim_device_state& d = m_.at(s.device);
        // A wait for the legacy stream includes the work of the other blocking streams.
        for (sim_stream_state* const other : d.unfollowed) { add(*other); }
        for (sim_moment const& m : d.blocking_orphans) {
            if (m.pending()) { all.moments.push_back(m); }
        }
        all.vclock.join(d.blocking_orphans_vclock);
        return all;
    }

    /// Counts one wait of a host thread, and its duration, in the destructor.
    struct waiting {
        waiting(sim_machine& m, sim_host& h, int d)
            : machine{m}, host{h}, device{d}, since{h.clock} {}
        ~waiting() {
            if (host.clock > since) { host.clock += machine.options.costs.wake; }
            sim_figures& f = machine.schedule.figures(device);
            ++f.host_waits;
            f.host_waiting += host.clock - since;
        }
        sim_machine& machine;
        sim_host&    host;
        int          device;
        sim_time     since;
    };

    /// Returns the vector clock of all work of a device so far.
    [[nodiscard]] vector_clock past_of(sim_device_state& d) {
        if (d.legacy->allocations != 0) {
            sim_machine::include_allocations(*d.legacy);
            m_.changed(*d.legacy);
        }
        for (sim_stream_state* const s : d.active) {
            if (m_.checker.on().races) { d.past_vclock.join(s->vclock); }
            s->in_past = true;
        }
        return d.past_vclock;
    }
    [[nodiscard]] static bool idle(sim_stream_state const& s) noexcept {
        return !s.tail.pending() && std::none_of(s.waits.begin(), s.waits.end(),
                                                 [](sim_moment const& m) { return m.pending(); });
    }

    /// Returns true if the calling thread is ordered after the step `count` of a stream. `slot` is
    /// the index of the stream in vector clocks.
    [[nodiscard]] bool knows(std::size_t slot, std::uint64_t count) const noexcept {
        return sim_machine::follows(call_.host->vclock, slot, count);
    }

    /// Returns false if the queried work is `pending`. Otherwise, returns true and orders the
    /// calling thread after the work in `vclock`. `known`: true if the thread already has this
    /// order.
    bool answer(bool pending, bool known, vector_clock const& vclock) {
        if (pending) {
            call_.host->clock += m_.options.query_cost;
            return false;
        }
        if (!known) { m_.acquire(*call_.host, vclock); }
        return true;
    }

    /// Throws the error of earlier work on `device` that is sticky or was not thrown yet: the
    /// exception of a kernel, or an injected fault.
    void throw_pending(int device) {
        sim_device_state& d = m_.at(device);
        if (auto failure = m_.schedule.take_failure(device)) { std::rethrow_exception(failure); }
        if (d.pending != sim_status::ok) {
            throw sim_error{d.sticky ? d.pending : std::exchange(d.pending, sim_status::ok),
                            call_.where};
        }
    }

    /// Throws `sim_error{captured_event}`, because `e` was last recorded in a capture. Invalidates
    /// the capture if it is in progress.
    [[noreturn]] void refuse_captured(sim_event_state& e) {
        if (!e.capture->ended) { e.capture->broken = true; }
        throw sim_error{sim_status::captured_event, call_.where};
    }
    /// Called if a call is illegal during the capture of the stream `s`: invalidates the capture
    /// and throws `sim_error{stream_capturing}`.
    [[noreturn]] void break_capture(sim_stream_state& s) {
        s.capture->broken = true;
        throw sim_error{sim_status::stream_capturing, call_.where};
    }

    sim_call&    call_;
    sim_machine& m_;
};

} // namespace detail
} // namespace vram
