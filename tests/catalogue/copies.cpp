// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include <vram/sim/sim.hpp>

#include <cstddef>

namespace catalogue::of_copies {

GROUP("copies")

PAIR(result_of_a_copy_to_pinned_memory, race,
     "cudaMemcpyAsync to pinned memory returns before the copy is complete; to pageable, after") {
    block const      p, q{right ? kind::pageable : kind::pinned};
    sim_stream const s;
    copies(s, q, p);
    MISTAKE(host_reads(q));
}

PAIR(source_of_a_copy_from_pinned_memory, race,
     "cudaMemcpyAsync has read a pageable source when it returns, but not a pinned one") {
    block const      p, q{right ? kind::pageable : kind::pinned};
    sim_stream const s;
    copies(s, p, q);
    MISTAKE(host_writes(q));
}

PAIR(large_pageable_source, race,
     "cudaMemcpyAsync from pageable memory: the copy to the device may still run on return") {
    constexpr std::size_t bytes = 1_MiB;
    block const           p{kind::device, 0, bytes}, q{kind::pageable, 0, bytes};
    sim_stream const      s, t;
    copies(s, p, q);
    if (right) { follows(t, s); }
    MISTAKE(reads(t, p));
}

PAIR(copy_between_host_memory, race,
     "cudaMemcpyAsync between host memory is synchronous; from a device to pinned memory it is "
     "not") {
    block const      p{right ? kind::pinned : kind::device}, q{kind::pinned};
    sim_stream const s;
    copies(s, q, p);
    MISTAKE(host_reads(q));
}

PAIR(synchronous_copy_to_pinned_memory, race,
     "cudaMemcpy to host memory waits for the copy; cudaMemcpyAsync does not") {
    block const p, q{kind::pinned};
    if (right) {
        sim_copy_sync(q.data(), p.data(), 4096);
    } else {
        copies({}, q, p);
    }
    MISTAKE(host_reads(q));
}

PAIR(source_and_destination_overlap, overlapping_copy,
     "cudaMemcpy: the memory areas may not overlap") {
    block const      p;
    sim_stream const s;
    MISTAKE(copies(s, p.part(right ? 1024 : 1023, 1024), p.part(0, 1024)));
}

PAIR(rows_of_a_box_overlap, overlapping_copy, "cudaMemcpy2D: the memory areas may not overlap") {
    block const      p;
    sim_stream const s;
    auto* const      data = static_cast<std::byte*>(p.data());
    // The destination is to the right of the source in the same rows of 256 bytes.
    MISTAKE(sim_copy(s, {.to         = data + (right ? 64 : 63),
                         .to_pitch   = 256,
                         .to_slice   = 2048,
                         .from       = data,
                         .from_pitch = 256,
                         .from_slice = 2048,
                         .width      = 64,
                         .height     = 8}));
}

PAIR(row_of_a_box_in_use, race,
     "A copy of a box accesses its rows, and not the gaps between them") {
    block const      p, q{kind::pinned};
    sim_stream const s, t;
    sim_copy(s, {.to         = p.data(),
                 .to_pitch   = 256,
                 .to_slice   = 2048,
                 .from       = q.data(),
                 .from_pitch = 256,
                 .from_slice = 2048,
                 .width      = 64,
                 .height     = 8});
    MISTAKE(writes(t, p.part(right ? 256 + 64 : 256 + 32, 64)));
}

PAIR(last_row_of_a_box_past_the_end, out_of_bounds, "A box must be inside one allocation") {
    block const      p, q{kind::pinned};
    sim_stream const s;
    MISTAKE(sim_copy(s, {.to         = p.data(),
                         .to_pitch   = 256,
                         .to_slice   = 4096,
                         .from       = q.data(),
                         .from_pitch = 128,
                         .from_slice = 2048,
                         .width      = 128,
                         .height     = right ? 16u : 17u}));
}

PAIR(copy_one_byte_too_long, out_of_bounds, "cudaMemcpy: both ranges must be inside allocations") {
    block const      p{kind::device, 0, 1000}, q{kind::pinned};
    sim_stream const s;
    MISTAKE(sim_copy(s, p.data(), q.data(), right ? 1000 : 1001));
}

PAIR(source_was_freed, use_after_free, "Memory must be live when an operation accesses it") {
    block            p;
    block const      q{kind::pinned};
    sim_stream const s;
    sim_range const  from = p;
    if (!right) { p.free(); }
    MISTAKE(copies(s, q, from));
}

PAIR(one_destination_of_two_copies, race, "Copies on different streams have no order") {
    block const      p, q, from{kind::pinned};
    sim_stream const s, t;
    copies(s, p, from);
    MISTAKE(copies(t, right ? q : p, from));
}

PAIR(kernel_waits_for_one_of_two_copies, race, "A kernel must wait for every copy that it uses") {
    block const      p, from{kind::pinned};
    sim_stream const s, t, kernels;
    copies(s, p.first_half(), from.first_half());
    copies(t, p.second_half(), from.second_half());
    follows(kernels, s);
    if (right) { follows(kernels, t); }
    MISTAKE(reads(kernels, p));
}

PAIR(kernel_writes_what_a_copy_reads, race,
     "The source of a device-to-device copy must not change until the copy is complete") {
    block const      p, q;
    sim_stream const s, t;
    copies(s, q, p);
    if (right) { follows(t, s); }
    MISTAKE(writes(t, p));
}

PAIR(host_copy_from_device_memory, host_access, "The host cannot dereference device memory") {
    block const p{right ? kind::managed : kind::device}, q{kind::pageable};
    MISTAKE(sim_platform::host_copies(q.data(), p.data(), 4096));
}

PAIR(host_copy_into_a_buffer_in_use, race,
     "A staging buffer must not be filled again before its copy is complete") {
    block const      p, middle{kind::pinned};
    sim_stream const s;
    sim_platform::host_copies(middle.data(), nullptr, 4096);
    copies(s, p, middle);
    if (right) { s.synchronize(); }
    MISTAKE(sim_platform::host_copies(middle.data(), nullptr, 4096));
}

PAIR(result_in_a_copy_chain, race, "The host must wait for the last copy of a chain") {
    block const      p, q, out{kind::pinned};
    sim_stream const s, t;
    sim_event        first, second;
    copies(s, q, p);
    first.record(s);
    first.wait(t);
    copies(t, out, q);
    second.record(t);
    (right ? second : first).synchronize();
    MISTAKE(host_reads(out));
}

PAIR(copy_to_pageable_memory_orders_later_work, race,
     "cudaMemcpyAsync to pageable memory is complete on return; to pinned memory it is not") {
    block const      p, q{right ? kind::pageable : kind::pinned};
    sim_stream const s, t;
    copies(s, q, p);
    MISTAKE(writes(t, p));
}

PAIR(pageable_copy_as_a_wait_for_earlier_work, race,
     "cudaMemcpy from pageable memory first waits for the default stream; cudaMemcpyAsync need "
     "not") {
    block const p, q, out{kind::pinned}, from{kind::pageable};
    copies(legacy(), out, p);
    if (right) {
        sim_copy_sync(q.data(), from.data(), 4096);
    } else {
        copies(legacy(), q, from);
    }
    MISTAKE(host_reads(out));
}

PAIR(destination_read_between_two_copies, race, "Each copy is ordered with its stream only") {
    block const      p, q, r;
    sim_stream const s, t;
    copies(s, q, p);
    follows(t, s);
    if (!right) { copies(s, q, r); }
    MISTAKE(reads(t, q));
}

PAIR(copy_of_nothing, race, "A copy of no bytes accesses nothing") {
    block const      p, q;
    sim_stream const s, t;
    writes(s, p);
    MISTAKE(copies(t, q, p.part(0, right ? 0 : 1)));
}

PAIR(copy_within_one_allocation, race, "Two parts of one allocation are ordered as other memory") {
    block const      p;
    sim_stream const s, t;
    copies(s, p.first_half(), p.second_half());
    MISTAKE(right ? reads(t, p.second_half()) : reads(t, p.first_half()));
}

} // namespace catalogue::of_copies

