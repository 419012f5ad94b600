// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_heap` allocates and frees simulated memory.

#include <vram/base/align.hpp> // saturating_add, unsatisfiable
#include <vram/sim/machine/sim_find_freed.hpp>
#include <vram/sim/machine/sim_pool.hpp>
#include <vram/sim/machine/sim_queue.hpp> // sim_queue, sim_call
#include <vram/sim/machine/sim_wait.hpp>

#include <algorithm> // max, min
#include <cstddef>
#include <cstdint>
#include <memory> // shared_ptr
#include <new>    // bad_alloc
#include <string> // to_string
#include <utility>

namespace vram {
namespace detail {

/// Allocates or frees memory within one call of the simulated device, with the checks and
/// statistics.
///
/// Failure   A refused allocation returns null. Members throw `sim_error` if the call is illegal.
/// Threads   The calling thread holds the machine's lock.
class sim_heap {
public:
    explicit sim_heap(sim_call& call) : call_{call}, m_{call.machine} {}

    /// Allocates memory without stream order: all work that is ordered after this call may use it.
    /// Returns null if the allocation is refused.
    void* allocate(sim_kind kind, int device, std::size_t bytes, std::size_t alignment) {
        call_.unsafe();
        std::size_t const counted = round(bytes);
        sim_device_state& d       = m_.at(device);
        bool const        counts  = kind == sim_kind::device;
        if (d.lost) { call_.admit(); }
        if (refused() || counted > (counts ? d.free() : host_room(kind))) {
            return refuse(device, bytes);
        }
        sim_block* const block = m_.memory.space(kind, device).insert(bytes, alignment);
        if (block == nullptr) { return refuse(device, bytes); }
        block->kind   = kind;
        block->device = device;
        remember(*block, call_.host_step("allocate"));
        start(*block, counts ? counted : 0);
        if (counts) { pay_direct(device, counted, true); }
        if (kind == sim_kind::pinned) { call_.pay(m_.options.costs.pin, bytes); }
        if (!counts) { host_used(kind) += counted; }
        return reinterpret_cast<void*>(block->begin);
    }

    /// Frees a block after a wait for all work of the device, like cudaFree. Race checks ignore
    /// this wait: all uses must happen before the call. Returns false if `p` is not a live block.
    bool free(sim_kind kind, int device, void* p, std::size_t bytes) {
        sim_event_of const step  = call_.host_step("free");
        sim_block* const   block = sim_find_freed(m_, kind, device, p, bytes, step);
        if (block == nullptr) { return false; }
        m_.checker.released(*block, step, call_.host->vclock, in_resource_call());
        block->freed = block->busy = true;
        sim_wait{call_}.wait_idle(device);
        if (kind == sim_kind::device) { pay_direct(device, block->counted, false); }
        if (kind == sim_kind::pinned) { call_.pay(m_.options.costs.unpin, block->bytes); }
        m_.at(device).used -= block->counted;
        if (kind != sim_kind::device) { host_used(kind) -= round(block->bytes); }
        end(*block); // may erase the record `*block`, which must not be used after this
        return true;
    }

    /// Reserves memory of the device for `pool`. Returns false if that is refused.
    bool reserve(sim_pool& pool, std::size_t bytes) {
        std::size_t const counted = round(bytes);
        if (m_.at(pool.device).lost) { call_.admit(); }
        if (refused() || counted > allowed(pool)) { return refuse(pool.device, bytes) != nullptr; }
        grow(pool, counted);
        return true;
    }

    /// Allocates memory from `pool` in the order of the stream `s`. Returns null if the allocation
    /// is refused.
    void* allocate(sim_pool& pool, sim_stream_state& s, std::size_t bytes, std::size_t alignment) {
        std::size_t const counted = round(bytes);
        if (m_.at(pool.device).lost) { call_.admit(); }
        if (refused()) { return refuse(pool.device, bytes); }
        call_.pay(m_.options.costs.allocate_async, counted);
        if (s.capture) { return allocate_captured(pool, s, bytes, alignment); }
        sim_queue{call_}.begin_action(s);
        if (!make_room(pool, s, counted)) { return refuse(pool.device, bytes); }
        surplus const    back{m_, pool};
        sim_block* const block =
            m_.memory.space(sim_kind::device_async, pool.device).insert(bytes, alignment);
        if (block == nullptr) { return refuse(pool.device, bytes); }
        block->kind       = sim_kind::device_async;
        block->device     = pool.device;
        block->pool       = &pool;
        block->pool_peers = pool.peers;
        remember(*block, stream_step("allocate", s));
        start(*block, counted);
        pool.live += counted;
        pool.peak_live = std::max(pool.peak_live, pool.live);
        return reinterpret_cast<void*>(block->begin);
    }

