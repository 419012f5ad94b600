// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_graph` is work that was captured from a stream instead of being done.

#include <vram/sim/sim_stream_view.hpp> // sim_stream_view

#include <cstddef>         // size_t
#include <memory>          // shared_ptr
#include <source_location> // source_location
#include <thread>          // this_thread
#include <utility>         // move
#include <vector>          // vector

namespace vram {

/// The result of a capture. A launch runs its nodes: each after the nodes that it depends on, on
/// the device that it was captured on; branches run in parallel. A launch is ordered after the
/// previous launch of the same graph, on whatever stream that was. Stream-ordered memory that is
/// allocated in the capture is live in each launch, from the node of its allocation to that of its
/// free.
///
///     sim_graph::begin(stream);
///     sim_launch(stream, ...);              // written down, not done
///     sim_graph graph = sim_graph::end(stream);
///     graph.launch(stream);
///
/// While a stream is captured, asking it or waiting for it is `sim_error{stream_capturing}`. So is
/// waiting for its device, which breaks the capture, as does `sim_copy_sync` of a thread that the
/// capture's mode forbids it. Memory is had, and events and other streams are asked and waited for,
/// in any mode, as with vram's types for CUDA. Events recorded on it order only the graph, and a
/// stream that waits for one joins the capture.
///
/// Failure   `sim_error{capture_invalid}` from `end` of a broken capture, of one that began
///           elsewhere, or while a stream that joined has work that the first stream does not wait
///           for
/// Threads   any
class sim_graph {
public:
    /// What is put on `stream` from now on is written down.
    static void begin(sim_stream_view stream, sim_capture_mode mode = sim_capture_mode::global,
                      std::source_location where = std::source_location::current()) {
        sim_stream_state& s = stream.state();
        sim_call          call{*s.machine, sim_call_kind::other, s.device, where};
        if (s.capture || s.legacy) { throw sim_error{sim_status::stream_capturing, where}; }
        auto graph    = std::make_shared<sim_graph_state>();
        graph->origin = &s;
        graph->owner  = std::this_thread::get_id();
        graph->mode   = mode;
        s.machine->captures.push_back(graph.get());
        s.capture_deps.clear();
        s.capture = std::move(graph);
    }

    /// Ends the capture that began on `stream`.
    [[nodiscard]] static sim_graph
    end(sim_stream_view stream, std::source_location where = std::source_location::current()) {
        sim_stream_state& s = stream.state();
        sim_call          call{*s.machine, sim_call_kind::other, s.device, where};
        if (!s.capture || s.capture->origin != &s) {
            if (s.capture) { s.capture->broken = true; }
            throw sim_error{sim_status::capture_invalid, where};
        }
        std::shared_ptr<sim_graph_state> const graph = s.capture;
        std::vector<bool> const                heard = before(*graph, s.capture_deps);
        for (sim_device_state& d : s.machine->devices) {
            for (sim_stream_state* const other : d.streams) {
                if (other->capture != graph) { continue; }
                for (std::size_t const node : other->capture_deps) {
                    graph->broken = graph->broken || !heard[node];
                }
                other->capture.reset();
            }
        }
        std::erase(s.machine->captures, graph.get());
        graph->ended = true;
        if (graph->broken) { throw sim_error{sim_status::capture_invalid, where}; }
        find_branches(*graph);
        return sim_graph{graph};
    }

    /// Does the work in the order of `stream`.
    void launch(sim_stream_view      stream,
                std::source_location where = std::source_location::current()) const {
        sim_stream_state& s = stream.state();
        sim_call          call{*s.machine, sim_call_kind::launch, s.device, where};
        call.admit();
        sim_queue{call}.launch(graph_, s);
        call.tell();
    }

    /// How many pieces of work it has.
    [[nodiscard]] std::size_t size() const noexcept { return graph_->nodes.size(); }
    /// What the piece `index` waits for, by index.
    [[nodiscard]] std::vector<std::size_t> const& after(std::size_t index) const {
        return graph_->nodes.at(index).after;
    }

private:
    explicit sim_graph(std::shared_ptr<sim_graph_state> graph) : graph_{std::move(graph)} {}

    /// Divides the nodes into branches: a node continues the branch of a node before it, if no
    /// other node has continued that one.
    static void find_branches(sim_graph_state& g) {
        std::vector<bool> continued(g.nodes.size());
        bool              started = false;
        for (sim_graph_state::node& n : g.nodes) {
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

    /// Which nodes come before the end of a stream whose last nodes are `last`, those included.
    static std::vector<bool> before(sim_graph_state const& g, std::vector<std::size_t> last) {
        std::vector<bool> heard(g.nodes.size());
        while (!last.empty()) {
            std::size_t const node = last.back();
            last.pop_back();
            if (heard[node]) { continue; }
            heard[node] = true;
            last.insert(last.end(), g.nodes[node].after.begin(), g.nodes[node].after.end());
        }
        return heard;
    }

    std::shared_ptr<sim_graph_state> graph_;
};

} // namespace vram