namespace catalogue::of_fills {

GROUP("fills")

PAIR(fill_and_kernel_on_two_streams, race, "cudaMemsetAsync is an operation of its stream") {
    block const      p;
    sim_stream const s, t;
    fills(s, p);
    if (right) { follows(t, s); }
    MISTAKE(reads(t, p));
}

PAIR(fill_of_pinned_memory, race,
     "cudaMemsetAsync is always asynchronous with respect to the host") {
    block const      p{kind::pinned};
    sim_stream const s;
    fills(s, p);
    if (right) { s.synchronize(); }
    MISTAKE(host_reads(p));
}

PAIR(fill_of_managed_memory, race,
     "cudaMemsetAsync is always asynchronous with respect to the host") {
    block const      p{kind::managed};
    sim_stream const s;
    fills(s, p);
    if (right) { s.synchronize(); }
    MISTAKE(host_reads(p));
}

PAIR(fill_past_the_end, out_of_bounds, "cudaMemset: the range must be inside an allocation") {
    block const      p;
    sim_stream const s;
    MISTAKE(fills(s, p.part(96, right ? 4000 : 4001)));
}

PAIR(fill_after_the_free, use_after_free, "Memory must be live when an operation accesses it") {
    sim_async_resource memory;
    sim_stream const   s;
    void* const        p = memory.allocate(s, 4096);
    if (!right) { memory.deallocate(s, p, 4096); }
    MISTAKE(fills(s, {p, 4096}));
    if (right) { memory.deallocate(s, p, 4096); }
}

PAIR(fill_before_the_allocation_is_complete, use_before_ready,
     "Another stream may use stream-ordered memory only after an event") {
    sim_async_resource memory;
    sim_stream const   s, t;
    void* const        p = memory.allocate(s, 4096);
    if (right) { follows(t, s); }
    MISTAKE(fills(t, {p, 4096}));
    follows(s, t);
    memory.deallocate(s, p, 4096);
}

PAIR(fill_of_a_copy_source, race, "A copy's source must not change until the copy is complete") {
    block const      p, q{kind::pinned};
    sim_stream const s, t;
    copies(s, q, p);
    if (right) { follows(t, s); }
    MISTAKE(fills(t, p));
}

PAIR(two_fills_that_share_a_byte, race, "Fills on different streams have no order") {
    block const      p;
    sim_stream const s, t;
    fills(s, p.part(0, 2048));
    MISTAKE(fills(t, p.part(right ? 2048 : 2047, 2048)));
}

PAIR(fill_of_pageable_memory, pageable_access,
     "cudaMemset: the memory must be device, pinned or managed memory") {
    block const      p{right ? kind::pinned : kind::pageable};
    sim_stream const s;
    MISTAKE(fills(s, p));
}

} // namespace catalogue::of_fills

