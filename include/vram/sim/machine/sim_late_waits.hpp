// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_late_waits` orders operations by words in memory and by collectives.

#include <vram/sim/machine/sim_machine.hpp>

#include <cstddef>

namespace vram {
namespace detail {

/// Records in vector clocks the order that waits of streams create. A stream may wait for a value
/// in memory, or for the other ranks of a collective. If the awaited work is not queued yet, the
/// order is recorded when that work is queued.
///
/// Failure   Members throw `std::bad_alloc`.
/// Threads   The calling thread holds the machine's lock.
class sim_late_waits {
public:
    explicit sim_late_waits(sim_machine& m) : m_{m} {}

    /// Records that `op` writes a word in memory or waits for a value of the word. If `op` waits,
    /// adds the work before the awaited write to `vclock`. If that write is not queued yet, begins
    /// an open wait instead.
    void use_word(sim_operation& op, std::size_t slot, vector_clock& vclock, sim_stream_state& s) {
        sim_word_use const& use  = *op.task.word;
        sim_word&           word = m_.words[use.where];
        if (!use.waits) {
            word.queued.push_back({op.number, use.value, slot, vclock[slot], vclock});
            op.task.completed = [&m = m_, &op] { m.write_word(*op.task.word, op.number); };
            return m_.written(word);
        }
        // Records the wait even if races are not checked, because the check may be switched on.
        int        device = 0;
        bool const plain  = m_.memory.kind_of(use.where, device) != sim_kind::device;
        auto const end    = word.before(use, m_.value_at(use.where), plain, vclock);
        if (!end) {
            begin_wait(vclock, s);
            word.waits.push_back({use, s.wait_slot, s.waits_so_far, &s, s.id.load()});
            return;
        }
        if (end->by != nullptr) {
            word.waits.push_back({use, slot, vclock[slot]});
            word.waits.back().end(*end->by);
            word.forget_waits();
        }
        vclock.join(end->clock);
    }

    /// Called when a rank queues `op`, its part of a collective. When the last rank does so, the
    /// earlier work of all ranks is ordered before the end of each part.
    void join_meeting(sim_operation& op, vector_clock& vclock, sim_stream_state& s) {
        sim_meeting& meeting = *op.task.meeting;
        meeting.vclock.join(vclock);
        begin_wait(vclock, s);
        meeting.queued.push_back({&s, s.id.load(), s.wait_slot, s.waits_so_far});
        if (meeting.queued.size() < meeting.ranks) { return; }
        for (sim_meeting::party const& each : meeting.queued) {
            m_.checker.end_wait(each.slot, each.count, meeting.vclock);
            if (each.stream->id != each.id) { continue; }
            each.stream->vclock.join(meeting.vclock);
            m_.changed(*each.stream);
        }
        meeting.queued.clear();
        vclock.join(meeting.vclock);
    }

private:
    /// Begins a wait of the stream `s` for work that may be queued later. Gives the wait a number
    /// and stores the number in `vclock`, so that later operations follow the wait.
    void begin_wait(vector_clock& vclock, sim_stream_state& s) {
        if (s.waits_so_far == 0) {
            s.wait_slot    = m_.checker.actor(s.vclock);
            s.waits_so_far = s.vclock[s.wait_slot];
        }
        vclock.raise(s.wait_slot, ++s.waits_so_far);
        m_.checker.begin_wait(s.wait_slot, s.waits_so_far);
    }

    sim_machine& m_;
};

} // namespace detail
} // namespace vram
