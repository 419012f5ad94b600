// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_state` holds the state of simulated streams, events, graphs and devices.

#include <vram/sim/machine/sim_driver_lock.hpp>
#include <vram/sim/machine/sim_operation.hpp> // sim_moment, sim_task
#include <vram/sim/machine/vector_clock.hpp>
#include <vram/sim/sim_error.hpp>   // sim_status
#include <vram/sim/sim_options.hpp> // sim_capture_mode
#include <vram/sim/sim_report.hpp>  // sim_event_of
#include <vram/sim/sim_time.hpp>

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>
#include <memory>        // shared_ptr
#include <new>           // bad_alloc
#include <thread>        // thread::id
#include <unordered_map> // unordered_map
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

class sim_machine;
struct sim_stream_state;
// Defined in sim/machine/sim_block.hpp.
struct sim_block;

/// The nodes of a captured graph. Each has the indices of the nodes on which it depends.
struct sim_graph_state {
    struct node {
        sim_task                 task;
        std::vector<std::size_t> after;
        /// The block that this node allocates, if any.
        sim_block* allocates = nullptr;
        sim_block* frees     = nullptr; ///< the block that this node of the graph frees, or null
        /// Keeps the record and the addresses of the block: all nodes that name it share the
        /// object, also those of other graphs, which may exist longer.
        std::shared_ptr<void> keeps = {};
        /// Number of the branch, a chain of nodes that run one after the other; from 0.
        std::size_t branch = 0;
    };
    std::vector<node> nodes;
    /// Blocks that the capture has allocated and not freed, by their first address.
    std::unordered_map<std::uintptr_t, sim_block*> live;
    std::size_t                                    branches = 1;
    /// The last operation of the graph's last launch. `last_vclock` is the vector clock of the work
    /// up to and including this operation.
    sim_moment              last;
    vector_clock            last_vclock;
    sim_stream_state const* origin = nullptr; ///< the stream on which the capture began
    std::thread::id         owner;            ///< the thread that began the capture
    sim_capture_mode        mode{};
    bool                    broken = false; ///< true if an illegal call has invalidated the capture
    bool                    ended  = false; ///< true after the capture has ended
    /// For each stream of the capture that was destroyed: the indices of the nodes that would have
    /// preceded its next node. `sim_graph::end` fails unless the origin follows all of them.
    std::vector<std::size_t> left;
};

/// The state of a stream. A new stream reuses the object of a destroyed one, but never its id.
struct sim_stream_state {
    sim_machine*               machine = nullptr;
    std::atomic<std::uint64_t> id{0}; ///< id of the stream, unique in the process; 0 if destroyed
    int                        device = 0;
    /// True if the stream is ordered with the legacy default stream.
    bool blocking = false;
    /// True for the legacy default stream of its device.
    bool legacy = false;

    /// False for raw and default streams. If true, resources can hold the stream (keep its handle
    /// valid), and learn when its owner is destroyed.
    bool announced = false;
    /// True if the owner of the stream (a `sim_stream`) was destroyed, but a `sim_stream_hold`
    /// keeps the stream.
    std::atomic<bool> ended{false};
    /// Number of references: the owner and each `sim_stream_hold`.
    std::atomic<std::size_t> shares{0};

    sim_moment tail; ///< the last operation that was queued on the stream
    /// Number of the last stream-ordered free that was queued while all earlier work of the stream
    /// was complete, except such frees.
    std::uint64_t idle_free = 0;
    /// Operations of other streams that the next operation of this stream waits for.
    std::vector<sim_moment> waits;
    /// If `waits` has at least this many elements, complete operations are removed from `waits`
    /// before another element is added.
    std::size_t sweep_at = 16;
    /// Vector clock of the stream: the work that happens before its next operation. After each
    /// change, call `sim_machine::changed`.
    vector_clock vclock;
    /// Index of the stream in vector clocks, which record the happens-before order.
    std::size_t   slot  = 0;
    std::uint64_t count = 0; ///< the stream's own counter in vector clocks; each step increases it
    /// A counter that each action on the stream increases, so that a later call sees if the stream
    /// has new work.
    std::uint64_t work = 0;
    /// The value that the counter `work` of the legacy default stream had when the program last
    /// made this stream wait for that stream. If the counter has another value now, the next action
    /// on this stream waits for the legacy default stream again.
    std::uint64_t legacy_seen = 0;
    /// True if a wait for the device has included this stream since the last change of the stream.
    /// If its work is also complete, the stream may be removed from the device's list `active`.
    bool in_past = false;
    /// Positions of the stream in the sets of its device, see `sim_stream_set`.
    std::size_t position[3] = {~std::size_t{0}, ~std::size_t{0}, ~std::size_t{0}};

