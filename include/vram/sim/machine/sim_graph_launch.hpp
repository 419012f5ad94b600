// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_graph_launch` adds the nodes of a graph to a stream.

#include <vram/sim/machine/sim_pool.hpp>
#include <vram/sim/machine/sim_queue.hpp>
#include <vram/sim/machine/sim_room.hpp>

#include <algorithm> // max
#include <cstddef>
#include <cstdint>
#include <memory> // shared_ptr
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// Launches graphs within one call of the simulated device.
///
/// Failure   Members throw `sim_error` or `std::bad_alloc`.
/// Threads   The calling thread holds the machine's lock.
class sim_graph_launch {
public:
    explicit sim_graph_launch(sim_queue queue) : queue_{queue}, m_{queue.m_} {}

    /// Queues all nodes of a graph on the stream `s`. They run after the previous launch of the
    /// graph. If `s` is being captured, adds the nodes to that capture instead.
    void launch(std::shared_ptr<sim_graph_state> const& graph, sim_stream_state& s) {
        sim_graph_state& g = *graph;
        if (s.capture) { return append(g, s); }
        for (sim_graph_state::node const& n : g.nodes) {
            // Refuses the launch if a block that an earlier launch allocated is still live, because
            // this launch allocates the same block again.
            if (n.allocates != nullptr && !n.allocates->freed) {
                throw sim_error{sim_status::invalid_value, queue_.call_.where};
            }
            // Refuses nodes that run on a lost device, or use memory of one.
            queue_.call_.admit_memory(sim_kind::device, n.task.device);
            queue_.admit_memory(n.task);
        }
        queue_.begin_action(s);
        for (sim_graph_state::node const& n : g.nodes) {
            if (n.allocates != nullptr && n.allocates->queued) { follow_free(*n.allocates, s); }
        }
        queue_.wait_for(s, g.last);
        if (m_.checker.on().races) { s.vclock.join(g.last_vclock); }
        while (s.branch_slots.size() + 1 < g.branches) {
            s.branch_slots.push_back(m_.checker.actor(s.vclock));
        }
        std::vector<sim_moment>   places(g.nodes.size());
        std::vector<vector_clock> vclock(g.nodes.size());
        std::vector<bool>         followed(g.nodes.size());
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            sim_graph_state::node const& n = g.nodes[i];
            std::size_t const slot         = n.branch == 0 ? s.slot : s.branch_slots[n.branch - 1];
            sim_operation&    op           = queue_.make(n.task, s);
            sim_submission    given{m_.schedule, op};
            if (n.after.empty()) {
                vclock[i] = s.vclock;
                m_.schedule.after(op, s.tail);
                for (sim_moment const& m : s.waits) { m_.schedule.after(op, m); }
            }
            for (std::size_t const before : n.after) {
                followed[before] = true;
                vclock[i].join(vclock[before]);
                m_.schedule.after(op, places[before]);
            }
            places[i]                 = {&op, op.number};
            std::uint64_t const count = vclock[i].advance(slot);
            change_memory(n, op, {s.device, slot, count, true}, vclock[i]);
            bool const copies = n.task.copy != sim_copy_kind::none;
            int const  device = copies ? n.task.caller : n.task.device;
            queue_.inspect(op, {device, slot, count, true}, vclock[i], s);
            given.whole = true;
        }
        // Creates the operation with which the launch ends. It has no duration, and ends when all
        // nodes of the graph have ended.
        sim_operation& end = m_.schedule.make({.name = "graph", .device = s.device},
                                              queue_.call_.host->clock, s.id.load());
        sim_submission given{m_.schedule, end};
        queue_.depend(end, s);
        // Collects the vector clocks of the nodes that no other node follows. They are joined to
        // `s.vclock` in one step, because they can contain later steps of `s` than `s.vclock`.
        vector_clock all;
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            if (followed[i]) { continue; }
            all.join(vclock[i]);
            m_.schedule.after(end, places[i]);
        }
        s.vclock.join(all);
        s.tail        = {&end, end.number};
        s.count       = s.vclock.advance(s.slot);
        g.last        = s.tail;
        g.last_vclock = s.vclock;
        given.whole   = true;
        m_.turns.progress.notify_all();
    }

