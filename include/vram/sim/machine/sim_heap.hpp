// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_heap` allocates and frees simulated memory.

#include <vram/base/align.hpp> // unsatisfiable
#include <vram/sim/machine/sim_find_freed.hpp>
#include <vram/sim/machine/sim_pool.hpp>
#include <vram/sim/machine/sim_queue.hpp> // sim_queue, sim_call
#include <vram/sim/machine/sim_room.hpp>
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

    /// Allocates memory as `cudaMalloc` does: all work that is ordered after this call may use the
    /// memory. Returns null if there is too little memory, or if an injected fault refuses the
    /// call.
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

    /// Frees a block after a wait for all work of the device, as `cudaFree` does. The race check
    /// ignores this wait: all uses of the block must happen before the call. Returns false if `p`
    /// is not a live block.
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
        end(*block); // may erase the record `*block`, so nothing below uses the record
        return true;
    }

    /// Reserves memory of the device for `pool`. Returns false if that is refused.
    bool reserve(sim_pool& pool, std::size_t bytes) {
        std::size_t const counted = round(bytes);
        if (m_.at(pool.device).lost) { call_.admit(); }
        if (refused() || !room_.reserve(pool, counted)) {
            return refuse(pool.device, bytes) != nullptr;
        }
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
        sim_room::taken const part = room_.take(pool, s, counted);
        if (!part.found) { return refuse(pool.device, bytes); }
        unused_room      unused{m_, pool, part};
        sim_block* const block =
            m_.memory.space(sim_kind::device_async, pool.device).insert(bytes, alignment);
        if (block == nullptr) { return refuse(pool.device, bytes); }
        block->kind       = sim_kind::device_async;
        block->device     = pool.device;
        block->pool       = &pool;
        block->pool_peers = pool.peers;
        remember(*block, stream_step("allocate", s));
        block->place = std::exchange(unused.part.place, sim_block::no_place);
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
        block->ticket              = ticket;
        if (!block->outlives || std::exchange(block->counted_live, false)) {
            pool->live -= block->counted;
        }
        std::size_t const place  = std::exchange(block->place, sim_block::no_place);
        bool const        placed = place != sim_block::no_place;
        if (placed) { pool->places->free(place, block->counted, s.slot, ticket); }
        bool const idle = sim_room::idle(s);
        if (idle) { complete_place(*pool, s.slot, ticket); }
        try {
            std::shared_ptr<sim_queued_free> queued;
            if (block->outlives) {
                queued         = std::make_shared<sim_queued_free>();
                queued->vclock = s.vclock;
            }
            pool->add({{}, s.vclock, s.slot, s.count, placed ? 0 : block->counted, ticket});
            sim_operation* const op = sim_queue{call_}.enqueue(
                s,
                {.name      = "free",
                 .device    = s.device,
                 .completed = [m = &m_, pool, at = block->begin, slot = s.slot,
                               ticket] { complete_free(*m, *pool, at, slot, ticket); },
                 .where     = call_.where},
                true);
            pool->pending.find(ticket)->second.place = {op, op->number};
            if (queued != nullptr) { queued->place = {op, op->number}; }
            block->queued = std::move(queued);
            if (idle) { s.idle_free = op->number; }
        } catch (std::bad_alloc const&) {
            sim_wait{call_}.await(s.tail);
            complete_free(m_, *pool, block->begin, s.slot, ticket);
        }
        return true;
    }

    /// Called when a pool ends: returns its unused memory to the device now. Blocks that are freed
    /// later return theirs at that time.
    static void retire(sim_machine& m, sim_pool& pool) {
        pool.threshold = 0;
        sim_room::trim(m, pool, 0);
    }

