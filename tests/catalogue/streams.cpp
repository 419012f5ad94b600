// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include <vram/sim/sim.hpp>

#include <optional>
#include <utility>

namespace catalogue::streams {

GROUP("streams")

PAIR(two_streams_write, race, "CUDA: operations of different streams have no order") {
    block const      p;
    sim_stream const s, t;
    writes(s, p);
    if (right) { follows(t, s); }
    MISTAKE(writes(t, p));
}

PAIR(read_before_the_write_is_complete, race,
     "CUDA: operations of different streams have no order") {
    block const      p;
    sim_stream const s, t;
    writes(s, p);
    if (right) { follows(t, s); }
    MISTAKE(reads(t, p));
}

PAIR(write_before_the_read_is_complete, race,
     "CUDA: operations of different streams have no order") {
    block const      p;
    sim_stream const s, t;
    reads(s, p);
    if (right) { follows(t, s); }
    MISTAKE(writes(t, p));
}

PAIR(ranges_that_share_one_byte, race, "A race needs one byte that both operations access") {
    block const      p;
    sim_stream const s, t;
    writes(s, p.part(0, 1024));
    MISTAKE(writes(t, p.part(right ? 1024 : 1023, 1024)));
}

PAIR(two_reads_and_a_write, race, "Reads need no order among themselves, but a write does") {
    block const      p;
    sim_stream const s, t;
    reads(s, p);
    if (right) {
        reads(t, p);
    } else {
        MISTAKE(writes(t, p));
    }
}

PAIR(write_behind_one_of_two_readers, race, "A write must wait for every earlier read") {
    block const      p;
    sim_stream const s, t, u;
    reads(s, p);
    reads(t, p);
    follows(u, s);
    if (right) { follows(u, t); }
    MISTAKE(writes(u, p));
}

PAIR(read_of_two_of_three_parts, race, "A read must wait for the writes of all its bytes") {
    block const      p;
    sim_stream const s, t, u, v;
    writes(s, p.part(0, 1024));
    writes(t, p.part(1024, 1024));
    writes(u, p.part(2048, 1024));
    follows(v, s);
    follows(v, t);
    if (right) { follows(v, u); }
    MISTAKE(reads(v, p.part(0, 3072)));
}

PAIR(chain_of_three_streams_with_a_gap, race, "Order is transitive only along waits") {
    block const      p;
    sim_stream const s, t, u;
    writes(s, p);
    if (right) { follows(t, s); }
    follows(u, t);
    MISTAKE(reads(u, p));
}

PAIR(waits_in_the_wrong_sequence, race,
     "cudaStreamWaitEvent orders only work that the stream gets later") {
    block const      p;
    sim_stream const s, t, u;
    writes(s, p);
    if (right) { follows(t, s); }
    follows(u, t);
    follows(t, s);
    MISTAKE(reads(u, p));
}

PAIR(the_order_of_the_other_direction, race, "A wait orders one stream after the other only") {
    block const      p;
    sim_stream const s, t;
    writes(s, p);
    right ? follows(t, s) : follows(s, t);
    MISTAKE(writes(t, p));
}

PAIR(one_buffer_for_two_stages, race,
     "A producer must wait until the consumer has read the buffer") {
    block const      a, b;
    sim_stream const producer, consumer;
    for (int i = 0; i < 3; ++i) {
        block const& p = right && i % 2 != 0 ? b : a;
        if (right && i == 2) { follows(producer, consumer); }
        MISTAKE(writes(producer, p));
        follows(consumer, producer);
        reads(consumer, p);
    }
}

PAIR(work_of_a_destroyed_stream, race,
     "cudaStreamDestroy: the work of the stream still runs, and the call does not wait") {
    block const      p;
    sim_stream const t;
    {
        sim_stream const s;
        writes(s, p);
        if (right) { follows(t, s); }
    }
    MISTAKE(writes(t, p));
}

PAIR(new_stream_in_place_of_a_destroyed_one, race,
     "A new stream has no order with the work of a destroyed stream, even if it has its handle") {
    block const p;
    sim_event   e;
    {
        sim_stream const s{sim_device{}, {.raw = true}};
        writes(s, p);
        e.record(s);
    }
    sim_stream const t;
    if (right) { e.wait(t); }
    MISTAKE(writes(t, p));
}

PAIR(destroyed_stream_in_use, refused(sim_status::invalid_handle),
     "A handle of a destroyed stream is invalid") {
    block const               p;
    std::optional<sim_stream> s{std::in_place, sim_device{}, sim_stream_options{.raw = true}};
    sim_stream_view const     view = *s;
    if (!right) { s.reset(); }
    MISTAKE(writes(view, p));
}

PAIR(two_blocking_streams, race,
     "CUDA: blocking streams are ordered with the legacy default stream, not among themselves") {
    block const      p;
    sim_stream const s = blocking_stream(), t = blocking_stream();
    writes(s, p);
    if (right) { follows(t, s); }
    MISTAKE(writes(t, p));
}

PAIR(luck_of_a_long_pause, race, "Time gives no order: only a wait does") {
    block const      p;
    sim_stream const s, t;
    writes(s, p);
    sim_work(sim_time{1'000'000});
    if (right) { follows(t, s); }
    MISTAKE(writes(t, p));
}

PAIR(long_after_many_operations, race, "Later operations of a stream do not end its hazards") {
    block const      p, q;
    sim_stream const s, t;
    writes(s, p);
    for (int i = 0; i < 50; ++i) { writes(s, q); }
    if (right) { follows(t, s); }
    MISTAKE(reads(t, p));
}

PAIR(reuse_by_the_third_of_three_streams, race,
     "A wait for the last writer covers the earlier ones only if these are ordered before it") {
    block const      p;
    sim_stream const s, t, u;
    writes(s, p.first_half());
    if (right) { follows(t, s); }
    writes(t, p.second_half());
    follows(u, t);
    MISTAKE(writes(u, p));
}

/// A kernel with atomic accesses to `r`.
static void counts(sim_stream_view s, sim_range r, at where = at::current()) {
    sim_launch(s, {.name = "counter", .atomics = {r}}, where);
}

PAIR(atomic_and_plain_write, race, "Atomic accesses need no order among themselves, others do") {
    block const      p;
    sim_stream const s, t;
    counts(s, p);
    MISTAKE(right ? counts(t, p) : writes(t, p));
}

PAIR(sum_of_atomics_read_too_early, race, "A read must wait for every earlier atomic access") {
    block const      p;
    sim_stream const s, t;
    counts(s, p);
    counts(t, p);
    if (right) { follows(t, s); }
    MISTAKE(reads(t, p));
}

PAIR(counter_reset_beside_atomics, race, "A write must wait for every earlier atomic access") {
    block const      p;
    sim_stream const s, t;
    counts(s, p);
    if (right) { follows(t, s); }
    MISTAKE(fills(t, p));
}

PAIR(kernel_over_more_than_the_last_write, race, "Every byte has its own history") {
    block const      p;
    sim_stream const s, t, u;
    writes(s, p);
    follows(t, s);
    writes(t, p.first_half());
    follows(u, t);
    if (!right) { writes(s, p.second_half()); }
    MISTAKE(reads(u, p));
}

PAIR(fan_out_and_the_next_write, race, "A write must wait for the readers on all streams") {
    block const      p;
    sim_stream const s, t[4];
    writes(s, p);
    for (sim_stream const& each : t) {
        follows(each, s);
        reads(each, p);
    }
    for (int i = 0; i < (right ? 4 : 3); ++i) { follows(s, t[i]); }
    MISTAKE(writes(s, p));
}

PAIR(ping_pong_without_the_way_back, race, "Each direction needs its own wait") {
    block const      p;
    sim_stream const s, t;
    writes(s, p);
    follows(t, s);
    writes(t, p);
    if (right) { follows(s, t); }
    MISTAKE(writes(s, p));
}

PAIR(many_streams_in_a_chain_with_one_gap, race, "Order is transitive only along waits") {
    block const p;
    sim_stream  chain[12];
    writes(chain[0], p);
    for (int i = 1; i < 12; ++i) {
        if (right || i != 7) { follows(chain[i], chain[i - 1]); }
    }
    MISTAKE(reads(chain[11], p));
}

PAIR(stream_assigned_over, race,
     "A stream that is assigned over is destroyed, and waits for nothing") {
    block const p;
    sim_stream  s;
    writes(s, p);
    sim_stream t;
    if (right) { follows(t, s); }
    s = sim_stream{};
    MISTAKE(reads(t, p));
}

} // namespace catalogue::streams