namespace catalogue::batches {

GROUP("batches")

/// Queues two copies of 1024 bytes as one batch: offsets of the destinations and sources.
static void batch(sim_stream_view s, block const& p, std::size_t to_a, std::size_t from_a,
                  std::size_t to_b, std::size_t from_b, at where = at::current()) {
    auto* const       data    = static_cast<std::byte*>(p.data());
    void* const       to[]    = {data + to_a, data + to_b};
    void const* const from[]  = {data + from_a, data + from_b};
    std::size_t const bytes[] = {1024, 1024};
    CHECK(sim_platform::copy_batch(s, to, from, bytes, where));
}

PAIR(copy_of_a_copied_range, race,
     "cudaMemcpyBatchAsync: the copies of a batch have no order among themselves") {
    block const      p;
    sim_stream const s;
    MISTAKE(batch(s, p, 1024, 0, 2048, right ? 0 : 1024));
}

PAIR(two_copies_to_one_destination, race,
     "cudaMemcpyBatchAsync: the copies of a batch have no order among themselves") {
    block const      p;
    sim_stream const s;
    MISTAKE(batch(s, p, 1024, 0, right ? 2048 : 1025, 3072));
}

PAIR(source_of_a_copy_is_the_destination_of_another, race,
     "cudaMemcpyBatchAsync: the copies of a batch have no order among themselves") {
    block const      p;
    sim_stream const s;
    if (right) {
        batch(s, p, 1024, 0, 3072, 0);
        batch(s, p, 0, 2048, 3072, 2048);
    } else {
        MISTAKE(batch(s, p, 1024, 0, 0, 2048));
    }
}

PAIR(kernel_beside_a_batch, race, "A batch is ordered with its stream only") {
    block const      p;
    sim_stream const s, t;
    batch(s, p, 1024, 0, 3072, 2048);
    if (right) { follows(t, s); }
    MISTAKE(reads(t, p));
}

PAIR(batch_before_its_source_is_written, race, "A batch is ordered with its stream only") {
    block const      p;
    sim_stream const s, t;
    writes(t, p);
    if (right) { follows(s, t); }
    MISTAKE(batch(s, p, 1024, 0, 3072, 2048));
}

PAIR(host_overwrites_the_sources, race,
     "The pinned sources of a batch must not change until it is complete") {
    block const      p{kind::managed};
    sim_stream const s;
    batch(s, p, 1024, 0, 3072, 2048);
    if (right) { s.synchronize(); }
    MISTAKE(host_writes(p));
}

PAIR(copy_of_a_batch_past_the_end, out_of_bounds, "Each range must be inside an allocation") {
    block const      p;
    sim_stream const s;
    MISTAKE(batch(s, p, 1024, 0, right ? 3072 : 3073, 2048));
}

PAIR(copy_of_a_batch_overlaps_itself, overlapping_copy, "The ranges of a copy may not overlap") {
    block const      p;
    sim_stream const s;
    MISTAKE(batch(s, p, right ? 1024 : 1000, 0, 3072, 2048));
}

} // namespace catalogue::batches
