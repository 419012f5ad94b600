// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include <vram/sim/sim.hpp>

#include <thread>
#include <utility>

namespace catalogue::graphs {

GROUP("graphs")

/// Captures a kernel that writes `r`.
static sim_graph graph_that_writes(sim_range r, at where = at::current()) {
    sim_stream const s;
    sim_graph::begin(s);
    writes(s, r, where);
    return sim_graph::end(s);
}

PAIR(two_branches_write, race, "CUDA Graphs: nodes without a path between them have no order") {
    block const      p;
    sim_stream const s, t;
    sim_graph::begin(s);
    follows(t, s);
    writes(s, p);
    if (right) { follows(t, s); }
    MISTAKE(writes(t, p));
    follows(s, t);
    sim_graph::end(s).launch(s);
}

PAIR(branch_reads_what_the_other_writes, race,
     "CUDA Graphs: nodes without a path between them have no order") {
    block const      p, q;
    sim_stream const s, t;
    sim_graph::begin(s);
    follows(t, s);
    writes(s, p);
    MISTAKE(copies(t, q, right ? p.part(0, 0) : sim_range{p}));
    follows(s, t);
    sim_graph::end(s).launch(s);
}

PAIR(node_after_the_join_of_one_of_two_branches, race,
     "A node runs after the nodes that it depends on, and no others") {
    block const      p, q, r;
    sim_stream const s, t, u;
    sim_graph::begin(s);
    follows(t, s);
    follows(u, s);
    writes(t, p);
    writes(u, q);
    follows(s, t);
    if (right) { follows(s, u); }
    MISTAKE(copies(s, r, q));
    follows(s, u);
    sim_graph::end(s).launch(s);
}

PAIR(two_graphs_on_two_streams, race,
     "cudaGraphLaunch: a launch is ordered after earlier launches of the same graph only") {
    block const      p;
    sim_stream const s, t;
    sim_graph const  a = graph_that_writes(p);
    sim_graph        b = graph_that_writes(p);
    if (!right) { static_cast<void>(b = graph_that_writes(p)); }
    a.launch(s);
    mark_any_line();
    (right ? a : b).launch(t);
}

PAIR(graph_and_another_stream, race, "A graph is ordered with the stream of its launch") {
    block const      p;
    sim_stream const s, t;
    graph_that_writes(p).launch(s);
    if (right) { follows(t, s); }
    MISTAKE(reads(t, p));
}

PAIR(graph_launched_before_its_input_is_ready, race,
     "A graph is ordered with the stream of its launch") {
    block const      p;
    sim_stream const s, t;
    writes(t, p);
    sim_graph graph = [&] {
        sim_stream const c;
        sim_graph::begin(c);
        MISTAKE(reads(c, p));
        return sim_graph::end(c);
    }();
    if (right) { follows(s, t); }
    graph.launch(s);
}

PAIR(host_reads_the_result_of_a_graph, race, "cudaGraphLaunch is asynchronous") {
    block const      p{kind::pinned};
    sim_stream const s;
    graph_that_writes(p).launch(s);
    if (right) { s.synchronize(); }
    MISTAKE(host_reads(p));
}

PAIR(argument_changed_between_two_launches, race,
     "A node reads pinned memory when it runs, not when it is captured or launched") {
    block const      p, argument{kind::pinned};
    sim_stream const s;
    sim_graph::begin(s);
    copies(s, p, argument);
    sim_graph const graph = sim_graph::end(s);
    host_writes(argument);
    graph.launch(s);
    if (right) { s.synchronize(); }
    MISTAKE(host_writes(argument));
    graph.launch(s);
}

PAIR(argument_written_before_the_launch, race,
     "A node reads pinned memory when it runs, not when it is captured or launched") {
    block const      p, argument{kind::pinned};
    sim_stream const s;
    sim_graph::begin(s);
    copies(s, p, argument);
    sim_graph const graph = sim_graph::end(s);
    if (!right) { graph.launch(s); }
    MISTAKE(host_writes(argument));
    graph.launch(s);
}

PAIR(work_before_the_capture_is_not_in_the_graph, race,
     "A graph contains only what was captured, not the earlier work of the stream") {
    block const      p, q;
    sim_stream const s, t;
    writes(s, p);
    sim_graph::begin(s);
    MISTAKE(copies(s, q, p));
    sim_graph const graph = sim_graph::end(s);
    graph.launch(right ? s : t);
}

PAIR(use_after_the_free_node, use_after_free,
     "Memory of a graph is live from its allocation node to its free node") {
    sim_async_resource memory;
    sim_stream const   s;
    sim_graph::begin(s);
    void* const p = memory.allocate(s, 4096);
    if (!right) { memory.deallocate(s, p, 4096); }
    MISTAKE(writes(s, {p, 4096}));
    if (right) { memory.deallocate(s, p, 4096); }
    sim_graph::end(s).launch(s);
}

PAIR(memory_of_a_graph_used_outside, use_after_free,
     "Memory of a graph is live from its allocation node to its free node") {
    sim_async_resource memory;
    sim_stream const   s;
    block const        q;
    sim_graph::begin(s);
    void* const p = memory.allocate(s, 4096);
    writes(s, {p, 4096});
    memory.deallocate(s, p, 4096);
    sim_graph const graph = sim_graph::end(s);
    graph.launch(s);
    MISTAKE(reads(s, right ? sim_range{q} : sim_range{p, 4096}));
}

PAIR(free_node_in_another_branch, free_before_last_use,
     "A free node must depend on every node that uses the memory") {
    sim_async_resource memory;
    sim_stream const   s, t;
    sim_graph::begin(s);
    void* const p = memory.allocate(s, 4096);
    follows(t, s);
    reads(t, {p, 4096});
    if (right) { follows(s, t); }
    MISTAKE(memory.deallocate(s, p, 4096));
    follows(s, t);
    sim_graph::end(s).launch(s);
}

PAIR(memory_freed_before_the_launch, use_after_free,
     "Memory that a node uses must be live at each launch") {
    block            p;
    sim_stream const s;
    sim_graph::begin(s);
    MISTAKE(writes(s, p));
    sim_graph const graph = sim_graph::end(s);
    if (!right) { p.free(); }
    graph.launch(s);
    s.synchronize();
}

PAIR(memory_freed_during_the_launch, free_before_last_use,
     "Memory that a node uses must be live until the graph is complete") {
    block            p;
    sim_stream const s;
    graph_that_writes(p).launch(s);
    if (right) { s.synchronize(); }
    MISTAKE(p.free());
}

PAIR(branch_that_does_not_join, refused(sim_status::capture_invalid),
     "cudaErrorStreamCaptureUnjoined: the first stream must wait for all others") {
    block const      p;
    sim_stream const s, t;
    sim_graph::begin(s);
    follows(t, s);
    writes(t, p);
    if (right) { follows(s, t); }
    MISTAKE(sim_graph::end(s)).launch(s);
}

PAIR(wait_for_a_captured_stream, refused(sim_status::stream_capturing),
     "cudaErrorStreamCaptureUnsupported: a captured stream cannot be waited for") {
    sim_stream const s, t;
    sim_graph::begin(s);
    MISTAKE((right ? t : s).synchronize());
    static_cast<void>(sim_graph::end(s));
}

PAIR(query_of_a_captured_stream, refused(sim_status::stream_capturing),
     "cudaErrorStreamCaptureUnsupported: a captured stream cannot be queried") {
    sim_stream const s, t;
    sim_graph::begin(s);
    MISTAKE(static_cast<void>((right ? t : s).done()));
    static_cast<void>(sim_graph::end(s));
}

PAIR(wait_for_a_captured_event, refused(sim_status::captured_event),
     "cudaErrorCapturedEvent: an event of a capture cannot be waited for by the host") {
    sim_stream const s, t;
    sim_event        e;
    sim_graph::begin(s);
    e.record(right ? t : s);
    MISTAKE(e.synchronize());
    static_cast<void>(sim_graph::end(s));
}

PAIR(wait_for_an_event_of_an_ended_capture, refused(sim_status::captured_event),
     "cudaErrorCapturedEvent: an event of a capture orders nothing outside of the graph") {
    sim_stream const s, t;
    sim_event        e;
    sim_graph::begin(s);
    e.record(s);
    static_cast<void>(sim_graph::end(s));
    if (right) { e.record(s); }
    MISTAKE(e.wait(t));
}

PAIR(captured_stream_waits_for_outside_work, refused(sim_status::capture_isolation),
     "cudaErrorStreamCaptureIsolation: a capture cannot depend on work outside of it") {
    sim_stream const s, t;
    sim_event        e;
    e.record(t);
    if (right) { e.wait(s); }
    sim_graph::begin(s);
    if (!right) { MISTAKE(e.wait(s)); }
    static_cast<void>(sim_graph::end(s));
}

PAIR(two_captures_meet, refused(sim_status::capture_isolation),
     "cudaErrorStreamCaptureMerge: two captures cannot be joined") {
    sim_stream const s, t;
    sim_event        e;
    sim_graph::begin(s);
    e.record(s);
    if (!right) { sim_graph::begin(t); }
    MISTAKE(e.wait(t));
    follows(s, t);
    static_cast<void>(sim_graph::end(s));
}

PAIR(synchronous_copy_during_a_capture, refused(sim_status::stream_capturing),
     "cudaMemcpy is not permitted during a capture in global mode") {
    block const      p, q{kind::pinned};
    sim_stream const s;
    sim_graph::begin(s, right ? sim_capture_mode::relaxed : sim_capture_mode::global);
    MISTAKE(sim_copy_sync(q.data(), p.data(), 4096));
    static_cast<void>(sim_graph::end(s));
}

PAIR(device_wait_during_a_capture, refused(sim_status::stream_capturing),
     "cudaDeviceSynchronize is not permitted while a stream of the device is captured") {
    sim_stream const s;
    sim_graph::begin(s, sim_capture_mode::relaxed);
    sim_graph graph = [&] {
        if (!right) { MISTAKE(sim_device{}.synchronize()); }
        return sim_graph::end(s);
    }();
    sim_device{}.synchronize();
    graph.launch(s);
}

PAIR(capture_ended_on_another_stream, refused(sim_status::capture_invalid),
     "cudaErrorStreamCaptureUnmatched: a capture ends on the stream on which it began") {
    sim_stream const s, t;
    sim_graph::begin(s);
    follows(t, s);
    follows(s, t);
    MISTAKE(static_cast<void>(sim_graph::end(right ? s : t)));
}

PAIR(capture_ended_by_another_thread, refused(sim_status::capture_wrong_thread),
     "cudaErrorStreamCaptureWrongThread: the thread that began a capture ends it, unless its mode "
     "is relaxed") {
    sim_stream const s;
    sim_graph::begin(s, right ? sim_capture_mode::relaxed : sim_capture_mode::global);
    sim_status  seen = sim_status::ok;
    std::thread other{[&] {
        try {
            static_cast<void>(sim_graph::end(s));
        } catch (sim_error const& e) { seen = e.status(); }
    }};
    other.join();
    MISTAKE(static_cast<void>(seen == sim_status::ok ? 0 : throw sim_error{seen}));
}

PAIR(capture_after_its_end_on_another_thread, refused(sim_status::capture_invalid),
     "cudaErrorStreamCaptureWrongThread: the refused call has ended the capture") {
    sim_stream const s;
    sim_graph::begin(s);
    std::thread other{[&] {
        if (right) { return; }
        try {
            static_cast<void>(sim_graph::end(s));
        } catch (sim_error const&) {}
    }};
    other.join();
    MISTAKE(static_cast<void>(sim_graph::end(s)));
}

PAIR(captured_stream_destroyed_before_it_is_joined, refused(sim_status::capture_invalid),
     "cudaErrorStreamCaptureUnjoined: a stream may be destroyed, but its work must be joined") {
    block const      p;
    sim_stream const s;
    sim_graph::begin(s);
    {
        sim_stream const t;
        follows(t, s);
        writes(t, p);
        if (right) { follows(s, t); }
    }
    MISTAKE(static_cast<void>(sim_graph::end(s)));
}

PAIR(memory_of_a_graph_freed_again, double_free,
     "cudaFreeAsync: the next launch allocates the memory again, after the queued free") {
    sim_async_resource memory;
    sim_stream const   s, t;
    sim_graph::begin(s);
    void* const p = memory.allocate(s, 4096);
    writes(s, {p, 4096});
    sim_graph const graph = sim_graph::end(s);
    graph.launch(s);
    s.synchronize();
    reads(t, {p, 4096});
    memory.deallocate(t, p, 4096);
    if (right) { graph.launch(s); }
    s.synchronize();
    t.synchronize();
    MISTAKE(memory.deallocate(s, p, 4096));
}

PAIR(legacy_waits_for_a_captured_event, refused(sim_status::stream_capturing),
     "cudaStreamLegacy: the legacy default stream cannot be captured") {
    block const      p;
    sim_stream const s;
    sim_event        e;
    if (right) {
        e.record(s);
        e.wait(legacy());
    }
    sim_graph::begin(s);
    e.record(s);
    if (!right) { MISTAKE(e.wait(legacy())); }
    writes(s, p);
    static_cast<void>(sim_graph::end(s));
}

PAIR(synchronous_copy_in_a_captured_stream, refused(sim_status::stream_capturing),
     "cudaMemcpy is not permitted while the per-thread default stream is captured",
     .default_stream = sim_default_stream::per_thread) {
    block const           p, q;
    sim_stream const      s;
    sim_stream_view const captured = right ? s.view() : sim_stream_view{};
    sim_graph::begin(captured, sim_capture_mode::relaxed);
    MISTAKE(sim_copy_sync(q.data(), p.data(), 4096));
    static_cast<void>(sim_graph::end(captured));
}

PAIR(capture_of_the_legacy_stream, refused(sim_status::stream_capturing),
     "The legacy default stream cannot be captured") {
    sim_stream const s;
    MISTAKE(sim_graph::begin(right ? sim_stream_view{s} : legacy()));
    static_cast<void>(sim_graph::end(s));
}

PAIR(captured_kernel_without_peer_access, peer_access,
     "A captured kernel runs on the device of the stream that it was captured on", .devices = 2,
     .peer_access = false) {
    block const      p{kind::device, 1};
    sim_stream const s = stream_of(0), t = stream_of(1);
    sim_graph::begin(t);
    follows(s, t);
    MISTAKE(writes(right ? t : s, p));
    follows(t, s);
    sim_graph::end(t).launch(t);
}

PAIR(event_between_two_launches, race,
     "An event that is recorded behind a launch contains the whole graph") {
    block const      p;
    sim_stream const s, t;
    sim_event        e;
    if (!right) { e.record(s); }
    graph_that_writes(p).launch(s);
    if (right) { e.record(s); }
    e.wait(t);
    MISTAKE(reads(t, p));
}

PAIR(allocation_of_a_graph_used_on_another_stream, use_before_ready,
     "Memory that a graph allocates and does not free is live after the launch, in its order") {
    sim_async_resource memory;
    sim_stream const   s, t;
    sim_graph::begin(s);
    void* const     p     = memory.allocate(s, 4096);
    sim_graph const graph = sim_graph::end(s);
    graph.launch(s);
    if (right) { follows(t, s); }
    MISTAKE(writes(t, {p, 4096}));
    follows(s, t);
    memory.deallocate(s, p, 4096);
}

PAIR(allocation_of_a_graph_freed_during_its_use, free_before_last_use,
     "Memory of a graph that is freed outside of it follows the rules of cudaFreeAsync") {
    sim_async_resource memory;
    sim_stream const   s, t;
    sim_graph::begin(s);
    void* const     p     = memory.allocate(s, 4096);
    sim_graph const graph = sim_graph::end(s);
    graph.launch(s);
    follows(t, s);
    reads(t, {p, 4096});
    if (right) { follows(s, t); }
    MISTAKE(memory.deallocate(s, p, 4096));
}

PAIR(second_launch_while_an_allocation_is_live, refused(sim_status::invalid_value),
     "cudaGraphLaunch fails if allocations of an earlier launch are not freed") {
    sim_async_resource memory;
    sim_stream const   s;
    sim_graph::begin(s);
    void* const     p     = memory.allocate(s, 4096);
    sim_graph const graph = sim_graph::end(s);
    graph.launch(s);
    if (right) { memory.deallocate(s, p, 4096); }
    try {
        MISTAKE(graph.launch(s));
    } catch (...) {
        memory.deallocate(s, p, 4096);
        throw;
    }
    memory.deallocate(s, p, 4096);
}

PAIR(free_in_a_capture_of_other_memory, foreign_free,
     "cudaFreeAsync: during a capture, it must be passed the address of a graph allocation") {
    sim_async_resource memory;
    sim_stream const   s;
    void* const        outside = right ? nullptr : memory.allocate(s, 4096);
    sim_graph::begin(s);
    void* const p = memory.allocate(s, 4096);
    MISTAKE(memory.deallocate(s, right ? p : outside, 4096));
    sim_graph const graph = sim_graph::end(s);
    graph.launch(s);
    memory.deallocate(s, outside, 4096);
    if (!right) { memory.deallocate(s, p, 4096); }
}

PAIR(graph_frees_what_another_graph_allocates, double_free,
     "Memory of a graph may be freed by a launch of another graph, once for each launch") {
    sim_async_resource memory;
    sim_stream const   s;
    sim_graph::begin(s);
    void* const     p     = memory.allocate(s, 4096);
    sim_graph const first = sim_graph::end(s);
    sim_graph::begin(s);
    MISTAKE(memory.deallocate(s, p, 4096));
    sim_graph const second = sim_graph::end(s);
    first.launch(s);
    second.launch(s);
    first.launch(s);
    if (!right) { memory.deallocate(s, p, 4096); }
    second.launch(s);
}

PAIR(graph_uses_what_another_graph_frees, use_after_free,
     "Memory of a graph may be freed by a launch of another graph") {
    sim_async_resource memory;
    sim_stream const   s;
    sim_graph::begin(s);
    void* const     p     = memory.allocate(s, 4096);
    sim_graph const first = sim_graph::end(s);
    sim_graph::begin(s);
    memory.deallocate(s, p, 4096);
    sim_graph const second = sim_graph::end(s);
    first.launch(s);
    if (!right) { second.launch(s); }
    MISTAKE(writes(s, {p, 4096}));
    if (right) { second.launch(s); }
}

PAIR(graph_in_a_graph, race,
     "A graph that is launched during a capture becomes part of the graph") {
    block const      p;
    sim_stream const s, t;
    sim_graph const  inner = graph_that_writes(p);
    sim_graph::begin(s);
    if (!right) { follows(t, s); }
    inner.launch(s);
    if (right) { follows(t, s); }
    MISTAKE(reads(t, p));
    follows(s, t);
    sim_graph::end(s).launch(s);
}

PAIR(fork_of_a_fork, race, "Branches of a capture are ordered by events only") {
    block const      p;
    sim_stream const s, t, u;
    sim_graph::begin(s);
    follows(t, s);
    if (!right) { follows(u, t); }
    writes(t, p);
    if (right) { follows(u, t); }
    MISTAKE(reads(u, p));
    follows(t, u);
    follows(s, t);
    sim_graph::end(s).launch(s);
}

PAIR(parallel_branches_of_two_launches, race,
     "A launch is ordered after the whole previous launch, and so is what waits for it only") {
    block const      p, q;
    sim_stream const s, t, u;
    sim_graph::begin(s);
    follows(t, s);
    writes(s, p);
    writes(t, q);
    follows(s, t);
    sim_graph const graph = sim_graph::end(s);
    graph.launch(s);
    follows(u, s);
    graph.launch(s);
    if (right) { follows(u, s); }
    MISTAKE(reads(u, q));
}

PAIR(host_function_node_and_the_host, race,
     "A host function in a graph runs beside the host thread until the host waits") {
    block const      p{kind::pinned};
    sim_stream const s;
    sim_graph::begin(s);
    sim_call_host(s, sim_host_work{.writes = {p}}, [] {});
    sim_graph const graph = sim_graph::end(s);
    graph.launch(s);
    if (right) { s.synchronize(); }
    MISTAKE(host_reads(p));
}

PAIR(fill_node_and_a_kernel_of_another_branch, race,
     "CUDA Graphs: nodes without a path between them have no order") {
    block const      p;
    sim_stream const s, t;
    sim_graph::begin(s);
    follows(t, s);
    fills(s, p);
    if (right) { follows(t, s); }
    MISTAKE(reads(t, p));
    follows(s, t);
    sim_graph::end(s).launch(s);
}

PAIR(reset_event_of_a_capture, refused(sim_status::captured_event),
     "cudaErrorCapturedEvent: an event of a capture is usable after a record outside of it") {
    sim_stream const s, t;
    sim_event        e;
    sim_graph::begin(s);
    e.record(s);
    if (right) { e.record(t); }
    MISTAKE(static_cast<void>(e.done()));
    static_cast<void>(sim_graph::end(s));
}

PAIR(pageable_source_of_a_copy_node, race,
     "A copy in a graph reads its pageable source when it runs; cudaGraphLaunch does not wait") {
    block const      p, q{kind::pageable};
    sim_stream const s;
    sim_graph::begin(s);
    copies(s, p, q);
    sim_graph const graph = sim_graph::end(s);
    graph.launch(s);
    if (right) { s.synchronize(); }
    MISTAKE(host_writes(q));
}

PAIR(pageable_destination_of_a_copy_node, race,
     "A copy in a graph to pageable memory is complete when the launch is complete") {
    block const      p, q{kind::pageable};
    sim_stream const s;
    sim_graph::begin(s);
    copies(s, q, p);
    sim_graph const graph = sim_graph::end(s);
    graph.launch(s);
    if (right) { s.synchronize(); }
    MISTAKE(host_reads(q));
}

} // namespace catalogue::graphs