private:
    /// Memory of a pool for a block. The destructor gives the memory back if no block has it, and
    /// returns unused memory of the pool to the device if the pool has more than its threshold.
    struct unused_room {
        ~unused_room() {
            sim_room::give_back(pool, part);
            sim_room::shrink(m, pool);
        }
        sim_machine&    m;
        sim_pool&       pool;
        sim_room::taken part;
    };

    /// Adds the cost of a `cudaMalloc` (if `allocates` is true) or `cudaFree` to the time of the
    /// calling thread.
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
        room_.note_used(block.device);
    }
    void end(sim_block& block) {
        if (block.counted != 0) { ++m_.schedule.figures(block.device).frees; }
        m_.memory.space(block.kind, block.device).retire(block);
    }

    /// Adds an allocation node to the graph into which `s` is captured. Returns the block's
    /// address, which no other block gets while a graph allocates or frees it, or null if the
    /// allocation is refused.
    void* allocate_captured(sim_pool& pool, sim_stream_state& s, std::size_t bytes,
                            std::size_t alignment) {
        std::size_t const counted = round(bytes);
        if (counted > room_.allowed(pool)) { return refuse(pool.device, bytes); }
        sim_block* const block =
            m_.memory.space(sim_kind::device_async, pool.device).insert(bytes, alignment);
        if (block == nullptr) { return refuse(pool.device, bytes); }
        block->kind       = sim_kind::device_async;
        block->device     = pool.device;
        block->pool       = &pool;
        block->pool_peers = pool.peers;
        block->freed      = true;
        block->graph_pool = pool.weak_from_this();
        block->outlives = block->counted_live    = true;
        auto const keeps                         = std::make_shared<char>();
        block->nodes                             = keeps;
        add_node(s, "allocate", keeps).allocates = block;
        s.capture->live[block->begin]            = block;
        start(*block, counted);
        room_.grow(pool, counted);
        pool.live += counted;
        pool.peak_live = std::max(pool.peak_live, pool.live);
        return reinterpret_cast<void*>(block->begin);
    }
    /// Adds a node that frees `block`, which the same capture has allocated, to the graph into
    /// which the stream `s` is being captured.
    void free_captured(sim_pool& pool, sim_stream_state& s, sim_block& block) {
        add_node(s, "free", block.nodes.lock()).frees = &block;
        s.capture->live.erase(block.begin);
        block.outlives = block.counted_live = false;
        ++m_.schedule.figures(block.device).frees;
        pool.live -= block.counted;
        sim_room::shrink(m_, pool);
    }
    /// Adds a free of the block at `p` to the graph into which `s` is captured. Returns false
    /// unless this capture, or another graph, allocates the block and does not free it, and a graph
    /// that still exists allocates or frees it.
    bool free_in_capture(sim_pool& pool, sim_stream_state& s, void* p, std::size_t bytes) {
        auto const at = reinterpret_cast<std::uintptr_t>(p);
        if (auto const own = s.capture->live.find(at); own != s.capture->live.end()) {
            free_captured(pool, s, *own->second);
            return true;
        }
        sim_space&       space = m_.memory.space(sim_kind::device_async, pool.device);
        sim_block* const block = space.holds(at) ? space.before(at) : nullptr;
        bool const       known = block != nullptr && block->begin == at && block->pool == &pool;
        if (auto keeps = known ? block->nodes.lock() : nullptr; keeps && block->outlives) {
            add_node(s, "free", std::move(keeps)).frees = block;
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
    sim_graph_state::node& add_node(sim_stream_state& s, char const* name,
                                    std::shared_ptr<void> keeps) {
        sim_queue{call_}.enqueue(s, {.name = name, .device = s.device, .where = call_.where});
        s.capture->nodes.back().keeps = std::move(keeps);
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

    /// Completes the free of the block at `p` that was queued under the number `ticket` on the
    /// stream with the index `slot`. Called when the stream reaches the free in simulated time.
    static void complete_free(sim_machine& m, sim_pool& pool, std::uintptr_t p, std::size_t slot,
                              std::uint64_t ticket) {
        ++m.schedule.figures(pool.device).frees;
        sim_space&       space = m.memory.space(sim_kind::device_async, pool.device);
        sim_block* const block = space.before(p);
        // If a launch of a graph has allocated the block again, the block stays live.
        bool const freed = block != nullptr && block->begin == p && block->pool == &pool &&
                           block->busy && block->ticket == ticket;
        if (freed) { space.retire(*block); }
        pool.remove(ticket);
        complete_place(pool, slot, ticket);
        sim_room::shrink(m, pool);
    }
    static void complete_place(sim_pool& pool, std::size_t slot, std::uint64_t ticket) noexcept {
        if (pool.places != nullptr) { pool.places->complete(slot, ticket); }
    }

    sim_call&    call_;
    sim_machine& m_;
    sim_room     room_{call_};
};

} // namespace detail
} // namespace vram
