// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include <vram/sim/machine/sim_register.hpp>
#include <vram/sim/sim.hpp>

#include <cstddef>
#include <span>

namespace catalogue::device_memory {

GROUP("device memory")

PAIR(kernel_after_the_free, use_after_free, "cudaFree ends the memory: no later work may use it") {
    block            p;
    sim_range const  range = p;
    sim_stream const s;
    if (!right) { p.free(); }
    MISTAKE(writes(s, range));
}

PAIR(kernel_past_the_end, out_of_bounds, "An access must be inside an allocation") {
    block const      p{kind::device, 0, 1000};
    sim_stream const s;
    MISTAKE(writes(s, {p.data(), right ? 1000u : 1001u}));
}

PAIR(kernel_before_the_begin, out_of_bounds, "An access must be inside an allocation") {
    block const      other; // so that `p` is not the first memory of the device
    block const      p;
    sim_stream const s;
    auto* const      data = static_cast<std::byte*>(p.data());
    MISTAKE(reads(s, {right ? data : data - 1, 8}));
}

PAIR(kernel_over_two_allocations, out_of_bounds,
     "Two allocations are not one, even if their addresses follow each other") {
    block const      p, q;
    sim_stream const s;
    auto* const      a = static_cast<std::byte*>(p.data());
    auto* const      b = static_cast<std::byte*>(q.data());
    if (right) {
        writes(s, p);
        writes(s, q);
    } else {
        auto* const low = a < b ? a : b;
        MISTAKE(writes(s, {low, static_cast<std::size_t>((low == a ? b : a) - low) + 4096}));
    }
}

PAIR(double_free_of_device_memory, double_free, "cudaFree: memory is freed once") {
    sim_resource memory;
    void* const  p = memory.allocate_sync(4096);
    memory.deallocate_sync(p, 4096);
    if (!right) { MISTAKE(memory.deallocate_sync(p, 4096)); }
}

PAIR(free_with_another_size, wrong_size, "vram: a free has the size of the allocation") {
    sim_resource memory;
    void* const  p = memory.allocate_sync(4096);
    MISTAKE(memory.deallocate_sync(p, right ? 4096 : 4095));
}

PAIR(free_of_an_inner_pointer, foreign_free,
     "cudaFree: the pointer must be that of an allocation") {
    sim_resource memory;
    auto* const  p = static_cast<std::byte*>(memory.allocate_sync(4096));
    if (!right) { MISTAKE(memory.deallocate_sync(p + 256, 3840)); }
    memory.deallocate_sync(p, 4096);
}

PAIR(free_of_pinned_memory_as_device_memory, foreign_free,
     "cudaFree accepts device and managed memory, cudaFreeHost pinned memory") {
    sim_resource        memory;
    sim_pinned_resource pinned;
    void* const         p = pinned.allocate_sync(4096);
    if (!right) { MISTAKE(memory.deallocate_sync(p, 4096)); }
    pinned.deallocate_sync(p, 4096);
}

PAIR(leak_of_device_memory, leak, "Every allocation must be freed") {
    sim_resource memory;
    void*        p = nullptr;
    MISTAKE(p = memory.allocate_sync(4096));
    if (right) { memory.deallocate_sync(p, 4096); }
}

PAIR(free_during_a_kernel, free_before_last_use,
     "cudaFree may wait for the device, but a program must not rely on it") {
    block            p;
    sim_stream const s;
    writes(s, p);
    if (right) { s.synchronize(); }
    MISTAKE(p.free());
}

PAIR(free_behind_one_of_two_kernels, free_before_last_use,
     "A free must follow the last use on every stream") {
    block            p;
    sim_stream const s, t;
    reads(s, p);
    reads(t, p);
    s.synchronize();
    if (right) { t.synchronize(); }
    MISTAKE(p.free());
}

PAIR(host_reads_device_memory, host_access, "The host cannot dereference device memory") {
    block const p{right ? kind::managed : kind::device};
    MISTAKE(host_reads(p));
}

PAIR(copy_of_memory_that_was_never_written, uninitialised_read,
     "Device memory has undefined contents until it is written",
     .checks = {.uninitialised = true}) {
    block const      p, q{kind::pinned};
    sim_stream const s;
    if (right) { fills(s, p); }
    MISTAKE(copies(s, q, p));
}

PAIR(kernel_reads_more_than_was_written, uninitialised_read,
     "Device memory has undefined contents until it is written",
     .checks = {.uninitialised = true}) {
    block const      p;
    sim_stream const s;
    fills(s, p.first_half());
    MISTAKE(reads(s, right ? p.first_half() : p));
}

PAIR(uninitialised_sum, uninitialised_read, "cudaMallocAsync does not clear memory",
     .checks = {.uninitialised = true}) {
    sim_async_resource memory;
    sim_stream const   s;
    sim_range const    p{memory.allocate(s, 4096), 4096};
    if (right) { writes(s, p); }
    MISTAKE(sim_launch(s, {.reads = {p}, .writes = {p}}));
    memory.deallocate(s, const_cast<void*>(p.data), 4096);
}

PAIR(kernel_body_accesses_undeclared_memory, undeclared_access,
     "vram: a simulated kernel declares the memory that it accesses") {
    block const      p, q;
    sim_stream const s;
    auto* const      data = static_cast<std::byte*>((right ? p : q).data());
    MISTAKE(sim_launch(s, {.writes = {p}}, [=] { *sim_view(data) = std::byte{1}; }));
}

PAIR(kernel_body_accesses_more_than_it_declares, undeclared_access,
     "vram: a simulated kernel declares the memory that it accesses") {
    block const      p;
    sim_stream const s;
    std::span        all{static_cast<std::byte*>(p.data()), right ? 2048u : 2049u};
    MISTAKE(sim_launch(s, {.reads = {p.first_half()}}, [=] { static_cast<void>(sim_view(all)); }));
}

PAIR(kernel_body_uses_a_plain_pointer, not_checked(undeclared_access),
     "vram: only accesses through sim_view are compared with the declaration",
     .dereferenceable = true) {
    block const      p, q;
    sim_stream const s;
    auto* const      data = static_cast<std::byte*>((right ? p : q).data());
    MISTAKE(sim_launch(s, {.writes = {p}}, [=] { *data = std::byte{1}; }));
}

PAIR(kernel_body_writes_what_it_declares_as_read, not_checked(undeclared_access),
     "vram: sim_view compares the range with the declaration, and not the kind of access") {
    block const      p;
    sim_stream const s;
    auto* const      data = static_cast<std::byte*>(p.data());
    sim_kernel       k{.reads = {p}};
    if (right) { k.writes = {p}; }
    MISTAKE(sim_launch(s, k, [=] { *sim_view(data) = std::byte{1}; }));
}

PAIR(kernel_body_touches_for_writing_what_it_declares_as_read, undeclared_access,
     "vram: sim_touch in a kernel compares the kind of the access with the declaration") {
    block const      p;
    sim_stream const s;
    sim_kernel       k{.reads = {p}};
    if (right) { k.writes = {p}; }
    sim_launch(s, k, [&] { MISTAKE(sim_touch(p.part(64, 4), sim_access::write)); });
    s.synchronize();
}

} // namespace catalogue::device_memory

