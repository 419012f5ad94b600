// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include <vram/sim/sim.hpp>

namespace catalogue::stream_ordered_memory {

GROUP("stream-ordered memory")

/// A block of `memory` that the test frees itself.
static sim_range of(sim_async_resource& memory, sim_stream_view s, at where = at::current()) {
    return {memory.allocate(s, 4096, 256, where), 4096};
}
static void give(sim_async_resource& memory, sim_stream_view s, sim_range r,
                 at where = at::current()) {
    memory.deallocate(s, const_cast<void*>(r.data), r.bytes, 256, where);
}

PAIR(use_on_another_stream, use_before_ready,
     "cudaMallocAsync: another stream may use the memory only after an event") {
    sim_async_resource memory;
    sim_stream const   s, t;
    sim_range const    p = of(memory, s);
    if (right) { follows(t, s); }
    MISTAKE(writes(t, p));
    follows(s, t);
    give(memory, s, p);
}

PAIR(event_before_the_allocation, use_before_ready,
     "cudaMallocAsync: the event must be recorded after the allocation") {
    sim_async_resource memory;
    sim_stream const   s, t;
    if (!right) { follows(t, s); }
    sim_range const p = of(memory, s);
    if (right) { follows(t, s); }
    MISTAKE(writes(t, p));
    follows(s, t);
    give(memory, s, p);
}

PAIR(free_before_the_use_of_another_stream_ends, free_before_last_use,
     "cudaFreeAsync: the stream of the free must wait for every use") {
    sim_async_resource memory;
    sim_stream const   s, t;
    sim_range const    p = of(memory, s);
    follows(t, s);
    reads(t, p);
    if (right) { follows(s, t); }
    MISTAKE(give(memory, s, p));
}

PAIR(free_on_a_third_stream, free_before_last_use,
     "cudaFreeAsync: the stream of the free must wait for every use") {
    sim_async_resource memory;
    sim_stream const   s, t;
    sim_range const    p = of(memory, s);
    writes(s, p);
    if (right) { follows(t, s); }
    MISTAKE(give(memory, t, p));
}

PAIR(use_after_the_free, use_after_free,
     "cudaFreeAsync: memory ends in the order of the stream, also for this stream") {
    sim_async_resource memory;
    sim_stream const   s;
    sim_range const    p = of(memory, s);
    if (right) { writes(s, p); }
    give(memory, s, p);
    if (!right) { MISTAKE(writes(s, p)); }
}

PAIR(use_by_another_stream_after_the_free, use_after_free,
     "cudaFreeAsync: an order after the free does not make the memory live") {
    sim_async_resource memory;
    sim_stream const   s, t;
    sim_range const    p = of(memory, s);
    follows(t, s);
    if (right) {
        writes(t, p);
        follows(s, t);
    }
    give(memory, s, p);
    follows(t, s);
    if (!right) { MISTAKE(writes(t, p)); }
}

PAIR(copy_after_the_free, use_after_free, "cudaFreeAsync ends the memory also for copies") {
    sim_async_resource memory;
    block const        q{kind::pinned};
    sim_stream const   s;
    sim_range const    p = of(memory, s);
    if (right) { copies(s, q, p); }
    give(memory, s, p);
    if (!right) { MISTAKE(copies(s, q, p)); }
}

PAIR(host_wait_for_the_allocation, use_before_ready,
     "Work that is queued after a host wait for the allocation may use the memory") {
    sim_async_resource memory;
    sim_stream const   s, t;
    sim_range const    p = of(memory, s);
    (right ? s : t).synchronize();
    MISTAKE(writes(t, p));
    t.synchronize();
    give(memory, s, p);
}

PAIR(double_free_in_stream_order, double_free, "cudaFreeAsync: memory is freed once") {
    sim_async_resource memory;
    sim_stream const   s;
    sim_range const    p = of(memory, s);
    give(memory, s, p);
    if (!right) { MISTAKE(give(memory, s, p)); }
}

PAIR(double_free_on_two_streams, double_free, "cudaFreeAsync: memory is freed once") {
    sim_async_resource memory;
    sim_stream const   s, t;
    sim_range const    p = of(memory, s);
    follows(t, s);
    give(memory, s, p);
    if (!right) { MISTAKE(give(memory, t, p)); }
}

PAIR(free_with_another_size, wrong_size, "vram: a free has the size of the allocation") {
    sim_async_resource memory;
    sim_stream const   s;
    void* const        p = memory.allocate(s, 4096);
    MISTAKE(memory.deallocate(s, p, right ? 4096 : 2048));
}

PAIR(free_to_another_pool, foreign_free, "vram: memory is freed to the pool that allocated it") {
    sim_async_resource memory, other;
    sim_stream const   s;
    sim_range const    p = of(memory, s);
    if (!right) { MISTAKE(give(other, s, p)); }
    give(memory, s, p);
}

PAIR(free_of_memory_of_cudaMalloc, foreign_free,
     "vram: memory is freed to the resource that allocated it") {
    sim_async_resource memory;
    sim_resource       device;
    sim_stream const   s;
    void* const        p = device.allocate_sync(4096);
    if (!right) { MISTAKE(memory.deallocate(s, p, 4096)); }
    device.deallocate_sync(p, 4096);
}

PAIR(leak_of_stream_ordered_memory, leak, "Every allocation must be freed") {
    sim_async_resource memory;
    sim_stream const   s;
    sim_range          p;
    MISTAKE(p = of(memory, s));
    if (right) { give(memory, s, p); }
}

PAIR(kernel_past_the_end, out_of_bounds, "An access must be inside an allocation") {
    sim_async_resource memory;
    sim_stream const   s;
    sim_range const    p = of(memory, s);
    MISTAKE(writes(s, {p.data, right ? 4096u : 4097u}));
    give(memory, s, p);
}

PAIR(host_access_to_stream_ordered_memory, host_access,
     "The host cannot dereference device memory") {
    sim_async_resource memory;
    block const        q{kind::managed};
    sim_stream const   s;
    sim_range const    p = of(memory, s);
    s.synchronize();
    MISTAKE(host_reads(right ? sim_range{q} : p));
    give(memory, s, p);
}

PAIR(synchronous_free_of_memory_in_use, free_before_last_use,
     "deallocate_sync orders the free with the legacy default stream only") {
    sim_async_resource memory;
    sim_stream const   s;
    sim_range const    p = of(memory, s);
    writes(s, p);
    if (right) { s.synchronize(); }
    MISTAKE(memory.deallocate_sync(const_cast<void*>(p.data), 4096, 256));
}

PAIR(reused_memory_while_the_old_user_runs, race,
     "A pool reuses memory in the order of the free, so earlier uses must be ordered before it") {
    sim_async_resource memory{sim_device{}, {.maximum_size = 4096}};
    sim_stream const   s, t;
    block const        q;
    sim_range const    p = of(memory, s);
    writes(s, p);
    if (right) { follows(t, s); }
    MISTAKE(copies(t, q, p));
    follows(s, t);
    give(memory, s, p);
    sim_range const r = of(memory, s);
    writes(s, r);
    give(memory, s, r);
}

PAIR(free_on_a_stream_that_waits_too_early, free_before_last_use,
     "A wait includes only work that was queued before the record") {
    sim_async_resource memory;
    sim_stream const   s, t;
    sim_range const    p = of(memory, s);
    follows(t, s);
    if (!right) { follows(s, t); }
    writes(t, p);
    if (right) { follows(s, t); }
    MISTAKE(give(memory, s, p));
}

PAIR(trim_as_a_wait, free_before_last_use, "trim of a pool gives no order to later operations") {
    sim_async_resource memory;
    sim_stream const   s, t;
    sim_range const    p = of(memory, s), q = of(memory, s);
    writes(s, p);
    give(memory, s, q);
    memory.trim();
    if (right) { follows(t, s); }
    MISTAKE(give(memory, t, p));
}

PAIR(free_on_a_stream_that_does_not_know_the_allocation, free_before_last_use,
     "cudaFreeAsync: the free must be ordered after the allocation") {
    sim_async_resource memory;
    sim_stream const   s, t;
    sim_range const    p = of(memory, s);
    if (right) { follows(t, s); }
    MISTAKE(give(memory, t, p));
}

PAIR(wait_of_the_pool_is_no_wait_of_the_program, race,
     "cudaMemPoolReuseAllowInternalDependencies: a program must not rely on waits of the pool") {
    sim_async_resource memory{sim_device{}, {.maximum_size = 4096}};
    sim_stream const   s, t;
    block const        q;
    sim_range const    p = of(memory, s);
    writes(s, q);
    give(memory, s, p);
    if (right) { follows(t, s); }
    sim_range const r = of(memory, t); // the pool makes t wait for the free
    MISTAKE(reads(t, q));
    give(memory, t, r);
}

PAIR(used_by_two_streams_and_freed_on_one, free_before_last_use,
     "cudaFreeAsync: the stream of the free must wait for every use") {
    sim_async_resource memory;
    sim_stream const   s, t, u;
    sim_range const    p = of(memory, s);
    follows(t, s);
    follows(u, s);
    reads(t, p);
    reads(u, p);
    follows(s, t);
    if (right) { follows(s, u); }
    MISTAKE(give(memory, s, p));
}

PAIR(freed_on_a_blocking_stream_after_a_legacy_kernel, free_before_last_use,
     "cudaFreeAsync on a blocking stream is ordered after work of the legacy default stream") {
    sim_async_resource memory;
    sim_stream const   s{sim_device{}, {.blocking = right}};
    sim_range const    p = of(memory, s);
    s.synchronize();
    writes(legacy(), p);
    MISTAKE(give(memory, s, p));
}

} // namespace catalogue::stream_ordered_memory