    /// The graph that the stream is being captured into, if any.
    std::shared_ptr<sim_graph_state> capture;
    /// During a capture: the indices of the nodes that precede the stream's next node.
    std::vector<std::size_t> capture_deps;

    /// Index of a counter in vector clocks. It counts the waits of the stream for work that may be
    /// queued later. `waits_so_far` is its value, or 0 before the first wait.
    std::size_t   wait_slot    = 0;
    std::uint64_t waits_so_far = 0;
    /// Index of a counter in vector clocks. It counts allocations by pools on the legacy default
    /// stream. `allocations` is its value, or 0 before the first allocation.
    std::size_t   allocation_slot = 0;
    std::uint64_t allocations     = 0;
    /// Vector clock of the allocations by pools on the legacy default stream. The next action on
    /// this stream, or the next wait for it, adds these allocations to `vclock`. Blocking streams
    /// do not wait for an allocation alone.
    vector_clock allocated;
    /// Vector-clock indices for the parallel branches of graphs that are launched on this stream.
    std::vector<std::size_t> branch_slots;
};

/// A set of streams of one device. Removal is fast: each stream stores its index in the set, in its
/// member `position[number]`. Different sets of a device need different values of `number`.
///
/// Failure   `add` throws `std::bad_alloc`, unless `reserve` was called for as many streams.
class sim_stream_set {
public:
    explicit sim_stream_set(std::size_t number) noexcept : number_{number} {}

    /// If there is room for fewer than `n` streams, reserves memory for `2 * n`, so that few calls
    /// allocate.
    void reserve(std::size_t n) {
        if (n > all_.capacity()) { all_.reserve(2 * n); }
    }
    void add(sim_stream_state& s) {
        if (s.position[number_] != none) { return; }
        all_.push_back(&s);
        s.position[number_] = all_.size() - 1;
    }
    void remove(sim_stream_state& s) noexcept {
        std::size_t const at = std::exchange(s.position[number_], none);
        if (at == none) { return; }
        all_[at] = all_.back();
        all_.pop_back();
        if (at < all_.size()) { all_[at]->position[number_] = at; }
    }
    void clear() noexcept {
        for (sim_stream_state* const s : all_) { s->position[number_] = none; }
        all_.clear();
    }

    [[nodiscard]] std::size_t       size() const noexcept { return all_.size(); }
    [[nodiscard]] sim_stream_state& operator[](std::size_t i) const noexcept { return *all_[i]; }
    [[nodiscard]] auto              begin() const noexcept { return all_.begin(); }
    [[nodiscard]] auto              end() const noexcept { return all_.end(); }

private:
    static constexpr std::size_t none = ~std::size_t{0};

    std::vector<sim_stream_state*> all_;
    std::size_t                    number_;
};

/// A list of operations to wait for. Complete operations are removed from time to time.
class sim_moments {
public:
    void add(sim_moment m) {
        if (!m.pending()) { return; }
        if (all_.size() >= sweep_at_) { sweep(); }
        all_.push_back(m);
    }
    void sweep() noexcept {
        std::erase_if(all_, [](sim_moment const& m) { return !m.pending(); });
        sweep_at_ = 2 * all_.size() + 1;
    }
    void clear() noexcept { all_.clear(); }

    [[nodiscard]] bool        empty() const noexcept { return all_.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }
    [[nodiscard]] sim_moment  operator[](std::size_t i) const noexcept { return all_[i]; }
    [[nodiscard]] auto        begin() const noexcept { return all_.begin(); }
    [[nodiscard]] auto        end() const noexcept { return all_.end(); }

private:
    std::vector<sim_moment> all_;
    std::size_t             sweep_at_ = 1;
};

