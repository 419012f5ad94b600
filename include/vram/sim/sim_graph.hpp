// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_graph` is a graph that was captured from a simulated stream.

#include <vram/sim/machine/sim_graph_launch.hpp>
#include <vram/sim/sim_stream_view.hpp>

#include <algorithm> // min
#include <cstddef>
#include <memory>          // shared_ptr
#include <source_location> // source_location
#include <thread>          // this_thread
#include <utility>
#include <vector> // vector

namespace vram {

/// A graph captured from a stream. A launch runs the nodes in the order of their edges, after the
/// previous launch of the same graph. Memory allocated during the capture is live in each launch,
/// until a node frees it.
///
///     sim_graph::begin(stream);
///     sim_launch(stream, ...);              // recorded as a node, not run
///     sim_graph graph = sim_graph::end(stream);
///     graph.launch(stream);
///
/// During a capture, a wait for the captured stream or its device throws `sim_error`. An event that
/// is recorded on a captured stream orders only nodes of the graph.
///
/// Failure   `end` throws `sim_error{capture_invalid}` if the capture is invalid or incomplete.
/// Threads   Any thread may call the members.
class sim_graph {
public:
    /// Begins a capture: later calls on `stream` add nodes to a graph. Throws
    /// `sim_error{stream_capturing}` for captured and legacy default streams.
    static void begin(sim_stream_view stream, sim_capture_mode mode = sim_capture_mode::global,
                      std::source_location where = std::source_location::current()) {
        detail::sim_stream_state& s = stream.state();
        detail::sim_call          call{*s.machine, sim_call_kind::other, s.device, where};
        if (s.capture || s.legacy) { throw sim_error{sim_status::stream_capturing, where}; }
        auto graph    = std::make_shared<detail::sim_graph_state>();
        graph->origin = &s;
        graph->owner  = std::this_thread::get_id();
        graph->mode   = mode;
        s.machine->captures.push_back(graph.get());
        s.capture_deps.clear();
        s.capture = std::move(graph);
        ++s.machine->at(s.device).captured;
    }

    /// Ends the capture that began on `stream` and returns the graph. Throws
    /// `sim_error{capture_invalid}` if the capture is invalid or incomplete. Throws
    /// `sim_error{capture_wrong_thread}` if another thread began it, unless its mode is `relaxed`.
    /// If the capture began on `stream`, it has ended in each of these cases.
    [[nodiscard]] static sim_graph
    end(sim_stream_view stream, std::source_location where = std::source_location::current()) {
        // Declared before the call: the memory of a graph is freed without the machine's lock.
        std::shared_ptr<detail::sim_graph_state> graph;
        detail::sim_stream_state&                s = stream.state();
        detail::sim_call call{*s.machine, sim_call_kind::other, s.device, where};
        if (!s.capture || s.capture->origin != &s) {
            if (s.capture) { s.capture->broken = true; }
            throw sim_error{sim_status::capture_invalid, where};
        }
        graph                                = s.capture;
        std::vector<bool> const ordered      = before(*graph, s.capture_deps);
        auto const              must_precede = [&](std::vector<std::size_t> const& nodes) {
            for (std::size_t const node : nodes) {
                graph->broken = graph->broken || !ordered[node];
            }
        };
        must_precede(graph->left);
        for (detail::sim_device_state& d : s.machine->devices) {
            for (detail::sim_stream_state* const other : d.streams) {
                if (other->capture == graph) { must_precede(other->capture_deps); }
            }
        }
        detail::end_capture(*graph, s.machine->captures, s.machine->devices);
        if (graph->mode != sim_capture_mode::relaxed &&
            graph->owner != std::this_thread::get_id()) {
            throw sim_error{sim_status::capture_wrong_thread, where};
        }
        if (graph->broken) { throw sim_error{sim_status::capture_invalid, where}; }
        find_branches(*graph);
        return sim_graph{graph};
    }

    /// Queues one run of the graph on `stream`. Throws `sim_error{invalid_value}` if memory of an
    /// earlier launch is not freed yet.
    void launch(sim_stream_view      stream,
                std::source_location where = std::source_location::current()) const {
        detail::sim_stream_state& s = stream.state();
        detail::sim_call          call{*s.machine, sim_call_kind::launch, s.device, where};
        call.admit();
        call.pay(s.machine->options.costs.launch);
        detail::sim_graph_launch{detail::sim_queue{call}}.launch(graph_, s);
        call.throw_report();
    }

    /// Returns the number of nodes of the graph.
    [[nodiscard]] std::size_t size() const noexcept { return graph_->nodes.size(); }
    /// Returns the indices of the nodes that must be complete before the node `index` starts.
    [[nodiscard]] std::vector<std::size_t> const& after(std::size_t index) const {
        return graph_->nodes.at(index).after;
    }

private:
    explicit sim_graph(std::shared_ptr<detail::sim_graph_state> graph) : graph_{std::move(graph)} {}

    /// Assigns each node to a branch, a chain of nodes that run one after the other. In a launch,
    /// each branch has its own index in vector clocks.
    static void find_branches(detail::sim_graph_state& g) {
        std::vector<bool> continued(g.nodes.size());
        bool              started = false;
        for (detail::sim_graph_state::node& n : g.nodes) {
            std::size_t from = g.nodes.size();
            for (std::size_t const before : n.after) {
                if (!continued[before]) { from = std::min(from, before); }
            }
            if (from != g.nodes.size()) {
                continued[from] = true;
                n.branch        = g.nodes[from].branch;
            } else {
                n.branch = started ? g.branches++ : 0;
                started  = true;
            }
        }
    }

    /// Returns, for each node of `g`, true if it is in `last` or ordered before a node in `last`.
    static std::vector<bool> before(detail::sim_graph_state const& g,
                                    std::vector<std::size_t>       last) {
        std::vector<bool> ordered(g.nodes.size());
        while (!last.empty()) {
            std::size_t const node = last.back();
            last.pop_back();
            if (ordered[node]) { continue; }
            ordered[node] = true;
            last.insert(last.end(), g.nodes[node].after.begin(), g.nodes[node].after.end());
        }
        return ordered;
    }

    std::shared_ptr<detail::sim_graph_state> graph_;
};

} // namespace vram
