// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include <vram/handle/array.hpp>
#include <vram/handle/buffer.hpp>
#include <vram/layer/aligned.hpp>
#include <vram/layer/fallback.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/locked.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/probe/guarded.hpp>
#include <vram/sim/sim.hpp>
#include <vram/staging/copy_batch.hpp>
#include <vram/staging/staging.hpp>
#include <vram/transfer/loader.hpp>
#include <vram/transfer/unloader.hpp>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace catalogue::handles {

GROUP("layers and handles")

PAIR(buffer_used_on_another_stream, use_before_ready,
     "buffer: the memory is allocated on the buffer's stream") {
    sim_async_resource memory;
    sim_stream const   s, t;
    buffer             b{memory, s, 4096};
    if (right) { follows(t, s); }
    MISTAKE(writes(t, {b.data(), 4096}));
    follows(s, t);
}

PAIR(buffer_destroyed_during_a_kernel, free_before_last_use,
     "buffer: the memory is freed on the buffer's stream") {
    sim_async_resource memory;
    sim_stream const   s, t;
    mark_any_line();
    buffer b{memory, s, 4096};
    follows(t, s);
    reads(t, {b.data(), 4096});
    if (right) { follows(s, t); }
}

PAIR(buffer_with_another_stream, free_before_last_use,
     "buffer::set_stream changes the stream, and adds no order") {
    sim_async_resource memory;
    sim_stream const   s, t;
    mark_any_line();
    buffer b{memory, s, 4096};
    writes(s, {b.data(), 4096});
    if (right) { follows(t, s); }
    b.set_stream(t);
}

PAIR(pointer_to_a_destroyed_buffer, use_after_free, "buffer: destroy frees the memory") {
    sim_async_resource memory;
    sim_stream const   s;
    buffer             b{memory, s, 4096};
    void* const        p = b.data();
    if (!right) { b.destroy(); }
    MISTAKE(writes(s, {p, 4096}));
}

PAIR(pointer_from_before_the_resize, use_after_free,
     "buffer: resize copies the contents to a new block if the capacity is too small") {
    sim_async_resource memory;
    sim_stream const   s;
    buffer             b{memory, s, 4096};
    void* const        p = b.data();
    b.resize(right ? 2048 : 8192);
    MISTAKE(writes(s, {p, 2048}));
}

PAIR(buffer_resized_during_a_kernel, free_before_last_use,
     "buffer: resize copies and frees on the buffer's stream") {
    sim_async_resource memory;
    sim_stream const   s, t;
    mark_any_line();
    buffer b{memory, s, 4096};
    follows(t, s);
    reads(t, {b.data(), 4096});
    if (right) { follows(s, t); }
    b.resize(8192);
}

PAIR(assignment_to_a_buffer_in_use, free_before_last_use,
     "buffer: an assignment frees the old memory on the buffer's stream") {
    sim_async_resource memory;
    sim_stream const   s, t;
    mark_any_line();
    buffer b{memory, s, 4096};
    follows(t, s);
    reads(t, {b.data(), 4096});
    if (right) { follows(s, t); }
    b = buffer{memory, s, 4096};
}

PAIR(kernel_past_the_end_of_a_buffer, out_of_bounds, "buffer: size() bytes are usable") {
    sim_async_resource memory;
    sim_stream const   s;
    buffer             b{memory, s, 1000};
    MISTAKE(writes(s, {b.data(), right ? 1000u : 1001u}));
}

PAIR(array_read_before_its_copy_is_complete, race,
     "array: copy_from enqueues a copy on the array's stream") {
    sim_async_resource             memory;
    sim_stream const               s, t;
    std::vector<int> const         host(1024);
    array<int, sim_async_resource> a{memory, s, host.size()};
    follows(t, s);
    a.copy_from(host);
    if (right) { follows(t, s); }
    MISTAKE(reads(t, {a.data(), 4096}));
    follows(s, t);
}

PAIR(result_of_copy_to_read_too_early, race, "array: copy_to enqueues a copy") {
    sim_async_resource             memory;
    sim_stream const               s;
    block const                    host{kind::pinned};
    array<int, sim_async_resource> a{memory, s, 1024};
    a.fill(std::byte{1});
    a.copy_to({static_cast<int*>(host.data()), 1024});
    if (right) { s.synchronize(); }
    MISTAKE(host_reads(host));
}

PAIR(source_of_copy_from_overwritten, race, "array: the source must not change during the copy") {
    sim_async_resource             memory;
    sim_stream const               s;
    block const                    host{kind::pinned};
    array<int, sim_async_resource> a{memory, s, 1024};
    a.copy_from({static_cast<int const*>(host.data()), 1024});
    if (right) { s.synchronize(); }
    MISTAKE(host_writes(host));
}

PAIR(use_after_the_free_through_layers, use_after_free,
     "Layers change nothing about the life of memory") {
    statistics       memory{limiting{sim_async_resource{}, 1_MiB}};
    sim_stream const s;
    void* const      p = memory.allocate(s, 4096);
    if (right) { writes(s, {p, 4096}); }
    memory.deallocate(s, p, 4096);
    if (!right) { MISTAKE(writes(s, {p, 4096})); }
}