    /// Frees a block in the order of the stream `s`. Returns false if `p` is not a live block of
    /// `pool`.
    bool free(std::shared_ptr<sim_pool> const& pool, sim_stream_state& s, void* p,
              std::size_t bytes) {
        call_.pay(m_.options.costs.free_async, bytes);
        if (s.capture) { return free_in_capture(*pool, s, p, bytes); }
        sim_queue{call_}.begin_action(s);
        sim_event_of const step = stream_step("free", s);
        sim_block* const   block =
            sim_find_freed(m_, sim_kind::device_async, pool->device, p, bytes, step, pool.get());
        if (block == nullptr) { return false; }
        m_.checker.released(*block, step, s.vclock, in_resource_call());
        std::uint64_t const ticket = ++pool->tickets;
        block->freed = block->busy = true;
        if (!block->outlives || std::exchange(block->counted_live, false)) {
            pool->live -= block->counted;
        }
        try {
            pool->add({{}, s.vclock, s.slot, s.count, block->counted, ticket});
            sim_operation* const op = sim_queue{call_}.enqueue(
                s,
                {.name      = "free",
                 .device    = s.device,
                 .completed = [m = &m_, pool, block,
                               ticket] { complete_free(*m, *pool, *block, ticket); },
                 .where     = call_.where},
                true);
            pool->pending.find(ticket)->second.place = {op, op->number};
        } catch (std::bad_alloc const&) {
            sim_wait{call_}.await(s.tail);
            complete_free(m_, *pool, *block, ticket);
        }
        return true;
    }

    /// Returns unused memory of `pool` to the device, but leaves at least `keep` bytes reserved.
    /// Returns the number of bytes that the device got.
    static std::size_t trim(sim_machine& m, sim_pool& pool, std::size_t keep) {
        std::size_t const needed = std::max(keep, pool.live + pool.pending_bytes);
        std::size_t const gone   = pool.reserved > needed ? pool.reserved - needed : 0;
        pool.reserved -= gone;
        m.at(pool.device).used -= gone;
        return gone;
    }

    /// Called when a pool ends: returns its unused memory to the device now. Blocks that are freed
    /// later return theirs at that time.
    static void retire(sim_machine& m, sim_pool& pool) {
        pool.threshold = 0;
        trim(m, pool, 0);
    }

private:
    /// Returns the pool's memory above its threshold to the device when the object is destroyed.
    struct surplus {
        ~surplus() { shrink(m, pool); }
        sim_machine& m;
        sim_pool&    pool;
    };

    /// Adds the cost of a `cudaMalloc` (`allocates`) or `cudaFree` to the time of the calling
    /// thread.
    void pay_direct(int device, std::size_t bytes, bool allocates) {
        static constexpr std::size_t page        = std::size_t{2} << 20;
        sim_costs const&             c           = m_.options.costs;
        std::size_t&                 small_bytes = m_.at(device).small_bytes;
        if (bytes > page / 2) { return call_.pay(allocates ? c.allocate : c.free, bytes); }
        std::size_t const pages = (small_bytes + page - 1) / page;
        small_bytes             = allocates ? small_bytes + bytes : small_bytes - bytes;
        bool const moves        = (small_bytes + page - 1) / page != pages;
        call_.pay(allocates ? c.allocate_small : c.free_small, bytes);
        if (moves) { call_.pay(allocates ? c.allocate_page : c.free_page); }
    }

    [[nodiscard]] bool refused() const noexcept { return call_.refusal != sim_status::ok; }

