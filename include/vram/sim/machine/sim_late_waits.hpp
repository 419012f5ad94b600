// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_late_waits` orders operations by words in memory and by collectives.

#include <vram/sim/machine/sim_machine.hpp>

#include <cstddef>

namespace vram {
namespace detail {

/// Records the order (in vector clocks) of streams that wait for a value in memory or, in a
/// collective, for other ranks. The awaited work may be queued after the wait; its order is then
/// added later.
///
/// Failure   Members throw `std::bad_alloc`.
/// Threads   The calling thread holds the machine's lock.
class sim_late_waits {
public:
    explicit sim_late_waits(sim_machine& m) : m_{m} {}

    /// Records that `op` writes a word in memory or waits for its value. A wait adds to `vclock`
    /// the work before the write or, if that is not queued yet, an open wait.
    void use_word(sim_operation& op, std::size_t slot, vector_clock& vclock, sim_stream_state& s) {
        sim_word_use const& use  = *op.task.word;
        sim_word&           word = m_.words[use.where];
        if (!use.waits) {
            word.queued.push_back({op.number, use.value, slot, vclock[slot], vclock});
            op.task.completed = [&m = m_, &op] { m.write_word(*op.task.word, op.number); };
            return m_.written(word);
        }
        // Recorded even while races are not checked, because the check may be switched on later.
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

    /// Orders `op`, one rank's part of a collective operation, after the work of the other ranks
    /// that precedes their parts.
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
    /// Records that the stream `s` waits for work that may be queued later. Gives the wait a number
    /// and stores it in `vclock`, so that later operations follow the wait.
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