PAIR(early_free_through_layers, free_before_last_use,
     "Layers change nothing about the order of a free") {
    locked           memory{statistics{sim_async_resource{}}};
    sim_stream const s, t;
    void* const      p = memory.allocate(s, 4096);
    follows(t, s);
    reads(t, {p, 4096});
    if (right) { follows(s, t); }
    mark_any_line();
    memory.deallocate(s, p, 4096);
}

PAIR(use_before_the_allocation_through_layers, use_before_ready,
     "Layers change nothing about the order of an allocation") {
    limiting         memory{sim_async_resource{}, 1_MiB};
    sim_stream const s, t;
    void* const      p = memory.allocate(s, 4096);
    if (right) { follows(t, s); }
    MISTAKE(writes(t, {p, 4096}));
    follows(s, t);
    memory.deallocate(s, p, 4096);
}

PAIR(double_free_through_guarded, double_free, "guarded: a wrong free is reported") {
    guarded          memory{pool{stream_ordered{sim_resource{}}}};
    sim_stream const s;
    void* const      p = memory.allocate(s, 4096);
    memory.deallocate(s, p, 4096);
    if (!right) { MISTAKE(memory.deallocate(s, p, 4096)); }
    s.synchronize();
}

PAIR(double_free_of_a_block_in_quarantine, double_free, "guarded: a wrong free is reported") {
    guarded          memory{pool{stream_ordered{sim_resource{}}}, {.quarantine = 1_MiB}};
    sim_stream const s;
    void* const      p = memory.allocate(s, 4096);
    memory.deallocate(s, p, 4096);
    if (!right) { MISTAKE(memory.deallocate(s, p, 4096)); }
    s.synchronize();
}

PAIR(other_size_through_guarded, wrong_size, "guarded: a wrong free is reported") {
    guarded          memory{pool{stream_ordered{sim_resource{}}}};
    sim_stream const s;
    void* const      p = memory.allocate(s, 4096);
    if (!right) { MISTAKE(memory.deallocate(s, p, 1024)); }
    memory.deallocate(s, p, 4096);
    s.synchronize();
}

PAIR(second_free_to_the_first_of_two_resources, double_free,
     "fallback: a block is freed by the resource that allocated it, and once") {
    using device = pool<stream_ordered<sim_resource>>;
    fallback         memory{limiting{device{}, 1024}, device{}};
    sim_stream const s;
    void* const      p = memory.allocate(s, 4096);
    memory.deallocate(s, p, 4096);
    if (!right) { MISTAKE(memory.deallocate(s, p, 4096)); }
    s.synchronize();
}

PAIR(leak_through_layers, leak, "Every allocation must be freed") {
    limiting         memory{sim_async_resource{}, 1_MiB};
    sim_stream const s;
    mark_any_line();
    void* const p = memory.allocate(s, 4096);
    if (right) { memory.deallocate(s, p, 4096); }
}

} // namespace catalogue::handles

