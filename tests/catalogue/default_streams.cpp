// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include <vram/sim/sim.hpp>

namespace catalogue::default_streams {

GROUP("default streams")

PAIR(legacy_after_non_blocking, race,
     "CUDA: the legacy default stream does not wait for non-blocking streams") {
    block const      p;
    sim_stream const s{sim_device{}, {.blocking = right}};
    writes(s, p);
    MISTAKE(writes(legacy(), p));
}

PAIR(non_blocking_after_legacy, race,
     "CUDA: non-blocking streams do not wait for the legacy default stream") {
    block const      p;
    sim_stream const s{sim_device{}, {.blocking = right}};
    writes(legacy(), p);
    MISTAKE(reads(s, p));
}

PAIR(legacy_kernel_between_two_streams, race,
     "CUDA: work of the legacy default stream waits for blocking streams, and they wait for it") {
    block const      p, q;
    sim_stream const s = blocking_stream(), t = blocking_stream();
    writes(s, p);
    if (right) { writes(legacy(), q); }
    MISTAKE(reads(t, p));
}

PAIR(legacy_kernel_too_early, race,
     "Work of the legacy default stream waits only for work that was queued before it") {
    block const      p, q;
    sim_stream const s = blocking_stream(), t = blocking_stream();
    if (!right) { writes(legacy(), q); }
    writes(s, p);
    if (right) { writes(legacy(), q); }
    MISTAKE(reads(t, p));
}

PAIR(legacy_stream_of_another_device, race, "Each device has its own legacy default stream",
     .devices = 2) {
    block const      p, q{kind::device, 1};
    sim_stream const s = blocking_stream(), t = blocking_stream();
    writes(s, p);
    right ? writes(legacy(0), p) : writes(legacy(1), q);
    MISTAKE(reads(t, p));
}

PAIR(default_stream_of_the_current_device, race, "The default stream is that of the current device",
     .devices = 2, .peer_access = true) {
    block const            p;
    sim_stream const       s = blocking_stream();
    sim_device_guard const current{sim_device{right ? 0 : 1}};
    writes(s, p);
    MISTAKE(reads({}, p));
}

PAIR(event_recorded_on_legacy, race,
     "An event record on the legacy default stream is an action: it waits for blocking streams") {
    block const      p;
    sim_stream const s = blocking_stream(), t, u = blocking_stream();
    sim_event        e;
    writes(s, p);
    e.record(right ? legacy() : u);
    e.wait(t);
    MISTAKE(reads(t, p));
}

PAIR(legacy_waits_for_an_event, race,
     "cudaStreamWaitEvent on the legacy default stream is an action that blocking streams wait "
     "for") {
    block const      p;
    sim_stream const s, t = blocking_stream();
    sim_event        e;
    writes(s, p);
    e.record(s);
    if (right) { e.wait(legacy()); }
    MISTAKE(reads(t, p));
}

PAIR(wait_on_legacy_between_two_streams, race,
     "cudaStreamWaitEvent on the legacy default stream first waits for all blocking streams") {
    block const      p;
    sim_stream const s = blocking_stream(), t = blocking_stream(), u;
    sim_event        e;
    e.record(u);
    writes(s, p);
    if (right) { e.wait(legacy()); }
    MISTAKE(writes(t, p));
}

PAIR(host_waits_for_legacy, race,
     "cudaStreamSynchronize of the legacy default stream waits for blocking streams only "
     "(measured)") {
    block const      p{kind::pinned};
    sim_stream const s{sim_device{}, {.blocking = right}};
    writes(s, p);
    legacy().synchronize();
    MISTAKE(host_reads(p));
}

PAIR(host_queries_legacy, race,
     "cudaStreamQuery of the legacy default stream includes blocking streams only (measured)") {
    block const      p{kind::pinned};
    sim_stream const s{sim_device{}, {.blocking = right}};
    writes(s, p);
    while (!legacy().done()) {}
    MISTAKE(host_reads(p));
}

PAIR(host_waits_for_a_blocking_stream, race,
     "cudaStreamSynchronize of a blocking stream does not wait for later work of the legacy "
     "stream") {
    block const      p{kind::pinned};
    sim_stream const s = blocking_stream();
    writes(s, p.first_half());
    writes(legacy(), p.second_half());
    s.synchronize();
    MISTAKE(host_reads(right ? p.first_half() : p.second_half()));
}

PAIR(synchronous_copy_after_non_blocking, race,
     "cudaMemcpy is ordered with the legacy default stream") {
    block const      p, q{kind::pinned};
    sim_stream const s{sim_device{}, {.blocking = right}};
    writes(s, p);
    MISTAKE(sim_copy_sync(q.data(), p.data(), 4096));
}

PAIR(allocation_in_the_legacy_stream, use_before_ready,
     "cudaMallocAsync on the legacy default stream is an action that blocking streams wait for") {
    sim_async_resource memory;
    sim_stream const   s{sim_device{}, {.blocking = right}};
    void* const        p = memory.allocate(legacy(), 4096);
    MISTAKE(writes(s, {p, 4096}));
    s.synchronize();
    memory.deallocate(s, p, 4096);
}

PAIR(free_in_the_legacy_stream, free_before_last_use,
     "cudaFreeAsync on the legacy default stream is an action that waits for blocking streams") {
    sim_async_resource memory;
    sim_stream const   s{sim_device{}, {.blocking = right}};
    void* const        p = memory.allocate(s, 4096);
    writes(s, {p, 4096});
    MISTAKE(memory.deallocate(legacy(), p, 4096));
}

PAIR(
    host_function_between_two_streams, race,
    "cudaLaunchHostFunc on the legacy default stream is an action that blocking streams wait for") {
    block const      p;
    sim_stream const s = blocking_stream(), t = blocking_stream();
    writes(s, p);
    if (right) {
        sim_call_host(legacy(), [](void*) {}, nullptr);
    }
    MISTAKE(writes(t, p));
}

PAIR(graph_in_the_legacy_stream, race,
     "cudaGraphLaunch on the legacy default stream is an action that waits for blocking streams") {
    block const      p;
    sim_stream const s{sim_device{}, {.blocking = right}}, t;
    sim_graph::begin(t);
    MISTAKE(reads(t, p));
    sim_graph const graph = sim_graph::end(t);
    writes(s, p);
    graph.launch(legacy());
}

PAIR(legacy_during_a_capture, refused(sim_status::capture_implicit),
     "cudaErrorStreamCaptureImplicit: the legacy default stream would wait for a captured stream") {
    block const      p;
    sim_stream const s{sim_device{}, {.blocking = !right}};
    sim_graph::begin(s);
    MISTAKE(writes(legacy(), p));
    static_cast<void>(sim_graph::end(s));
}

PAIR(wait_for_legacy_during_a_capture, refused(sim_status::capture_implicit),
     "cudaErrorStreamCaptureImplicit: the legacy default stream would wait for a captured stream") {
    sim_stream const s{sim_device{}, {.blocking = !right}};
    sim_graph::begin(s, sim_capture_mode::relaxed);
    MISTAKE(legacy().synchronize());
    static_cast<void>(sim_graph::end(s));
}

PAIR(per_thread_stream_and_a_non_blocking_one, race,
     "The per-thread default stream is an ordinary blocking stream",
     .default_stream = sim_default_stream::per_thread) {
    block const      p;
    sim_stream const s = blocking_stream();
    writes(s, p);
    if (right) { follows({}, s); }
    MISTAKE(reads({}, p));
}

PAIR(per_thread_stream_and_legacy, race,
     "The per-thread default stream is ordered with the legacy default stream",
     .default_stream = sim_default_stream::per_thread) {
    block const           p;
    sim_stream const      s;
    sim_stream_view const mine = right ? sim_stream_view{} : s;
    writes(legacy(), p);
    MISTAKE(reads(mine, p));
}

PAIR(per_thread_copy_and_another_stream, race,
     "cudaMemcpy uses the per-thread default stream if that is the default stream",
     .default_stream = sim_default_stream::per_thread) {
    block const      p, q{kind::pinned};
    sim_stream const s = blocking_stream();
    writes(s, p);
    if (right) { s.synchronize(); }
    MISTAKE(sim_copy_sync(q.data(), p.data(), 4096));
}

PAIR(free_of_the_legacy_rule_by_a_flag, race,
     "cudaStreamNonBlocking: only the flag at the creation counts") {
    block const      p;
    sim_stream const s{sim_device{}, {.blocking = right}}, t{sim_device{}, {.blocking = true}};
    writes(t, p);
    writes(legacy(), p.part(0, 0));
    MISTAKE(reads(s, p));
}

PAIR(legacy_work_between_on_one_side, race,
     "The legacy default stream orders two streams only if both are blocking") {
    block const      p, q;
    sim_stream const s, t = blocking_stream();
    writes(s, p);
    if (right) { follows(legacy(), s); }
    writes(legacy(), q);
    MISTAKE(reads(t, p));
}

} // namespace catalogue::default_streams