namespace catalogue::limits {

GROUP("limits")

PAIR(device_memory_exhausted, capacity_exceeded, "cudaMalloc fails if the device has too little",
     .capacity = 64_KiB, .checks = {.capacity = true}) {
    sim_resource memory;
    void*        p = nullptr;
    MISTAKE(p = memory.try_allocate_sync(right ? 64_KiB : 65_KiB));
    memory.deallocate_sync(p, 64_KiB);
}

PAIR(pinned_memory_exhausted, capacity_exceeded, "cudaHostAlloc fails if the host has too little",
     .pinned_capacity = 64_KiB, .checks = {.capacity = true}) {
    sim_pinned_resource memory;
    void*               p = nullptr;
    MISTAKE(p = memory.try_allocate_sync(right ? 64_KiB : 65_KiB));
    memory.deallocate_sync(p, 64_KiB);
}

PAIR(managed_memory_exhausted, capacity_exceeded,
     "cudaMallocManaged fails if the host has too little", .pinned_capacity = 64_KiB,
     .checks = {.capacity = true}) {
    sim_managed_resource memory;
    void*                p = nullptr;
    MISTAKE(p = memory.try_allocate_sync(right ? 64_KiB : 65_KiB));
    memory.deallocate_sync(p, 64_KiB);
}

PAIR(maximum_of_a_memory_pool, capacity_exceeded,
     "cudaMemPoolProps::maxSize limits the memory of a pool", .checks = {.capacity = true}) {
    sim_async_resource memory{sim_device{}, {.maximum_size = 64_KiB}};
    sim_stream const   s;
    void*              p = nullptr;
    MISTAKE(p = memory.try_allocate(s, right ? 64_KiB : 65_KiB));
    memory.deallocate(s, p, 64_KiB);
}

PAIR(memory_of_another_process, capacity_exceeded, "Memory of another process is not available",
     .capacity = 64_KiB, .checks = {.capacity = true}) {
    sim_resource memory;
    if (!right) { sim_node::current().take(0, 1_KiB); }
    void* p = nullptr;
    MISTAKE(p = memory.try_allocate_sync(64_KiB));
    memory.deallocate_sync(p, 64_KiB);
}

PAIR(memory_that_is_not_freed_yet, capacity_exceeded, "Memory is available again when it was freed",
     .capacity = 64_KiB, .checks = {.capacity = true}) {
    sim_resource memory;
    void* const  p = memory.allocate_sync(64_KiB);
    if (right) { memory.deallocate_sync(p, 64_KiB); }
    void* q = nullptr;
    MISTAKE(q = memory.try_allocate_sync(64_KiB));
    memory.deallocate_sync(right ? q : p, 64_KiB);
}

} // namespace catalogue::limits