namespace catalogue::events {

GROUP("events")

PAIR(wait_before_the_record, race,
     "cudaStreamWaitEvent: a wait for an event that was never recorded has no effect") {
    block const      p;
    sim_stream const s, t;
    sim_event        e;
    writes(s, p);
    if (right) { e.record(s); }
    e.wait(t);
    e.record(s);
    MISTAKE(reads(t, p));
}

PAIR(record_before_the_work, race,
     "cudaEventRecord: an event contains the work that the stream has at the call") {
    block const      p;
    sim_stream const s, t;
    sim_event        e;
    if (!right) { e.record(s); }
    writes(s, p);
    if (right) { e.record(s); }
    e.wait(t);
    MISTAKE(reads(t, p));
}

PAIR(record_on_another_stream, race, "cudaEventRecord: an event contains the work of one stream") {
    block const      p;
    sim_stream const s, t, u;
    sim_event        e;
    writes(s, p);
    e.record(right ? s : u);
    e.wait(t);
    MISTAKE(reads(t, p));
}

PAIR(second_record_after_the_wait, race,
     "cudaStreamWaitEvent: later records of the event do not change a wait") {
    block const      p;
    sim_stream const s, t;
    sim_event        e;
    e.record(s);
    if (!right) { e.wait(t); }
    writes(s, p);
    e.record(s);
    if (right) { e.wait(t); }
    MISTAKE(reads(t, p));
}

PAIR(second_record_before_the_wait, race,
     "cudaEventRecord: a record replaces what the event contained") {
    block const      p;
    sim_stream const s, t, u;
    sim_event        e, f;
    writes(s, p);
    e.record(s);
    (right ? f : e).record(u);
    e.wait(t);
    MISTAKE(reads(t, p));
}

PAIR(one_event_for_two_streams, race,
     "cudaEventRecord: a record replaces what the event contained") {
    block const      p, q;
    sim_stream const s, t, u;
    sim_event        e, f;
    writes(s, p);
    e.record(s);
    writes(t, q);
    (right ? f : e).record(t);
    e.wait(u);
    if (right) { f.wait(u); }
    MISTAKE(reads(u, p));
}

PAIR(wait_after_the_use, race, "cudaStreamWaitEvent orders only work that the stream gets later") {
    block const      p;
    sim_stream const s, t;
    sim_event        e;
    writes(s, p);
    e.record(s);
    if (right) { e.wait(t); }
    MISTAKE(reads(t, p));
    e.wait(t);
}

PAIR(event_destroyed_without_a_wait, race,
     "cudaEventDestroy: waits that were queued before remain, and the call itself orders nothing") {
    block const      p;
    sim_stream const s, t;
    {
        sim_event e;
        writes(s, p);
        e.record(s);
        if (right) { e.wait(t); }
    }
    MISTAKE(reads(t, p));
}

PAIR(host_wait_for_another_event, race, "cudaEventSynchronize waits for this event only") {
    block const      p{kind::pinned};
    sim_stream const s, t;
    sim_event        e, f;
    writes(s, p);
    e.record(s);
    f.record(t);
    (right ? e : f).synchronize();
    MISTAKE(host_reads(p));
}

PAIR(host_wait_for_an_event_before_the_work, race,
     "cudaEventSynchronize waits for the work before the record, not for the stream") {
    block const      p{kind::pinned};
    sim_stream const s;
    sim_event        e;
    writes(s, p.first_half());
    e.record(s);
    writes(s, p.second_half());
    e.synchronize();
    MISTAKE(host_reads(right ? p.first_half() : p.second_half()));
}

PAIR(stream_wait_instead_of_a_host_wait, race, "cudaStreamWaitEvent: the host does not wait") {
    block const      p{kind::pinned};
    sim_stream const s, t;
    sim_event        e;
    writes(s, p);
    e.record(s);
    e.wait(t);
    if (right) { e.synchronize(); }
    MISTAKE(host_reads(p));
}

PAIR(query_with_an_ignored_answer, race, "cudaEventQuery orders only if it returns cudaSuccess") {
    block const      p{kind::pinned};
    sim_stream const s;
    sim_event        e;
    writes(s, p);
    e.record(s);
    while (!e.done() && right) {}
    MISTAKE(host_reads(p));
}

PAIR(host_wait_orders_later_work, race,
     "Work queued after a host wait is ordered after what the host waited for") {
    block const      p;
    sim_stream const s, t;
    sim_event        e;
    writes(s, p);
    e.record(s);
    if (right) { e.synchronize(); }
    MISTAKE(writes(t, p));
}

PAIR(event_of_the_middle_stream_too_early, race, "An event contains only waits queued before it") {
    block const      p;
    sim_stream const s, t, u;
    sim_event        e, f;
    writes(s, p);
    e.record(s);
    if (!right) { f.record(t); }
    e.wait(t);
    if (right) { f.record(t); }
    f.wait(u);
    MISTAKE(reads(u, p));
}

PAIR(record_on_a_stream_of_another_device, refused(sim_status::invalid_handle),
     "cudaEventRecord: the event and the stream must have the same device", .devices = 2) {
    sim_stream const s = stream_of(right ? 0 : 1);
    sim_event        e;
    MISTAKE(e.record(s));
}

PAIR(event_moved_away, race, "A moved event keeps its record") {
    block const      p;
    sim_stream const s, t;
    sim_event        e, other;
    writes(s, p);
    e.record(s);
    other = std::move(e);
    if (right) { other.wait(t); }
    MISTAKE(writes(t, p));
}

PAIR(timed_event_recorded_too_early, race,
     "cudaEventRecord: an event contains the work that the stream has at the call") {
    block const      p{kind::pinned};
    sim_stream const s;
    sim_event        e{sim_device{}, true};
    if (!right) { e.record(s); }
    writes(s, p);
    if (right) { e.record(s); }
    static_cast<void>(e.time());
    MISTAKE(host_writes(p));
}

PAIR(ring_of_events_with_one_reused, race,
     "cudaEventRecord: a record replaces what the event contained") {
    block const      p, q;
    sim_stream const s, t;
    sim_event        e[2];
    writes(s, p);
    e[0].record(s);
    writes(t, q);
    e[right ? 1 : 0].record(t);
    e[0].wait(t);
    MISTAKE(writes(t, p));
}

PAIR(wait_of_a_stream_for_itself, race,
     "A stream's wait for its own event orders no other stream") {
    block const      p;
    sim_stream const s, t;
    sim_event        e;
    writes(s, p);
    e.record(s);
    e.wait(right ? t : s);
    MISTAKE(reads(t, p));
}

PAIR(query_before_the_second_record, race, "cudaEventQuery is about the last record") {
    block const      p{kind::pinned};
    sim_stream const s;
    sim_event        e;
    e.record(s);
    if (!right) {
        while (!e.done()) {}
    }
    writes(s, p);
    e.record(s);
    if (right) {
        while (!e.done()) {}
    }
    MISTAKE(host_writes(p));
}

PAIR(host_wait_passed_on_by_an_event, race,
     "An event contains what its stream is ordered after, and not what the host waits for later") {
    block const      p;
    sim_stream const s, t, u;
    sim_event        e;
    writes(s, p);
    if (right) { s.synchronize(); }
    writes(t, p.part(0, 0));
    e.record(t);
    if (!right) { static_cast<void>(s.done()); }
    e.wait(u);
    MISTAKE(reads(u, p));
}

} // namespace catalogue::events