    [[nodiscard]] std::size_t round(std::size_t bytes) const noexcept {
        std::size_t const unit = m_.options.granularity;
        return bytes > unsatisfiable - unit ? unsatisfiable : (bytes + unit - 1) / unit * unit;
    }
    /// Returns the counter of live managed or, for other kinds, pinned bytes. Each block counts
    /// with its size rounded up to the granularity.
    [[nodiscard]] std::size_t& host_used(sim_kind kind) const noexcept {
        return kind == sim_kind::managed ? m_.managed_used : m_.pinned_used;
    }
    [[nodiscard]] std::size_t host_room(sim_kind kind) const noexcept {
        return m_.options.pinned_capacity - host_used(kind);
    }

    void* refuse(int device, std::size_t bytes) {
        ++m_.schedule.figures(device).refused;
        if (m_.checker.on().capacity) {
            m_.checker.report({sim_mistake::capacity_exceeded,
                               call_.host_step("allocate"),
                               {},
                               0,
                               bytes,
                               std::to_string(m_.at(device).free()) + " bytes are free"});
        }
        return nullptr;
    }

    /// Records the allocation `step` of `block` for the checker. If that fails, erases the block
    /// and rethrows the exception.
    void remember(sim_block& block, sim_event_of const& step) {
        try {
            m_.checker.allocated(block, step);
        } catch (...) {
            m_.memory.space(block.kind, block.device).erase(block);
            throw;
        }
    }
    void start(sim_block& block, std::size_t counted) {
        block.counted = counted;
        if (block.kind == sim_kind::device) { m_.at(block.device).used += counted; }
        if (counted != 0) { ++m_.schedule.figures(block.device).allocations; }
        note_used(block.device);
    }
    void end(sim_block& block) {
        if (block.counted != 0) { ++m_.schedule.figures(block.device).frees; }
        m_.memory.space(block.kind, block.device).retire(block);
    }
    void note_used(int device) {
        sim_figures& f = m_.schedule.figures(device);
        f.used         = m_.at(device).used;
        f.peak_used    = std::max(f.peak_used, f.used);
    }

    /// Adds an allocation node to the graph into which `s` is captured. Returns the block's
    /// address, which no other block gets while the graph exists, or null if the allocation is
    /// refused.
    void* allocate_captured(sim_pool& pool, sim_stream_state& s, std::size_t bytes,
                            std::size_t alignment) {
        std::size_t const counted = round(bytes);
        if (counted > allowed(pool)) { return refuse(pool.device, bytes); }
        sim_block* const block =
            m_.memory.space(sim_kind::device_async, pool.device).insert(bytes, alignment);
        if (block == nullptr) { return refuse(pool.device, bytes); }
        block->kind       = sim_kind::device_async;
        block->device     = pool.device;
        block->pool       = &pool;
        block->pool_peers = pool.peers;
        block->graph      = s.capture;
        block->freed      = true;
        block->graph_pool = pool.weak_from_this();
        block->outlives = block->counted_live = true;
        add_node(s, "allocate").allocates     = block;
        s.capture->live[block->begin]         = block;
        start(*block, counted);
        pool.reserved += counted;
        m_.at(pool.device).used += counted;
        note_used(pool.device);
        pool.live += counted;
        pool.peak_live     = std::max(pool.peak_live, pool.live);
        pool.peak_reserved = std::max(pool.peak_reserved, pool.reserved);
        return reinterpret_cast<void*>(block->begin);
    }
    /// Adds a node that frees `block`, which the same capture has allocated, to the graph into
    /// which the stream `s` is being captured.
    void free_captured(sim_pool& pool, sim_stream_state& s, sim_block& block) {
        add_node(s, "free").frees = &block;
        s.capture->live.erase(block.begin);
        block.outlives = block.counted_live = false;
        ++m_.schedule.figures(block.device).frees;
        pool.live -= block.counted;
        shrink(m_, pool);
    }
    /// Adds a free of the block at `p` to the graph into which `s` is captured. Returns false
    /// unless this capture, or another graph that still exists, allocates the block and does not
    /// free it.
    bool free_in_capture(sim_pool& pool, sim_stream_state& s, void* p, std::size_t bytes) {
        auto const at = reinterpret_cast<std::uintptr_t>(p);
        if (auto const own = s.capture->live.find(at); own != s.capture->live.end()) {
            free_captured(pool, s, *own->second);
            return true;
        }
        sim_space&       space = m_.memory.space(sim_kind::device_async, pool.device);
        sim_block* const block = space.holds(at) ? space.before(at) : nullptr;
        bool const       known = block != nullptr && block->begin == at && block->pool == &pool;
        if (known && block->outlives && !block->graph.expired()) {
            add_node(s, "free").frees = block;
            return true;
        }
        if (m_.checker.on().frees) {
            sim_event_of step = stream_step("free", s);
            step.what         = sim_event_of::kind::release;
            m_.checker.report({sim_mistake::foreign_free, step,
                               known ? block->allocated : sim_event_of{}, at, bytes,
                               known ? "a capture frees only memory that a graph allocates"
                                     : "no block of this memory starts there"});
        }
        return false;
    }
    sim_graph_state::node& add_node(sim_stream_state& s, char const* name) {
        sim_queue{call_}.enqueue(s, {.name = name, .device = s.device, .where = call_.where});
        return s.capture->nodes.back();
    }
    sim_event_of stream_step(char const* name, sim_stream_state& s) {
        s.count = s.vclock.advance(s.slot);
        return {.name   = name,
                .number = m_.schedule.next_number(),
                .actor  = s.id.load(),
                .device = s.device,
                .time   = call_.host->clock,
                .where  = call_.where,
                .slot   = s.slot,
                .count  = s.count};
    }

