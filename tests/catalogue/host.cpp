// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include <vram/sim/sim.hpp>

namespace catalogue::host {

GROUP("host synchronisation")

PAIR(result_read_without_a_wait, race, "A kernel launch is asynchronous: the host does not wait") {
    block const      p{kind::pinned};
    sim_stream const s;
    writes(s, p);
    if (right) { s.synchronize(); }
    MISTAKE(host_reads(p));
}

PAIR(wait_for_the_wrong_stream, race, "cudaStreamSynchronize waits for one stream") {
    block const      p{kind::pinned};
    sim_stream const s, t;
    writes(s, p);
    (right ? s : t).synchronize();
    MISTAKE(host_reads(p));
}

PAIR(wait_before_the_work, race, "A wait of the host includes only work that was queued before") {
    block const      p{kind::pinned};
    sim_stream const s;
    if (!right) { s.synchronize(); }
    writes(s, p);
    if (right) { s.synchronize(); }
    MISTAKE(host_reads(p));
}

PAIR(wait_for_another_device, race, "cudaDeviceSynchronize waits for the current device only",
     .devices = 2) {
    block const      p{kind::pinned};
    sim_stream const s = stream_of(1);
    writes(s, p);
    sim_device{right ? 1 : 0}.synchronize();
    MISTAKE(host_reads(p));
}

PAIR(source_overwritten_during_a_copy, race,
     "cudaMemcpyAsync: the pinned source must not change until the copy is complete") {
    block const      p, source{kind::pinned};
    sim_stream const s;
    host_writes(source);
    copies(s, p, source);
    if (right) { s.synchronize(); }
    MISTAKE(host_writes(source));
}

PAIR(argument_overwritten_during_a_kernel, race,
     "A kernel reads pinned memory while it runs, not at the launch") {
    block const      p{kind::pinned};
    sim_stream const s;
    host_writes(p);
    reads(s, p);
    if (right) { s.synchronize(); }
    MISTAKE(host_writes(p));
}

PAIR(sleep_instead_of_a_wait, race, "Time gives no order: only a wait does") {
    block const      p{kind::pinned};
    sim_stream const s;
    writes(s, p);
    right ? s.synchronize() : sim_work(sim_time{1'000'000});
    MISTAKE(host_reads(p));
}

PAIR(query_with_an_ignored_answer, race, "cudaStreamQuery orders only if it returns cudaSuccess") {
    block const      p{kind::pinned};
    sim_stream const s;
    writes(s, p);
    while (!s.done() && right) {}
    MISTAKE(host_reads(p));
}

PAIR(query_of_another_stream, race, "cudaStreamQuery asks about one stream") {
    block const      p{kind::pinned};
    sim_stream const s, t;
    writes(s, p);
    while (!(right ? s : t).done()) {}
    MISTAKE(host_reads(p));
}

PAIR(free_as_a_wait, race, "cudaFree may wait for the device, but a program must not rely on it") {
    block const      p{kind::pinned};
    block            q;
    sim_stream const s;
    writes(s, p);
    if (right) { s.synchronize(); }
    q.free();
    MISTAKE(host_reads(p));
}

PAIR(allocation_as_a_wait, race,
     "cudaMalloc may wait for the device, but a program must not rely on it") {
    block const      p{kind::pinned};
    sim_stream const s;
    writes(s, p);
    if (right) { s.synchronize(); }
    block const q;
    MISTAKE(host_reads(p));
}

PAIR(stream_created_as_a_wait, race, "cudaStreamCreate waits for nothing") {
    block const      p{kind::pinned};
    sim_stream const s;
    writes(s, p);
    if (right) { s.synchronize(); }
    sim_stream const t;
    MISTAKE(writes(t, p));
}

PAIR(destruction_as_a_wait, race, "cudaStreamDestroy waits for nothing") {
    block const p{kind::pinned};
    {
        sim_stream const s;
        writes(s, p);
        if (right) { s.synchronize(); }
    }
    MISTAKE(host_reads(p));
}

PAIR(device_wait_after_a_stream_was_destroyed, race,
     "cudaDeviceSynchronize includes the work of destroyed streams") {
    block const p{kind::pinned};
    {
        sim_stream const s;
        writes(s, p);
    }
    if (right) { sim_device{}.synchronize(); }
    MISTAKE(host_reads(p));
}

PAIR(work_queued_after_a_host_write, race,
     "Work is ordered after what its thread did before it queued the work") {
    block const      p{kind::pinned};
    sim_stream const s;
    if (right) { host_writes(p); }
    reads(s, p);
    if (!right) { MISTAKE(host_writes(p)); }
}

PAIR(host_read_beside_a_kernel, race, "A read of the host and one of a kernel need no order") {
    block const      p{kind::pinned};
    sim_stream const s;
    right ? reads(s, p) : writes(s, p);
    MISTAKE(host_reads(p));
}

PAIR(device_to_device_copy_as_a_wait, race,
     "cudaMemcpy from device to device memory does not wait for the copy") {
    block const      p, q;
    sim_stream const t;
    sim_copy_sync(q.data(), p.data(), 4096);
    if (right) { legacy().synchronize(); }
    MISTAKE(writes(t, q));
}

PAIR(pageable_source_of_a_synchronous_copy, race,
     "cudaMemcpy from pageable memory may return before the copy to the device is complete") {
    block const      p, q{right ? kind::pinned : kind::pageable};
    sim_stream const t;
    sim_copy_sync(p.data(), q.data(), 4096);
    MISTAKE(reads(t, p));
}

PAIR(fill_as_a_wait, race, "cudaMemset of device memory is asynchronous") {
    block const      p;
    sim_stream const t;
    fills(legacy(), p);
    if (right) { legacy().synchronize(); }
    MISTAKE(reads(t, p));
}

PAIR(allocation_that_waits, use_before_ready,
     "allocate_sync returns memory that every stream may use; allocate does not") {
    sim_async_resource memory;
    sim_stream const   s, t;
    void* const        p = right ? memory.allocate_sync(4096) : memory.allocate(s, 4096);
    MISTAKE(writes(t, {p, 4096}));
    t.synchronize();
    memory.deallocate_sync(p, 4096);
}

} // namespace catalogue::host