namespace catalogue::host_memory {

GROUP("pinned, managed and pageable memory")

PAIR(kernel_reads_pageable_memory, pageable_access,
     "Without access to the host's page tables, devices access pinned and managed memory only") {
    block const      p{right ? kind::pinned : kind::pageable};
    sim_stream const s;
    MISTAKE(reads(s, p));
}

PAIR(kernel_writes_pageable_memory, pageable_access,
     "Without access to the host's page tables, devices access pinned and managed memory only") {
    block const      p{right ? kind::managed : kind::pageable};
    sim_stream const s;
    MISTAKE(writes(s, p));
}

PAIR(pageable_memory_read_during_a_kernel, race,
     "cudaDevAttrPageableMemoryAccess permits the access, and orders nothing",
     .host_page_tables = true) {
    block const      p{kind::pageable};
    sim_stream const s;
    writes(s, p);
    if (right) { s.synchronize(); }
    MISTAKE(host_reads(p));
}

PAIR(two_kernels_write_pageable_memory, race,
     "cudaDevAttrPageableMemoryAccess permits the access, and orders nothing",
     .host_page_tables = true) {
    block const      p{kind::pageable};
    sim_stream const s, t;
    writes(s, p);
    if (right) { follows(t, s); }
    MISTAKE(writes(t, p));
}

PAIR(pageable_source_of_a_direct_copy, race,
     "cudaMemcpyAsync may be asynchronous for pageable memory that need not be staged",
     .host_page_tables = true) {
    block const      p, q{kind::pageable};
    sim_stream const s;
    copies(s, p, q);
    if (right) { s.synchronize(); }
    MISTAKE(host_writes(q));
}

PAIR(pageable_destination_of_a_direct_copy, race,
     "cudaMemcpyAsync may be asynchronous for pageable memory that need not be staged",
     .host_page_tables = true) {
    block const      p, q{kind::pageable};
    sim_stream const s;
    copies(s, q, p);
    if (right) { s.synchronize(); }
    MISTAKE(host_reads(q));
}

PAIR(fill_of_pageable_memory_by_a_device, race,
     "cudaMemsetAsync may be asynchronous for memory that the device accesses itself",
     .host_page_tables = true) {
    block const      p{kind::pageable};
    sim_stream const s;
    fills(s, p);
    if (right) { s.synchronize(); }
    MISTAKE(host_reads(p));
}

PAIR(managed_memory_read_during_a_kernel, race,
     "With concurrent managed access, the host may access other bytes during a kernel") {
    block const      p{kind::managed};
    sim_stream const s;
    writes(s, p.first_half());
    MISTAKE(host_reads(right ? p.second_half() : p.first_half()));
}

PAIR(managed_memory_written_by_two_devices, race,
     "Managed memory has one address on all devices, and no order", .devices = 2) {
    block const      p{kind::managed};
    sim_stream const s = stream_of(0), t = stream_of(1);
    writes(s, p);
    if (right) { follows(t, s); }
    MISTAKE(writes(t, p));
}

PAIR(pinned_memory_written_by_two_devices, race,
     "Pinned memory is accessible from all devices, without an order", .devices = 2) {
    block const      p{kind::pinned};
    sim_stream const s = stream_of(0), t = stream_of(1);
    writes(s, p);
    if (right) { follows(t, s); }
    MISTAKE(reads(t, p));
}

PAIR(host_reads_pinned_memory_after_the_free, use_after_free, "cudaFreeHost ends the memory") {
    block           p{kind::pinned};
    sim_range const range = p;
    if (!right) { p.free(); }
    MISTAKE(host_reads(range));
}

PAIR(kernel_writes_managed_memory_after_the_free, use_after_free, "cudaFree ends the memory") {
    block            p{kind::managed};
    sim_range const  range = p;
    sim_stream const s;
    if (!right) { p.free(); }
    MISTAKE(writes(s, range));
}

PAIR(pinned_memory_freed_during_a_copy, free_before_last_use,
     "cudaFreeHost may wait for the device, but a program must not rely on it") {
    block            p{kind::pinned};
    block const      q;
    sim_stream const s;
    copies(s, q, p);
    if (right) { s.synchronize(); }
    MISTAKE(p.free());
}

PAIR(managed_memory_freed_during_a_kernel, free_before_last_use,
     "cudaFree may wait for the device, but a program must not rely on it") {
    block            p{kind::managed};
    sim_stream const s;
    reads(s, p);
    if (right) { s.synchronize(); }
    MISTAKE(p.free());
}

PAIR(copy_past_the_end_of_pinned_memory, out_of_bounds, "An access must be inside an allocation") {
    block const      p, q{kind::pinned, 0, 1000};
    sim_stream const s;
    MISTAKE(sim_copy(s, p.data(), q.data(), right ? 1000 : 1001));
}

PAIR(host_writes_past_the_end_of_pinned_memory, out_of_bounds,
     "An access must be inside an allocation") {
    block const p{kind::pinned, 0, 1000};
    MISTAKE(host_writes({p.data(), right ? 1000u : 1001u}));
}

PAIR(double_free_of_pinned_memory, double_free, "cudaFreeHost: memory is freed once") {
    sim_pinned_resource memory;
    void* const         p = memory.allocate_sync(4096);
    memory.deallocate_sync(p, 4096);
    if (!right) { MISTAKE(memory.deallocate_sync(p, 4096)); }
}

PAIR(free_of_device_memory_as_pinned_memory, foreign_free,
     "cudaFreeHost accepts memory of cudaHostAlloc only") {
    sim_resource        device;
    sim_pinned_resource memory;
    void* const         p = device.allocate_sync(4096);
    if (!right) { MISTAKE(memory.deallocate_sync(p, 4096)); }
    device.deallocate_sync(p, 4096);
}

PAIR(leak_of_pinned_memory, leak, "Every allocation must be freed") {
    sim_pinned_resource memory;
    void*               p = nullptr;
    MISTAKE(p = memory.allocate_sync(4096));
    if (right) { memory.deallocate_sync(p, 4096); }
}

PAIR(leak_of_managed_memory, leak, "Every allocation must be freed") {
    sim_managed_resource memory;
    void*                p = nullptr;
    MISTAKE(p = memory.allocate_sync(4096));
    if (right) { memory.deallocate_sync(p, 4096); }
}

PAIR(registered_memory_unregistered_during_a_copy, free_before_last_use,
     "cudaHostUnregister: no operation may still use the memory") {
    block const      p, q{kind::pageable};
    sim_stream const s;
    if (!right) { mark_any_line(); }
    {
        vram::detail::sim_register const pinned{q};
        copies(s, p, q);
        if (right) { s.synchronize(); }
    }
}

PAIR(source_of_a_registered_range_overwritten, race,
     "cudaHostRegister makes memory pinned: copies from it are asynchronous") {
    block const                      p, q{kind::pageable};
    sim_stream const                 s;
    vram::detail::sim_register const pinned{q};
    copies(s, p, q);
    if (right) { s.synchronize(); }
    MISTAKE(host_writes(q));
    s.synchronize();
}

PAIR(host_reads_more_than_a_registered_range, race,
     "cudaHostRegister: the host accesses registered memory as any other memory") {
    block const                      p, q{kind::pageable};
    sim_stream const                 s;
    vram::detail::sim_register const pinned{q.part(1024, 1024)};
    sim_copy(s, const_cast<void*>(q.part(1024, 0).data), p.data(), 1024);
    if (right) { s.synchronize(); }
    MISTAKE(host_reads(q));
    s.synchronize();
}

PAIR(host_function_writes_more_than_a_registered_range, race,
     "cudaHostRegister: the host accesses registered memory as any other memory") {
    block const                      p, q{kind::pageable};
    sim_stream const                 s, t;
    vram::detail::sim_register const pinned{q.part(1024, 1024)};
    copies(s, p, q.part(1024, 1024));
    if (right) { follows(t, s); }
    MISTAKE(sim_call_host(t, sim_host_work{.writes = {q.part(1536, 1024)}}, [] {}));
    sim_device{}.synchronize();
}

} // namespace catalogue::host_memory