/// The state of an event: the operation after which it was recorded, and what happens before it.
struct sim_event_state {
    sim_machine* machine  = nullptr;
    int          device   = 0;
    bool         timed    = false;
    bool         recorded = false;
    sim_moment   place;
    vector_clock vclock;
    /// Index in vector clocks of the stream on which the event was recorded; `count` is the step of
    /// the record.
    std::size_t   slot  = 0;
    std::uint64_t count = 0;
    /// Simulated time at which the event was complete, if the event is timed.
    sim_time     when{};
    sim_event_of recorded_by; ///< the last call of `record` by a host thread, for reports
    /// True if the checker has reported a wait or query that is not ordered after the event's last
    /// `record`. There is no second such report before the next `record`.
    bool luck_reported = false;

    /// The graph of the capture in which the event was last recorded, or null. An event recorded in
    /// a capture orders only nodes of that graph.
    std::shared_ptr<sim_graph_state> capture;
    std::vector<std::size_t>         nodes;
};

/// The state of a device, except for its engines.
struct sim_device_state {
    /// Makes `report_error` report every error again, if the device was lost.
    ~sim_device_state() {
        if (lost) { forget_sim_loss(); }
    }
    std::size_t capacity = 0;
    /// Allocated bytes, rounded up, including all memory that stream-ordered pools hold.
    std::size_t used = 0;
    /// Live bytes of blocks of up to 1 MiB that cudaMalloc allocated. The driver places several of
    /// them in a page of 2 MiB.
    std::size_t small_bytes = 0;
    /// Bytes that another process, which the program simulates, has allocated.
    std::size_t taken = 0;
    bool        lost  = false;
    /// Lock of the device's driver, in simulated time. Calls that queue work, allocate or free hold
    /// it for the time that they cost.
    sim_driver_lock driver;
    /// Error code that the host's next synchronization with the device throws, or `ok`. If `sticky`
    /// is true, all later synchronizations throw this error, too.
    sim_status        pending = sim_status::ok;
    bool              sticky  = false;
    sim_stream_state* legacy  = nullptr;
    /// `peers[i]`: true if kernels of this device may access the memory of the other device `i`.
    std::vector<bool> peers;
    sim_stream_set    streams{0};   ///< streams of the device that are not destroyed
    std::size_t       captured = 0; ///< number of the device's streams that are being captured
    /// The streams that a wait for the whole device must visit. A stream is listed if it may have
    /// incomplete operations, or if it has changed since the last such wait.
    sim_stream_set active{1};
    sim_moments    orphans; ///< the last operations of streams that were destroyed
    /// Vector clock of earlier work of the device. It includes the work of destroyed streams. If
    /// races are checked, it also includes the work of the streams that are not in the list
    /// `active`.
    vector_clock past_vclock;
    /// Blocking streams with new work that the legacy default stream is not ordered after yet. The
    /// next action on the legacy default stream waits for these streams.
    sim_stream_set unfollowed{2};
    /// The last operations of blocking streams that were destroyed since the last action on the
    /// legacy default stream. The next action on the legacy default stream waits for these
    /// operations.
    sim_moments  blocking_orphans;
    vector_clock blocking_orphans_vclock;

    /// Returns the free bytes of the device.
    [[nodiscard]] std::size_t free() const noexcept {
        return capacity > used + taken ? capacity - used - taken : 0;
    }
};

/// Removes the stream `s` of the device `d`, which is destroyed, from the capture that it is in.
inline void leave_capture(sim_stream_state& s, sim_device_state& d) noexcept {
    sim_graph_state& graph = *s.capture;
    try {
        graph.left.insert(graph.left.end(), s.capture_deps.begin(), s.capture_deps.end());
    } catch (std::bad_alloc const&) { graph.broken = true; }
    s.capture.reset(); // may destroy the graph
    --d.captured;
}
/// Removes all streams from the capture into `graph`, and `graph` from the captures in progress.
inline void end_capture(sim_graph_state& graph, std::vector<sim_graph_state*>& captures,
                        std::vector<sim_device_state>& devices) noexcept {
    for (sim_device_state& d : devices) {
        for (sim_stream_state* const s : d.streams) {
            if (s->capture.get() != &graph) { continue; }
            s->capture.reset();
            --d.captured;
        }
    }
    std::erase(captures, &graph);
    graph.ended = true;
}

} // namespace detail
} // namespace vram
