// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include <vram/handle/resource_ref.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/retrying.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>
#include <vram/pressure/calling.hpp>
#include <vram/sim/sim.hpp>

#include <cstddef>

namespace catalogue::pools {

GROUP("pools")

using any = resource_ref<sim_platform, device_accessible>;

// The programs, each for every resource below. A resource that refuses a free keeps the block.

static void use_after(any memory, bool right) {
    sim_stream const s;
    void* const      p = memory.allocate(s, 4096);
    if (right) { writes(s, {p, 4096}); }
    memory.deallocate(s, p, 4096);
    if (!right) { MISTAKE(writes(s, {p, 4096})); }
    s.synchronize();
}

static void use_after_elsewhere(any memory, bool right) {
    sim_stream const s, t;
    void* const      p = memory.allocate(s, 4096);
    follows(t, s);
    if (right) {
        reads(t, {p, 4096});
        follows(s, t);
    }
    memory.deallocate(s, p, 4096);
    follows(t, s);
    if (!right) { MISTAKE(reads(t, {p, 4096})); }
    sim_device{}.synchronize();
}

static void past_the_end(any memory, bool right) {
    sim_stream const s;
    void* const      p = memory.allocate(s, 4000);
    void* const      q = memory.allocate(s, 4000);
    MISTAKE(writes(s, {p, right ? 4000u : 4001u}));
    memory.deallocate(s, p, 4000);
    memory.deallocate(s, q, 4000);
    s.synchronize();
}

static void freed_early(any memory, bool right) {
    sim_stream const s, t;
    void* const      p = memory.allocate(s, 4096);
    follows(t, s);
    reads(t, {p, 4096});
    if (right) { follows(s, t); }
    MISTAKE(memory.deallocate(s, p, 4096));
    sim_device{}.synchronize();
}

static void used_elsewhere(any memory, bool right) {
    sim_stream const s, t;
    void* const      old = memory.allocate(s, 4096); // so that the next block is one that s used
    writes(s, {old, 4096});
    memory.deallocate(s, old, 4096);
    void* const p = memory.allocate(s, 4096);
    if (right) { follows(t, s); }
    MISTAKE(writes(t, {p, 4096}));
    follows(s, t);
    memory.deallocate(s, p, 4096);
    s.synchronize();
}

static void freed_twice(any memory, bool right) {
    sim_stream const s;
    void* const      p = memory.allocate(s, 4096);
    memory.deallocate(s, p, 4096);
    if (!right) { MISTAKE(memory.deallocate(s, p, 4096)); }
}

static void inner_pointer(any memory, bool right, bool kept = true) {
    sim_stream const s;
    auto* const      p = static_cast<std::byte*>(memory.allocate(s, 4096));
    if (!right) { MISTAKE(memory.deallocate(s, p + 1024, 1024)); }
    if (right || kept) { memory.deallocate(s, p, 4096); }
}

static void other_size(any memory, bool right, bool kept = true) {
    sim_stream const s;
    void* const      p = memory.allocate(s, 4096);
    MISTAKE(memory.deallocate(s, p, right ? 4096 : 1024));
    if (!right && kept) { memory.deallocate(s, p, 4096); }
}

// stream ordered

PAIR(stream_ordered_block_used_after_the_free, use_after_free,
     "vram: a freed block is no longer its former user's") {
    stream_ordered memory{sim_resource{}};
    use_after(memory, right);
}

PAIR(stream_ordered_block_used_after_the_free_on_another_stream, use_after_free,
     "vram: a freed block is no longer its former user's") {
    stream_ordered memory{sim_resource{}};
    use_after_elsewhere(memory, right);
}

PAIR(stream_ordered_block_past_the_end, out_of_bounds,
     "vram: an access must be inside a block, even if another block follows") {
    stream_ordered memory{sim_resource{}};
    past_the_end(memory, right);
}

PAIR(stream_ordered_block_freed_too_early, free_before_last_use,
     "vram: the stream of the free must follow every use") {
    stream_ordered memory{sim_resource{}};
    freed_early(memory, right);
}

PAIR(stream_ordered_block_double_free, double_free, "vram: a block is freed once") {
    stream_ordered memory{sim_resource{}};
    freed_twice(memory, right);
}

PAIR(stream_ordered_block_other_size, wrong_size, "vram: a free has the size of the allocation") {
    stream_ordered memory{sim_resource{}};
    other_size(memory, right, false);
}

// pool

PAIR(pool_block_used_after_the_free, use_after_free,
     "vram: a freed block is no longer its former user's") {
    pool memory{stream_ordered{sim_resource{}}};
    use_after(memory, right);
}

PAIR(pool_block_used_after_the_free_on_another_stream, use_after_free,
     "vram: a freed block is no longer its former user's") {
    pool memory{stream_ordered{sim_resource{}}};
    use_after_elsewhere(memory, right);
}

PAIR(pool_block_past_the_end, out_of_bounds,
     "vram: an access must be inside a block, even if another block follows") {
    pool memory{stream_ordered{sim_resource{}}};
    past_the_end(memory, right);
}

PAIR(pool_block_freed_too_early, free_before_last_use,
     "vram: the stream of the free must follow every use") {
    pool memory{stream_ordered{sim_resource{}}};
    freed_early(memory, right);
}

PAIR(pool_block_used_on_another_stream, use_before_ready,
     "vram: another stream may use a block only after an event") {
    pool memory{stream_ordered{sim_resource{}}};
    used_elsewhere(memory, right);
}

PAIR(pool_block_double_free, double_free, "vram: a block is freed once") {
    pool memory{stream_ordered{sim_resource{}}};
    freed_twice(memory, right);
}

PAIR(pool_block_inner_pointer, foreign_free, "vram: a free needs the pointer that was allocated") {
    pool memory{stream_ordered{sim_resource{}}};
    inner_pointer(memory, right);
}

PAIR(pool_block_other_size, wrong_size, "vram: a free has the size of the allocation") {
    pool memory{stream_ordered{sim_resource{}}};
    other_size(memory, right);
}

// arena

PAIR(arena_block_used_after_the_free, use_after_free,
     "vram: a freed block is no longer its former user's") {
    arena memory{stream_ordered{sim_resource{}}, {.key = arena_key::stream}};
    use_after(memory, right);
}

PAIR(arena_block_used_after_the_free_on_another_stream, use_after_free,
     "vram: a freed block is no longer its former user's") {
    arena memory{stream_ordered{sim_resource{}}, {.key = arena_key::stream}};
    use_after_elsewhere(memory, right);
}

PAIR(arena_block_past_the_end, out_of_bounds,
     "vram: an access must be inside a block, even if another block follows") {
    arena memory{stream_ordered{sim_resource{}}, {.key = arena_key::stream}};
    past_the_end(memory, right);
}

PAIR(arena_block_freed_too_early, free_before_last_use,
     "vram: the stream of the free must follow every use") {
    arena memory{stream_ordered{sim_resource{}}, {.key = arena_key::stream}};
    freed_early(memory, right);
}

PAIR(arena_block_used_on_another_stream, use_before_ready,
     "vram: another stream may use a block only after an event") {
    arena memory{stream_ordered{sim_resource{}}, {.key = arena_key::stream}};
    used_elsewhere(memory, right);
}

PAIR(arena_block_double_free, double_free, "vram: a block is freed once") {
    arena memory{stream_ordered{sim_resource{}}, {.key = arena_key::stream}};
    freed_twice(memory, right);
}

PAIR(arena_block_inner_pointer, foreign_free, "vram: a free needs the pointer that was allocated") {
    arena memory{stream_ordered{sim_resource{}}, {.key = arena_key::stream}};
    inner_pointer(memory, right);
}

PAIR(arena_block_other_size, wrong_size, "vram: a free has the size of the allocation") {
    arena memory{stream_ordered{sim_resource{}}, {.key = arena_key::stream}};
    other_size(memory, right);
}

// slab

PAIR(slab_block_used_after_the_free, use_after_free,
     "vram: a freed block is no longer its former user's") {
    slab memory{stream_ordered{sim_resource{}}, 4096};
    use_after(memory, right);
}

PAIR(slab_block_used_after_the_free_on_another_stream, use_after_free,
     "vram: a freed block is no longer its former user's") {
    slab memory{stream_ordered{sim_resource{}}, 4096};
    use_after_elsewhere(memory, right);
}

PAIR(slab_block_past_the_end, out_of_bounds,
     "vram: an access must be inside a block, even if another block follows") {
    slab memory{stream_ordered{sim_resource{}}, 4096};
    past_the_end(memory, right);
}

PAIR(slab_block_freed_too_early, free_before_last_use,
     "vram: the stream of the free must follow every use") {
    slab memory{stream_ordered{sim_resource{}}, 4096};
    freed_early(memory, right);
}

PAIR(slab_block_used_on_another_stream, use_before_ready,
     "vram: another stream may use a block only after an event") {
    slab memory{stream_ordered{sim_resource{}}, 4096};
    used_elsewhere(memory, right);
}

PAIR(slab_block_double_free, double_free, "vram: a block is freed once") {
    slab memory{stream_ordered{sim_resource{}}, 4096};
    freed_twice(memory, right);
}

PAIR(slab_block_inner_pointer, foreign_free, "vram: a free needs the pointer that was allocated") {
    slab memory{stream_ordered{sim_resource{}}, 4096};
    inner_pointer(memory, right);
}

PAIR(slab_block_other_size, wrong_size, "vram: a free has the size of the allocation") {
    slab memory{stream_ordered{sim_resource{}}, 4096};
    other_size(memory, right);
}

// binned

PAIR(binned_block_used_after_the_free, use_after_free,
     "vram: a freed block is no longer its former user's") {
    binned memory{stream_ordered{sim_resource{}}};
    use_after(memory, right);
}

PAIR(binned_block_used_after_the_free_on_another_stream, use_after_free,
     "vram: a freed block is no longer its former user's") {
    binned memory{stream_ordered{sim_resource{}}};
    use_after_elsewhere(memory, right);
}

PAIR(binned_block_past_the_end, out_of_bounds,
     "vram: an access must be inside a block, even if another block follows") {
    binned memory{stream_ordered{sim_resource{}}};
    past_the_end(memory, right);
}

PAIR(binned_block_freed_too_early, free_before_last_use,
     "vram: the stream of the free must follow every use") {
    binned memory{stream_ordered{sim_resource{}}};
    freed_early(memory, right);
}

PAIR(binned_block_used_on_another_stream, use_before_ready,
     "vram: another stream may use a block only after an event") {
    binned memory{stream_ordered{sim_resource{}}};
    used_elsewhere(memory, right);
}

PAIR(binned_block_double_free, double_free, "vram: a block is freed once") {
    binned memory{stream_ordered{sim_resource{}}};
    freed_twice(memory, right);
}

PAIR(binned_block_inner_pointer, foreign_free,
     "vram: a free needs the pointer that was allocated") {
    binned memory{stream_ordered{sim_resource{}}};
    inner_pointer(memory, right);
}

PAIR(binned_block_other_size, wrong_size, "vram: a free has the size of the allocation") {
    binned memory{stream_ordered{sim_resource{}}};
    other_size(memory, right);
}

// monotonic

PAIR(monotonic_block_used_after_the_free, use_after_free,
     "vram: a freed block is no longer its former user's") {
    monotonic memory{stream_ordered{sim_resource{}}};
    use_after(memory, right);
}

PAIR(monotonic_block_used_after_the_free_on_another_stream, use_after_free,
     "vram: a freed block is no longer its former user's") {
    monotonic memory{stream_ordered{sim_resource{}}};
    use_after_elsewhere(memory, right);
}

PAIR(monotonic_block_past_the_end, out_of_bounds,
     "vram: an access must be inside a block, even if another block follows") {
    monotonic memory{stream_ordered{sim_resource{}}};
    past_the_end(memory, right);
}

PAIR(monotonic_block_freed_too_early, free_before_last_use,
     "vram: the stream of the free must follow every use") {
    monotonic memory{stream_ordered{sim_resource{}}};
    freed_early(memory, right);
}

PAIR(monotonic_block_used_on_another_stream, use_before_ready,
     "vram: another stream may use a block only after an event") {
    monotonic memory{stream_ordered{sim_resource{}}};
    used_elsewhere(memory, right);
}

PAIR(monotonic_block_double_free, double_free, "vram: a block is freed once") {
    monotonic memory{stream_ordered{sim_resource{}}};
    freed_twice(memory, right);
}

PAIR(monotonic_block_inner_pointer, not_checked(foreign_free),
     "vram: a free needs the pointer that was allocated") {
    monotonic memory{stream_ordered{sim_resource{}}};
    inner_pointer(memory, right, false);
}

PAIR(monotonic_block_other_size, not_checked(wrong_size),
     "vram: a free has the size of the allocation") {
    monotonic memory{stream_ordered{sim_resource{}}};
    other_size(memory, right, false);
}

// virtual pool

PAIR(virtual_pool_block_used_after_the_free, use_after_free,
     "vram: a freed block is no longer its former user's", .page = 64_KiB) {
    pool memory{sim_virtual_resource{{.handle_size = 64_KiB}}};
    use_after(memory, right);
}

PAIR(virtual_pool_block_used_after_the_free_on_another_stream, use_after_free,
     "vram: a freed block is no longer its former user's", .page = 64_KiB) {
    pool memory{sim_virtual_resource{{.handle_size = 64_KiB}}};
    use_after_elsewhere(memory, right);
}

PAIR(virtual_pool_block_past_the_end, out_of_bounds,
     "vram: an access must be inside a block, even if another block follows", .page = 64_KiB) {
    pool memory{sim_virtual_resource{{.handle_size = 64_KiB}}};
    past_the_end(memory, right);
}

PAIR(virtual_pool_block_freed_too_early, free_before_last_use,
     "vram: the stream of the free must follow every use", .page = 64_KiB) {
    pool memory{sim_virtual_resource{{.handle_size = 64_KiB}}};
    freed_early(memory, right);
}

PAIR(virtual_pool_block_used_on_another_stream, use_before_ready,
     "vram: another stream may use a block only after an event", .page = 64_KiB) {
    pool memory{sim_virtual_resource{{.handle_size = 64_KiB}}};
    used_elsewhere(memory, right);
}

PAIR(virtual_pool_block_double_free, double_free, "vram: a block is freed once", .page = 64_KiB) {
    pool memory{sim_virtual_resource{{.handle_size = 64_KiB}}};
    freed_twice(memory, right);
}

PAIR(virtual_pool_block_inner_pointer, foreign_free,
     "vram: a free needs the pointer that was allocated", .page = 64_KiB) {
    pool memory{sim_virtual_resource{{.handle_size = 64_KiB}}};
    inner_pointer(memory, right);
}

PAIR(virtual_pool_block_other_size, wrong_size, "vram: a free has the size of the allocation",
     .page = 64_KiB) {
    pool memory{sim_virtual_resource{{.handle_size = 64_KiB}}};
    other_size(memory, right);
}

// arena over a pool

PAIR(arena_over_a_pool_block_used_after_the_free, use_after_free,
     "vram: a freed block is no longer its former user's") {
    arena memory{pool{stream_ordered{sim_resource{}}}};
    use_after(memory, right);
}

PAIR(arena_over_a_pool_block_used_after_the_free_on_another_stream, use_after_free,
     "vram: a freed block is no longer its former user's") {
    arena memory{pool{stream_ordered{sim_resource{}}}};
    use_after_elsewhere(memory, right);
}

PAIR(arena_over_a_pool_block_past_the_end, out_of_bounds,
     "vram: an access must be inside a block, even if another block follows") {
    arena memory{pool{stream_ordered{sim_resource{}}}};
    past_the_end(memory, right);
}

PAIR(arena_over_a_pool_block_freed_too_early, free_before_last_use,
     "vram: the stream of the free must follow every use") {
    arena memory{pool{stream_ordered{sim_resource{}}}};
    freed_early(memory, right);
}

PAIR(arena_over_a_pool_block_used_on_another_stream, use_before_ready,
     "vram: another stream may use a block only after an event") {
    arena memory{pool{stream_ordered{sim_resource{}}}};
    used_elsewhere(memory, right);
}

PAIR(arena_over_a_pool_block_double_free, double_free, "vram: a block is freed once") {
    arena memory{pool{stream_ordered{sim_resource{}}}};
    freed_twice(memory, right);
}

PAIR(arena_over_a_pool_block_inner_pointer, foreign_free,
     "vram: a free needs the pointer that was allocated") {
    arena memory{pool{stream_ordered{sim_resource{}}}};
    inner_pointer(memory, right);
}

PAIR(arena_over_a_pool_block_other_size, wrong_size,
     "vram: a free has the size of the allocation") {
    arena memory{pool{stream_ordered{sim_resource{}}}};
    other_size(memory, right);
}

// layers over a pool

PAIR(layers_over_a_pool_block_used_after_the_free, use_after_free,
     "vram: a freed block is no longer its former user's") {
    statistics memory{limiting{pool{stream_ordered{sim_resource{}}}, 64_MiB}};
    use_after(memory, right);
}

PAIR(layers_over_a_pool_block_used_after_the_free_on_another_stream, use_after_free,
     "vram: a freed block is no longer its former user's") {
    statistics memory{limiting{pool{stream_ordered{sim_resource{}}}, 64_MiB}};
    use_after_elsewhere(memory, right);
}

PAIR(layers_over_a_pool_block_past_the_end, out_of_bounds,
     "vram: an access must be inside a block, even if another block follows") {
    statistics memory{limiting{pool{stream_ordered{sim_resource{}}}, 64_MiB}};
    past_the_end(memory, right);
}

PAIR(layers_over_a_pool_block_freed_too_early, free_before_last_use,
     "vram: the stream of the free must follow every use") {
    statistics memory{limiting{pool{stream_ordered{sim_resource{}}}, 64_MiB}};
    freed_early(memory, right);
}

PAIR(layers_over_a_pool_block_used_on_another_stream, use_before_ready,
     "vram: another stream may use a block only after an event") {
    statistics memory{limiting{pool{stream_ordered{sim_resource{}}}, 64_MiB}};
    used_elsewhere(memory, right);
}

PAIR(layers_over_a_pool_block_double_free, double_free, "vram: a block is freed once") {
    statistics memory{limiting{pool{stream_ordered{sim_resource{}}}, 64_MiB}};
    freed_twice(memory, right);
}

PAIR(layers_over_a_pool_block_inner_pointer, foreign_free,
     "vram: a free needs the pointer that was allocated") {
    statistics memory{limiting{pool{stream_ordered{sim_resource{}}}, 64_MiB}};
    inner_pointer(memory, right);
}

PAIR(layers_over_a_pool_block_other_size, wrong_size,
     "vram: a free has the size of the allocation") {
    statistics memory{limiting{pool{stream_ordered{sim_resource{}}}, 64_MiB}};
    other_size(memory, right);
}

PAIR(wait_of_the_pool_is_no_wait_of_the_program, race,
     "vram: a pool orders its own reuse of memory, not the accesses of the program") {
    pool             memory{stream_ordered{sim_resource{}}, {.max_size = 2_MiB}};
    sim_stream const s, t;
    block const      q;
    void* const      p = memory.allocate(s, 2_MiB);
    writes(s, {p, 4096});
    writes(s, q);
    memory.deallocate(s, p, 2_MiB);
    if (right) { follows(t, s); }
    void* const r = memory.allocate(t, 2_MiB); // the pool makes t wait for s
    MISTAKE(reads(t, q));
    memory.deallocate(t, r, 2_MiB);
    sim_device{}.synchronize();
}

PAIR(host_access_to_a_block, host_access, "The host cannot dereference device memory") {
    pool             memory{stream_ordered{sim_resource{}}};
    block const      q{kind::pinned};
    sim_stream const s;
    void* const      p = memory.allocate(s, 4096);
    s.synchronize();
    MISTAKE(host_reads(right ? sim_range{q} : sim_range{p, 4096}));
    memory.deallocate(s, p, 4096);
}

PAIR(old_user_of_a_reused_block, use_before_ready,
     "vram: a block may be used on its stream, and on others only after an event") {
    pool             memory{stream_ordered{sim_resource{}}};
    sim_stream const s, t;
    void* const      p = memory.allocate(s, 4096);
    follows(t, s);
    if (right) { reads(t, {p, 4096}); }
    follows(s, t);
    memory.deallocate(s, p, 4096);
    void* const q = memory.allocate(s, 4096);
    CHECK(q == p);
    if (!right) { MISTAKE(reads(t, {p, 4096})); }
    sim_device{}.synchronize();
    memory.deallocate(s, q, 4096);
}

PAIR(free_to_another_pool, foreign_free, "vram: a block is freed to the pool that allocated it") {
    pool             memory{stream_ordered{sim_resource{}}}, other{stream_ordered{sim_resource{}}};
    sim_stream const s;
    void* const      p = memory.allocate(s, 4096);
    if (!right) { MISTAKE(other.deallocate(s, p, 4096)); }
    memory.deallocate(s, p, 4096);
}

PAIR(block_freed_again_after_a_trim, double_free, "vram: a block is freed once") {
    pool             memory{stream_ordered{sim_resource{}}};
    sim_stream const s;
    void* const      p = memory.allocate(s, 4096);
    memory.deallocate(s, p, 4096);
    s.synchronize();
    memory.trim(0); // the pool no longer knows the block
    if (!right) { MISTAKE(memory.deallocate(s, p, 4096)); }
}

PAIR(pool_block_of_another_device, peer_access,
     "cudaMemPoolSetAccess: a kernel of another device needs access to the memory", .devices = 2) {
    sim_async_resource upstream{sim_device{0}};
    if (right) { upstream.allow_access(sim_device{1}); }
    pool             memory{upstream};
    sim_stream const s = stream_of(0), t = stream_of(1);
    void* const      p = memory.allocate(s, 4096);
    follows(t, s);
    MISTAKE(reads(t, {p, 4096}));
    follows(s, t);
    memory.deallocate(s, p, 4096);
    sim_device{0}.synchronize();
}

PAIR(block_used_after_the_reset, use_after_free, "monotonic: reset frees all blocks") {
    monotonic        memory{stream_ordered{sim_resource{}}};
    sim_stream const s;
    void* const      p = memory.allocate(s, 4096);
    if (right) { writes(s, {p, 4096}); }
    memory.reset(s);
    if (!right) { MISTAKE(writes(s, {p, 4096})); }
    s.synchronize();
}

PAIR(reset_before_the_last_use, free_before_last_use,
     "monotonic: the stream that unwinds must be ordered after all other uses") {
    monotonic        memory{stream_ordered{sim_resource{}}};
    sim_stream const s, t;
    void* const      p = memory.allocate(s, 4096);
    follows(t, s);
    reads(t, {p, 4096});
    if (right) { follows(s, t); }
    MISTAKE(memory.reset(s));
    sim_device{}.synchronize();
}

PAIR(block_used_after_the_end_of_the_pool, use_after_free, "vram: a pool returns its memory") {
    sim_stream const s;
    void*            p = nullptr;
    {
        pool memory{stream_ordered{sim_resource{}}};
        p = memory.allocate(s, 4096);
        if (right) { writes(s, {p, 4096}); }
        memory.deallocate(s, p, 4096);
    }
    if (!right) { MISTAKE(writes(s, {p, 4096})); }
}

// pools and the legacy default stream

static void reused_on_legacy(any memory, bool right) {
    sim_stream const s = blocking_stream(), t = blocking_stream();
    void* const      old = memory.allocate(legacy(), 4096);
    writes(legacy(), {old, 4096});
    reads(s, {old, 4096});
    memory.deallocate(legacy(), old, 4096);
    // The pool makes no call of the device, so the legacy stream does not wait for `s` yet.
    void* const p = memory.allocate(legacy(), 4096);
    if (right) { writes(legacy(), {p, 4096}); }
    MISTAKE(writes(t, {p, 4096}));
    memory.deallocate(legacy(), p, 4096);
    sim_device{}.synchronize();
}

PAIR(pool_block_of_the_legacy_stream_on_a_blocking_stream, use_before_ready,
     "vram: an allocation from a pool is no work, so blocking streams do not wait for it") {
    pool memory{stream_ordered{sim_resource{}}};
    reused_on_legacy(memory, right);
}

PAIR(virtual_pool_block_of_the_legacy_stream_on_a_blocking_stream, use_before_ready,
     "vram: an allocation from a pool is no work, so blocking streams do not wait for it") {
    pool memory{sim_virtual_resource{}};
    reused_on_legacy(memory, right);
}

PAIR(slab_block_of_the_legacy_stream_on_a_blocking_stream, use_before_ready,
     "vram: an allocation from a pool is no work, so blocking streams do not wait for it") {
    slab memory{stream_ordered{sim_resource{}}, 4096};
    reused_on_legacy(memory, right);
}

PAIR(pool_block_of_the_legacy_stream_after_its_earlier_work, use_before_ready,
     "vram: an allocation from a pool happens before the next work of its stream") {
    pool             memory{stream_ordered{sim_resource{}}};
    block const      q;
    sim_stream const t = blocking_stream();
    if (!right) { writes(legacy(), q); }
    void* const p = memory.allocate(legacy(), 4096);
    if (right) { writes(legacy(), q); }
    MISTAKE(writes(t, {p, 4096}));
    memory.deallocate(legacy(), p, 4096);
    sim_device{}.synchronize();
}

PAIR(pool_block_of_the_legacy_stream_on_another_one, use_before_ready,
     "vram: another stream may use a block only after an event") {
    pool             memory{stream_ordered{sim_resource{}}};
    sim_stream const t;
    void* const      p = memory.allocate(legacy(), 4096);
    if (right) { follows(t, legacy()); }
    MISTAKE(writes(t, {p, 4096}));
    follows(legacy(), t);
    memory.deallocate(legacy(), p, 4096);
    sim_device{}.synchronize();
}

PAIR(pool_block_of_the_legacy_stream_on_the_host, use_before_ready,
     "vram: the host may use a block after it has waited for the stream of the allocation") {
    pool        memory{stream_ordered{sim_pinned_resource{}}};
    void* const p = memory.allocate(legacy(), 4096);
    if (right) { legacy().synchronize(); }
    MISTAKE(host_writes({p, 4096}));
    memory.deallocate(legacy(), p, 4096);
}

// blocks of captured graphs

static void captured_and_freed_outside(any memory, bool right) {
    sim_stream const s;
    sim_graph::begin(s);
    void* const p = memory.allocate(s, 4096);
    MISTAKE(writes(s, {p, 4096}));
    sim_graph const graph = sim_graph::end(s);
    graph.launch(s);
    if (right) { graph.launch(s); }
    memory.deallocate(s, p, 4096);
    if (!right) { graph.launch(s); }
    sim_device{}.synchronize();
}

PAIR(pool_block_of_a_graph_freed_before_a_launch, use_after_free,
     "vram: a block that is freed outside of a capture may be allocated again at once") {
    pool memory{stream_ordered{sim_resource{}}, {.graphs = true}};
    captured_and_freed_outside(memory, right);
}

PAIR(slab_block_of_a_graph_freed_before_a_launch, use_after_free,
     "vram: a block that is freed outside of a capture may be allocated again at once") {
    slab memory{stream_ordered{sim_resource{}}, 4096, {.graphs = true}};
    captured_and_freed_outside(memory, right);
}

PAIR(pool_block_of_a_graph_freed_during_the_launch, free_before_last_use,
     "vram: the stream of the free must follow every use, also by a graph") {
    pool             memory{stream_ordered{sim_resource{}}, {.graphs = true}};
    sim_stream const s, t;
    sim_graph::begin(s);
    void* const p = memory.allocate(s, 4096);
    writes(s, {p, 4096});
    sim_graph const graph = sim_graph::end(s);
    graph.launch(s);
    if (right) { follows(t, s); }
    MISTAKE(memory.deallocate(t, p, 4096));
    sim_device{}.synchronize();
}

static void freed_in_a_capture(any memory, bool right) {
    sim_stream const s;
    void* const      p = memory.allocate(s, 4096);
    writes(s, {p, 4096});
    sim_graph::begin(s);
    reads(s, {p, 4096});
    memory.deallocate(s, p, 4096);
    sim_graph const graph = sim_graph::end(s);
    graph.launch(s);
    if (!right) { MISTAKE(writes(s, {p, 4096})); }
    graph.launch(s);
    sim_device{}.synchronize();
}

PAIR(pool_block_freed_in_a_capture, use_after_free,
     "vram: after a free in a capture, only the graph may use the block") {
    pool memory{stream_ordered{sim_resource{}}, {.graphs = true}};
    freed_in_a_capture(memory, right);
}

PAIR(arena_block_freed_in_a_capture, use_after_free,
     "vram: after a free in a capture, only the graph may use the block") {
    arena memory{stream_ordered{sim_resource{}}, {.key = arena_key::stream, .graphs = true}};
    freed_in_a_capture(memory, right);
}

PAIR(stream_ordered_block_freed_in_a_capture, use_after_free,
     "vram: after a free in a capture, only the graph may use the block") {
    stream_ordered memory{sim_resource{}};
    freed_in_a_capture(memory, right);
}

PAIR(pool_block_of_a_graph_used_by_a_kernel, use_after_free,
     "vram: after a free in a capture, only the graph may use the block") {
    pool             memory{stream_ordered{sim_resource{}}, {.graphs = true}};
    sim_stream const s;
    sim_graph::begin(s);
    void* const p = memory.allocate(s, 4096);
    writes(s, {p, 4096});
    if (!right) { memory.deallocate(s, p, 4096); }
    sim_graph const graph = sim_graph::end(s);
    graph.launch(s);
    MISTAKE(reads(s, {p, 4096}));
    if (right) { memory.deallocate(s, p, 4096); }
    sim_device{}.synchronize();
}

PAIR(monotonic_block_of_a_graph_used_after_its_free, use_after_free,
     "vram: monotonic keeps the memory of a freed block for graphs, and for nothing else") {
    monotonic        memory{stream_ordered{sim_resource{}}};
    sim_stream const s;
    sim_graph::begin(s);
    void* const p = memory.allocate(s, 4096);
    writes(s, {p, 4096});
    sim_graph const graph = sim_graph::end(s);
    graph.launch(s);
    memory.deallocate(s, p, 4096);
    graph.launch(s);
    if (!right) { MISTAKE(reads(s, {p, 4096})); }
    sim_device{}.synchronize();
}

PAIR(pool_block_that_two_graphs_share, use_after_free,
     "vram: memory that a graph retains is kept after a free outside of a capture") {
    pool             memory{stream_ordered{sim_resource{}}, {.graphs = true}};
    sim_stream const s;
    sim_graph::begin(s);
    void* const p = memory.allocate(s, 4096);
    writes(s, {p, 4096});
    memory.deallocate(s, p, 4096);
    sim_graph const first = sim_graph::end(s);
    sim_graph::begin(s);
    void* const q = memory.allocate(s, 4096); // the memory of `p`
    writes(s, {q, 4096});
    sim_graph const second = sim_graph::end(s);
    second.launch(s);
    memory.deallocate(s, q, 4096);
    first.launch(s);
    if (!right) { MISTAKE(reads(s, {q, 4096})); }
    sim_device{}.synchronize();
}

// calls of the program within a call of a pool

PAIR(order_that_a_retry_policy_makes, race,
     "vram: a wait by a retry policy is a wait of the program, also within a call of a pool") {
    block const      p;
    sim_stream const s, t;
    pool             memory{retrying{limiting{stream_ordered{sim_resource{}}, 1_MiB},
                         calling{[&](failed_attempt const&) {
                             if (right) { follows(t, s); }
                             return false;
                         }}}};
    writes(s, p);
    static_cast<void>(memory.try_allocate(s, 4_MiB));
    MISTAKE(reads(t, p));
}

} // namespace catalogue::pools