private:
    /// Called before a launch that allocates `block` again, which was freed by a queued free. As on
    /// a GPU (measured), the launch waits for that free.
    void follow_free(sim_block& block, sim_stream_state& s) {
        queue_.wait_for(s, block.queued->place);
        s.vclock.join_by_resource(block.queued->vclock);
        if (std::shared_ptr<sim_pool> const pool = block.graph_pool.lock(); pool && block.busy) {
            pool->remove(block.ticket);
        }
        block.busy    = false;
        block.history = {};
        block.queued  = nullptr;
    }
    /// Called for each launched node. If the node allocates or frees a block, marks the block as
    /// live or freed, and updates the live bytes of its pool. Reports a second free of the block.
    void change_memory(sim_graph_state::node const& n, sim_operation& op,
                       sim_queue::place const& at, vector_clock const& vclock) {
        if (n.allocates != nullptr) {
            n.allocates->freed = false;
            m_.checker.allocated(*n.allocates, sim_queue::event_of(op, at));
            count_live(*n.allocates);
        }
        if (n.frees == nullptr) { return; }
        sim_event_of step = sim_queue::event_of(op, at);
        step.what         = sim_event_of::kind::release;
        if (n.frees->freed) {
            if (!m_.checker.on().frees) { return; }
            return m_.checker.report({sim_mistake::double_free, step, n.frees->released,
                                      n.frees->begin, n.frees->bytes, "it was freed before",
                                      n.frees->description()});
        }
        m_.checker.released(*n.frees, step, vclock, false);
        n.frees->freed = true;
        if (n.frees->outlives) {
            n.frees->queued =
                std::make_shared<sim_queued_free const>(sim_queued_free{{&op, op.number}, vclock});
        }
        if (std::shared_ptr<sim_pool> const pool = n.frees->graph_pool.lock()) {
            if (std::exchange(n.frees->counted_live, false)) { pool->live -= n.frees->counted; }
        }
    }
    /// Adds the bytes of `block` to the live bytes of its pool. Does so only if the graph that
    /// allocates the block does not free it, and the bytes are not counted yet.
    void count_live(sim_block& block) {
        std::shared_ptr<sim_pool> const pool = block.graph_pool.lock();
        if (!block.outlives || block.counted_live || pool == nullptr) { return; }
        block.counted_live = true;
        pool->live += block.counted;
        pool->peak_live          = std::max(pool->peak_live, pool->live);
        std::size_t const needed = pool->live_elsewhere() + pool->pending_bytes + pool->backed();
        if (needed <= pool->reserved) { return; }
        sim_room{queue_.call_}.grow(*pool, needed - pool->reserved);
    }

    /// Adds the nodes of the graph `g` to the graph that the stream `s` is being captured into.
    static void append(sim_graph_state const& g, sim_stream_state& s) {
        std::vector<sim_graph_state::node>& nodes = s.capture->nodes;
        std::size_t const                   first = nodes.size();
        std::vector<bool>                   followed(g.nodes.size());
        for (sim_graph_state::node n : g.nodes) {
            for (std::size_t& before : n.after) {
                followed[before] = true;
                before += first;
            }
            if (n.after.empty()) { n.after = s.capture_deps; }
            nodes.push_back(std::move(n));
        }
        if (g.nodes.empty()) { return; }
        s.capture_deps.clear();
        for (std::size_t i = 0; i < followed.size(); ++i) {
            if (!followed[i]) { s.capture_deps.push_back(first + i); }
        }
    }

    sim_queue    queue_;
    sim_machine& m_;
};

} // namespace detail
} // namespace vram