namespace catalogue::loaders {

GROUP("loader, unloader and staging")

/// A source of `batches` batches of 4096 bytes.
struct numbers {
    std::size_t operator()(std::span<std::byte> to, std::size_t index) const {
        if (index >= batches) { return 0; }
        host_writes({to.data(), to.size()});
        return to.size();
    }
    std::size_t batches;
};

PAIR(batch_used_on_another_stream, race,
     "batch: the loop's stream waits for the copy; record_stream makes another stream wait") {
    sim_stream const s, t;
    for (auto& b : loader{numbers{1}, s, {.batch_bytes = 4096}}) {
        if (right) { b.record_stream(t); }
        MISTAKE(reads(t, {b.data(), b.size()}));
        t.synchronize();
    }
}

PAIR(batch_overwritten_during_a_kernel, race,
     "batch: the loader overwrites the memory after the work of the recorded streams only") {
    sim_stream const s, t;
    mark_any_line();
    for (auto& b : loader{numbers{3}, s, {.batch_bytes = 4096, .depth = 1}}) {
        if (right) {
            b.record_stream(t);
        } else {
            follows(t, s);
        }
        reads(t, {b.data(), b.size()});
        if (b.index() == 2) { t.synchronize(); }
    }
}

PAIR(batch_used_after_its_release, race,
     "batch: after the release the loader overwrites the memory") {
    sim_stream const s;
    mark_any_line();
    int   used = 0;
    void* p    = nullptr;
    for (auto& b : loader{numbers{4}, s, {.batch_bytes = 4096, .depth = 1}}) {
        p = b.data();
        if (!right) { b.release(); }
        reads(s, {p, 4096});
        if (++used == 4) { s.synchronize(); }
    }
}

PAIR(batch_used_after_the_loader, use_after_free, "loader: its memory ends with it") {
    sim_stream const s;
    void*            p = nullptr;
    for (auto& b : loader{numbers{1}, s, {.batch_bytes = 4096}}) {
        p = b.data();
        if (right) { reads(s, {p, 4096}); }
    }
    sim_device{}.synchronize();
    if (!right) { MISTAKE(reads(s, {p, 4096})); }
}

PAIR(host_access_to_a_batch, host_access, "batch: the memory is device memory") {
    sim_stream const s;
    block const      host{kind::pinned};
    for (auto& b : loader{numbers{1}, s, {.batch_bytes = 4096}}) {
        MISTAKE(host_reads(right ? sim_range{host} : sim_range{b.data(), b.size()}));
    }
}

struct ignore {
    void operator()(std::span<std::byte const> r, std::size_t) const {
        host_reads({r.data(), r.size()});
    }
};

PAIR(result_written_on_another_stream, race,
     "unloader: the copy waits for the producer's stream; record_stream adds another stream") {
    sim_stream const s, t;
    mark_any_line();
    unloader out{ignore{}, s, {.batch_bytes = 4096}};
    auto     r = out.next();
    if (right) { r.record_stream(t); }
    writes(t, {r.data(), r.size()});
    r.send();
    out.finish();
    sim_device{}.synchronize();
}

PAIR(result_written_after_it_was_sent, race, "unloader: send ends the writes of a result") {
    sim_stream const s;
    unloader         out{ignore{}, s, {.batch_bytes = 4096}};
    auto             r = out.next();
    void* const      p = r.data();
    if (right) { writes(s, {p, 4096}); }
    r.send();
    if (!right) { MISTAKE(writes(s, {p, 4096})); }
    out.finish();
    sim_device{}.synchronize();
}

PAIR(push_of_a_batch_of_another_stream, race,
     "batch: record_stream makes another stream wait for the copy to the batch") {
    sim_stream const s, t;
    unloader         out{ignore{}, t, {.batch_bytes = 4096}};
    for (auto& b : loader{numbers{1}, s, {.batch_bytes = 4096}}) {
        if (right) { b.record_stream(t); }
        MISTAKE(out.push({b.data(), b.size()}));
        t.synchronize();
    }
    out.finish();
}

PAIR(push_of_memory_in_use, race, "unloader: push reads in the order of the producer's stream") {
    sim_stream const s, t;
    block const      p;
    mark_any_line();
    unloader out{ignore{}, s, {.batch_bytes = 4096}};
    writes(t, p);
    if (right) { follows(s, t); }
    out.push({static_cast<std::byte const*>(p.data()), 4096});
    out.finish();
}

PAIR(pushed_memory_overwritten_on_another_stream, race,
     "unloader: only later work of the producer's stream may overwrite pushed memory") {
    sim_stream const s, t;
    block const      p;
    unloader         out{ignore{}, s, {.batch_bytes = 4096}};
    out.push({static_cast<std::byte const*>(p.data()), 4096});
    if (right) { follows(t, s); }
    MISTAKE(writes(t, p));
    out.finish();
}

PAIR(upload_read_on_another_stream, race, "staging: a call is ordered with its stream") {
    sim_stream const             s, t;
    block const                  p;
    std::vector<std::byte> const host(4096);
    staging                      stage{s};
    stage.upload(s, p.data(), host);
    if (right) { follows(t, s); }
    MISTAKE(reads(t, p));
}

PAIR(upload_to_memory_in_use, race, "staging: a call is ordered with its stream") {
    sim_stream const             s, t;
    block const                  p;
    std::vector<std::byte> const host(4096);
    mark_any_line();
    staging stage{s};
    reads(t, p);
    if (right) { follows(s, t); }
    stage.upload(s, p.data(), host);
}

PAIR(download_before_the_kernel_is_complete, race, "staging: a call is ordered with its stream") {
    constexpr std::size_t  bytes = 8_MiB;
    sim_stream const       s, t;
    block const            p{kind::device, 0, bytes};
    std::vector<std::byte> host(bytes);
    mark_any_line();
    staging stage{s, {.threads = 1}};
    writes(t, p);
    if (right) { follows(s, t); }
    stage.download(s, host, p.data());
}

PAIR(copy_batch_of_a_batch_of_another_stream, race,
     "batch: record_stream makes another stream wait for the copy to the batch") {
    sim_stream const         s, t;
    block const              p, q;
    copy_batch<sim_platform> rows;
    for (auto& b : loader{numbers{1}, s, {.batch_bytes = 8192}}) {
        rows.add(p.data(), b.data(), 4096);
        rows.add(q.data(), b.data() + 4096, 4096);
        if (right) { b.record_stream(t); }
        MISTAKE(rows.run(t));
        t.synchronize();
    }
}

PAIR(upload_past_the_end, out_of_bounds, "staging: the device memory must be large enough") {
    sim_stream const             s;
    block const                  p;
    std::vector<std::byte> const host(right ? 4096 : 4097);
    mark_any_line();
    staging stage{s};
    stage.upload(s, p.data(), host);
    s.synchronize();
}

} // namespace catalogue::loaders