    /// Finds `bytes` bytes of the pool for an allocation on the stream `s`. If necessary, makes `s`
    /// wait for queued frees, or grows the pool. Returns false if impossible.
    bool make_room(sim_pool& pool, sim_stream_state& s, std::size_t bytes) {
        auto const ordered = [&](sim_pool::waiting const& w) {
            return w.slot == s.slot || s.vclock.includes_fully(w.slot, w.count);
        };
        std::size_t const more = allowed(pool);
        if (bytes > saturating_add(pool.reserved - pool.live, more)) { return false; }
        std::size_t room = pool.reserved - pool.live - pool.pending_bytes;
        while (room < bytes) {
            sim_pool::waiting* const w = pool.first(ordered);
            if (w == nullptr) { break; }
            room += w->bytes;
            claim(pool, s, *w);
        }
        if (room >= bytes) { return true; }
        while (bytes - room > more && !pool.pending.empty()) {
            sim_pool::waiting const& oldest = pool.pending.begin()->second;
            room += oldest.bytes;
            s.vclock.join_by_resource(oldest.vclock);
            claim(pool, s, oldest);
            if (room >= bytes) { return true; }
        }
        if (bytes - room > more) { return false; }
        grow(pool, bytes - room);
        return true;
    }
    /// Returns how many more bytes the pool may reserve.
    [[nodiscard]] std::size_t allowed(sim_pool const& pool) const {
        std::size_t const left = pool.maximum - std::min(pool.maximum, pool.reserved);
        return std::min(m_.at(pool.device).free(), left);
    }
    void grow(sim_pool& pool, std::size_t bytes) {
        call_.pay(m_.options.costs.grow_async, bytes);
        pool.reserved += bytes;
        pool.peak_reserved = std::max(pool.peak_reserved, pool.reserved);
        m_.at(pool.device).used += bytes;
        note_used(pool.device);
    }
    static void claim(sim_pool& pool, sim_stream_state& s, sim_pool::waiting const& w) {
        if (w.place.pending()) { s.waits.push_back(w.place); }
        pool.remove(w.ticket);
    }

    /// Completes the free of `block` that was queued under the number `ticket`. Called when the
    /// stream reaches the free in simulated time.
    static void complete_free(sim_machine& m, sim_pool& pool, sim_block& block,
                              std::uint64_t ticket) {
        ++m.schedule.figures(block.device).frees;
        // May erase the record `block`, which must not be used after this.
        m.memory.space(block.kind, block.device).retire(block);
        pool.remove(ticket);
        shrink(m, pool);
    }
    static void shrink(sim_machine& m, sim_pool& pool) {
        if (pool.reserved > pool.threshold) { trim(m, pool, pool.threshold); }
    }

    sim_call&    call_;
    sim_machine& m_;
};

} // namespace detail
} // namespace vram
