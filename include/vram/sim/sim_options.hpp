// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_options` describes a simulated node: its devices, capacities, speeds and checks.

#include <vram/base/bytes.hpp> // size literals
#include <vram/sim/sim_time.hpp>

#include <concepts> // convertible_to
#include <cstddef>
#include <cstdint>
#include <initializer_list> // initializer_list
#include <vector>           // vector

namespace vram {

/// A one-way connection between two devices of a simulated machine, for peer copies.
struct sim_link {
    int         from      = 0;
    int         to        = 0;
    std::size_t bandwidth = 50_GB; ///< speed of copies in bytes per second
    sim_time    latency{1000};
};

/// Selects the mistakes that a `sim_node` detects. A check costs time only while it is on.
struct sim_checks {
    /// Report unordered accesses to one byte, unless both only read or both are atomic.
    bool races = true;
    /// Report accesses that a kernel or a host function makes through `sim_view` or `sim_touch`,
    /// but does not declare.
    bool declarations  = true;
    bool bounds        = true;  ///< report accesses outside live allocations, or after the free
    bool uninitialised = false; ///< report reads of memory that was never written
    /// Report accesses to memory that the device or the host cannot access.
    bool residency = true;
    bool frees     = true; ///< report frees twice, before the last use, or of unknown pointers
    /// Report memory that is live when the `sim_node` ends. With `races`, `bounds` or
    /// `uninitialised`, also blocks that are live when their pool ends.
    bool leaks    = true;
    bool capacity = false; ///< report allocations that the device refused
};

/// The reaction of a `sim_node` to a mistake, beyond storing the report.
enum class sim_on_report : unsigned char {
    collect, ///< the report is only stored; `sim_node::reports` returns it
    print,   ///< the report is also printed to stderr
    /// The call that made the mistake throws `sim_race` with the report. If that call cannot throw,
    /// a later one does.
    throw_it,
    /// The report is printed and the program aborts, so that a debugger stops there.
    abort_here,
};

/// The order in which the threads in simulated time (`sim_thread`) run.
enum class sim_order : unsigned char {
    /// Of the threads that can run, the one with the earliest simulated time runs. Times are exact,
    /// and runs are repeatable.
    by_time,
    /// Of the threads that can run, a random one runs (by `sim_options::seed`). Runs are
    /// repeatable.
    by_seed,
    /// At each decision between threads that can run, takes the one with the next index in
    /// `sim_options::choices`, and after these the first. `sim_explore` varies the indices.
    by_choice,
    /// All threads run concurrently in real time. Simulated times are not exact.
    freely,
};

/// The order that the checker assumes between the calls of host threads.
///
///     sim_node node{{.host_threads = sim_host_order::checked}};
enum class sim_host_order : unsigned char {
    /// Ordinary threads (no `sim_thread`) count as synchronised with each other. Calls of a
    /// `sim_thread` are ordered only by what `checked` lists.
    by_kind,
    /// Each call happens after all earlier calls of other threads, so a lack of synchronisation
    /// between host threads is not found.
    ordered,
    /// Race checks know only the order by events, streams, `sim_thread`, `sim_gate` and
    /// `sim_platform::lock`. Declare other order with `sim_happens_before` and `sim_happens_after`.
    checked,
};

/// The stream that a default-constructed `sim_stream_view` means: the legacy default stream, or
/// that of the calling thread.
enum class sim_default_stream : unsigned char { legacy, per_thread };

/// The simulated time that a call costs its thread: constant, or a function of the number of bytes,
/// linear between points.
///
///     sim_cost const allocate{{0, 1us}, {2_MiB, 35us}, {1_GiB, 200us}};
///     CHECK(allocate.of(1_MiB) == 18us);
class sim_cost {
public:
    /// One point of the cost function: a number of bytes, and the cost of a call for it.
    struct point {
        /// Number of bytes that a call allocates, frees, copies or maps.
        std::size_t bytes;
        /// The cost of a call of this size.
        sim_time time;
    };

    sim_cost() = default; ///< Calls cost no time.
    /// Every call costs the time `each`.
    template <std::convertible_to<sim_time> Duration>
    sim_cost(Duration each) {
        if (each != Duration{}) { points_ = {{0, each}}; }
    }
    /// `points` must be in ascending order of bytes. Below the first point, the cost is constant.
    /// Above the last one, the slope between the last two continues.
    sim_cost(std::initializer_list<point> points) : points_{points} {}

    /// Returns the cost of a call for `bytes` bytes, rounded down to nanoseconds.
    [[nodiscard]] sim_time of(std::size_t bytes) const noexcept {
        if (points_.size() < 2 || bytes <= points_.front().bytes) {
            return points_.empty() ? sim_time{} : points_.front().time;
        }
        std::size_t last = 1;
        while (last + 1 < points_.size() && points_[last].bytes < bytes) { ++last; }
        point const &                  from = points_[last - 1], &to = points_[last];
        __extension__ typedef __int128 wide;
        wide const                     rise = static_cast<wide>((to.time - from.time).count()) *
                          static_cast<wide>(bytes - from.bytes);
        return from.time +
               sim_time{static_cast<std::int64_t>(rise / static_cast<wide>(to.bytes - from.bytes))};
    }
    /// Returns true if calls cost nothing.
    [[nodiscard]] bool empty() const noexcept { return points_.empty(); }

private:
    std::vector<point> points_;
};

/// The costs of the calls of a device; by default, calls cost nothing. `sim_options::h200()` has
/// measured costs.
struct sim_costs {
    sim_cost allocate = {}; ///< `cudaMalloc`, by bytes, for more than 1 MiB
    sim_cost free     = {}; ///< `cudaFree`, without its wait for the device
    /// `cudaMalloc` of up to 1 MiB. The driver places such blocks in pages of 2 MiB.
    sim_cost allocate_small = {};
    /// `cudaFree` of up to 1 MiB.
    sim_cost free_small = {};
    /// Added to `allocate_small` if the small blocks then need one more page of 2 MiB than before.
    sim_time allocate_page{};
    /// Added to `free_small` if the small blocks that remain need one page of 2 MiB less than
    /// before.
    sim_time free_page{};
    sim_cost allocate_async = {}; ///< `cudaMallocAsync`
    /// Added to `allocate_async` if the driver's pool grows: the cost for the bytes of growth.
    sim_cost grow_async = {};
    /// `cudaFreeAsync`.
    sim_cost free_async = {};
    sim_cost pin        = {}; ///< cost of `cudaMallocHost` and `cudaHostRegister`, by bytes
    /// `cudaFreeHost`.
    sim_cost unpin   = {};
    sim_cost reserve = {}; ///< `cuMemAddressReserve`
    sim_cost create  = {}; ///< `cuMemCreate`
    /// `cuMemMap`.
    sim_cost map          = {};
    sim_cost set_access   = {}; ///< `cuMemSetAccess`, for each mapping in the range
    sim_cost unmap        = {}; ///< `cuMemUnmap`, for each mapping in the range
    sim_cost destroy      = {}; ///< `cuMemRelease`
    sim_cost release      = {}; ///< `cuMemAddressFree`
    sim_cost copy         = {}; ///< `cudaMemcpyAsync`; the time of a wait in the call is added
    sim_cost copy_within  = {}; ///< call of `cudaMemcpyAsync` within one device
    sim_cost copy_batched = {}; ///< each copy of a batch (`cudaMemcpyBatchAsync`)
    sim_cost fill         = {};
    /// A kernel launch.
    sim_cost launch = {};
    /// `cudaLaunchHostFunc`.
    sim_cost host_function = {};
    sim_cost write_value   = {}; ///< `cuStreamWriteValue32`, `cuStreamWaitValue32`
    /// `cudaStreamCreate`.
    sim_cost create_stream = {};
    /// `cudaEventCreate`.
    sim_cost create_event = {};
    sim_cost record       = {};
    sim_cost wait         = {}; ///< `cudaStreamWaitEvent`
    /// `cudaEventQuery`, `cudaStreamQuery`.
    sim_cost query = {};
    /// A call with which the host waits for a stream, an event or the device
    /// (`cudaStreamSynchronize`). If it really waits, `wake` is added.
    sim_cost synchronize = {};
    /// Added to a wait of the host for incomplete work: the time from the end of that work until
    /// the waiting thread runs.
    sim_time wake{};
    /// Time from the notification of a `sim_thread` that sleeps at a `sim_gate` (a condition
    /// variable) until it holds the gate.
    sim_time thread_wake{};
    /// Added to a call that waited for a call of another thread: calls that queue work, allocate or
    /// free on a device run one at a time.
    sim_time driver_handoff{};
    /// Added to a call that queues work, allocates or frees and did not wait, if another thread
    /// made the last such call on the device.
    sim_time driver_switch{};
    /// Time of a copy from pageable memory to a device; `copy_latency` is added. If not empty,
    /// replaces `pageable_bandwidth`.
    sim_cost pageable_to_device = {};
    /// Time of a copy from a device to pageable memory; `copy_latency` is added. If not empty,
    /// replaces `pageable_bandwidth`.
    sim_cost pageable_to_host = {};
};

/// The description of a simulated node. The defaults are one device with round numbers, and all
/// checks that a correct program always passes.
struct sim_options {
    int         devices  = 1;
    std::size_t capacity = 16_GiB; ///< bytes of memory of each device
    /// Largest number of bytes of allocated pinned memory on the node, without registered memory.
    /// Managed memory has a separate limit of the same size.
    std::size_t pinned_capacity = 64_GiB;
    std::size_t granularity     = 512;   ///< allocations are rounded up to this many bytes
    std::size_t page            = 2_MiB; ///< unit of virtual memory mappings; a power of two
    /// If true, device memory has contents. If false, copies to or from it transfer no data, and
    /// `sim_view` of it throws.
    bool backed = true;
    /// If true, the host may dereference addresses of device memory with contents (`backed`).
    /// Otherwise, they fault.
    bool dereferenceable = false;

    /// Speed of copies between pinned memory and a device, for each direction, in bytes per second.
    std::size_t host_bandwidth = 25_GB;
    /// Speed of copies between pageable memory and a device, in bytes per second.
    std::size_t pageable_bandwidth = 5_GB;
    std::size_t device_bandwidth   = 1000_GB;
    /// Speed of fills of device memory, in bytes per second; 0 means `device_bandwidth`.
    std::size_t fill_bandwidth = 0;
    /// Speed of copies by a host thread that are declared with `sim_host_copies`, in bytes per
    /// second. 0: they take no time.
    std::size_t host_copy_bandwidth = 0;
    /// Speed at which one host thread copies from pinned memory, in bytes per second. 0 means
    /// `host_copy_bandwidth`.
    std::size_t pinned_read_bandwidth = 0;
    /// Speed at which one host thread reads a file, in bytes per second. 0 means
    /// `host_copy_bandwidth`.
    std::size_t file_read_bandwidth = 0;
    /// Bytes in the cache of a core of the host. It holds the pinned memory that its thread copied
    /// last (copies declared with `sim_host_copies`).
    std::size_t core_cache = 0;
    /// Speed of copies between a device and pinned memory in the cache of a core, in bytes per
    /// second. 0, or a value above `host_bandwidth`, means `host_bandwidth`.
    std::size_t cached_bandwidth = 0;
    /// If true, devices can access pageable memory through the host's page tables, and an
    /// asynchronous copy may use it until the program waits. If false, a pageable source has been
    /// read when the copy's call returns, except in a capture.
    bool     host_page_tables = false;
    sim_time copy_latency{1000};
    sim_time kernel_latency{0}; ///< time added to the duration of each kernel
    /// Duration of the operation with which a stream writes a word in memory.
    sim_time write_value_latency{0};
    /// Time from the end of a call until the work that it queued can start.
    sim_time start_latency{0};
    /// The links between devices; copies between other devices are refused. If empty, every pair
    /// has a link with defaults.
    std::vector<sim_link> links = {};
    /// If true, kernels may access the memory of all devices. Otherwise, as in CUDA, only if
    /// `sim_device::set_peer_access` or `sim_async_resource::allow_access` permits it.
    bool peer_access = false;

    int compute_slots = 1; ///< kernels, fills and inner copies that a device runs at the same time
    /// Number of host-to-device copy engines of a device. Copies that run at the same time share
    /// `host_bandwidth`.
    int to_device_slots = 1;
    int to_host_slots   = 1;
    int peer_slots      = 1;
    /// Number of devices with consecutive indices that share one link to the host for each
    /// direction, as behind one PCIe switch.
    int devices_per_root = 1;
    /// If true, kernels, fills and copies within a device that run at the same time divide the
    /// speed of the device. If false, kernels neither become slower nor slow others.
    bool kernels_share = false;

    /// Simulated time that each call costs the calling thread.
    sim_time call_cost{0};
    /// Simulated time that a query costs if the work is not complete, so that a loop of queries
    /// reaches the time at which it is. Also the cost of each `sim_read_value`.
    sim_time query_cost{200};
    /// Simulated time that calls cost the calling thread, by the kind of the call.
    sim_costs costs = {};

    sim_default_stream default_stream = sim_default_stream::legacy;
    sim_checks         checks         = {};
    sim_on_report      on_report      = sim_on_report::print;
    /// If true, reports of one kind with the same source lines of their two operations are one
    /// report with a count, except leaks of memory that no pool allocated.
    bool merge_reports = true;
    /// If true, completed copies, kernels and the like are stored for `sim_node::trace`.
    bool trace = false;

    sim_order threads = sim_order::by_time;
    /// The order that the checker assumes between the calls of different host threads.
    sim_host_order        host_threads = sim_host_order::by_kind;
    std::uint64_t         seed         = 1;
    std::vector<unsigned> choices      = {};
    /// With `by_choice`: how many times in one run a thread may be stopped that could continue.
    unsigned preemptions = 2;

    /// Returns the description of one H200 on PCIe Gen5, with numbers measured on one machine
    /// (docs/simulator.md).
    ///
    ///     sim_options o = sim_options::h200();
    ///     o.backed      = false; // memory without contents
    ///     sim_node node{o};
    [[nodiscard]] static sim_options h200();
    /// Returns the description of one H100 (80 GB, SXM): as `h200()`, with another capacity and
    /// memory bandwidth.
    [[nodiscard]] static sim_options h100();
};

/// The threads whose unsafe calls, such as cudaMalloc, invalidate a capture: all, only the one that
/// began the capture, or none.
enum class sim_capture_mode : unsigned char { global, thread_local_only, relaxed };

// The page docs/simulator.md lists the source of each number.
inline sim_options sim_options::h200() {
    auto const  us = [](double n) { return sim_time{static_cast<std::int64_t>(n * 1000)}; };
    sim_options o;
    o.capacity              = 143'771_MiB;
    o.pinned_capacity       = 128_GiB;
    o.host_bandwidth        = 55'500'000'000;
    o.pageable_bandwidth    = 9'060'000'000;
    o.device_bandwidth      = 2115_GB;
    o.fill_bandwidth        = 4470_GB;
    o.host_copy_bandwidth   = 9'000'000'000;
    o.pinned_read_bandwidth = 13'200'000'000;
    o.file_read_bandwidth   = 7'300'000'000;
    o.core_cache            = 2_MiB;
    o.cached_bandwidth      = 30'000'000'000;
    o.copy_latency          = us(2.65);
    o.kernel_latency        = us(1.48);
    o.write_value_latency   = us(1.79);
    o.start_latency         = us(2.0);
    o.compute_slots         = 128;
    o.query_cost            = sim_time{0};
    sim_costs& c            = o.costs;
    c.allocate              = {{2_MiB, us(34.8)},   {8_MiB, us(34.6)},   {32_MiB, us(49.2)},
                               {128_MiB, us(52.1)}, {512_MiB, us(84.5)}, {2_GiB, us(217)}};
    c.free                  = {{2_MiB, us(30.2)},   {8_MiB, us(32.8)},    {32_MiB, us(49.1)},
                               {128_MiB, us(71.2)}, {512_MiB, us(189.2)}, {2_GiB, us(848)}};
    c.allocate_small        = us(1.3);
    c.free_small            = us(1.3);
    c.allocate_page         = us(29);
    c.free_page             = us(25.5);
    c.allocate_async        = {{0, us(1.09)}, {128_MiB, us(1.3)}, {2_GiB, us(2.2)}};
    c.grow_async            = {{0, us(0)}, {1_GiB, us(1030)}};
    c.free_async            = {{0, us(0.71)}, {128_MiB, us(0.88)}, {2_GiB, us(1.82)}};
    c.pin     = {{64_KiB, us(19.7)}, {1_MiB, us(361)}, {64_MiB, us(21'898)}, {1_GiB, us(372'023)}};
    c.unpin   = {{64_KiB, us(8.9)}, {1_MiB, us(110)}, {64_MiB, us(5'717)}, {1_GiB, us(88'186)}};
    c.reserve = us(9.2);
    c.create  = {{4_MiB, us(9)}, {64_MiB, us(10.7)}, {512_MiB, us(16.3)}, {2_GiB, us(50.8)}};
    c.map     = us(0.63);
    c.set_access  = {{2_MiB, us(22.8)}, {64_MiB, us(24.1)}, {512_MiB, us(41.8)}, {2_GiB, us(79.9)}};
    c.unmap       = {{64_MiB, us(15.6)}, {512_MiB, us(21.5)}, {2_GiB, us(36)}};
    c.destroy     = {{2_MiB, us(16.3)},
                     {20_MiB, us(21.1)},
                     {64_MiB, us(32.4)},
                     {512_MiB, us(160)},
                     {2_GiB, us(552)}};
    c.release     = us(12);
    c.copy        = us(1.26);
    c.copy_within = us(3.7);
    c.copy_batched       = us(0.41);
    c.fill               = us(3.1);
    c.launch             = us(3.75);
    c.host_function      = us(0.89);
    c.write_value        = us(0.77);
    c.create_stream      = us(2.24);
    c.create_event       = us(0.26);
    c.record             = us(0.17);
    c.wait               = us(0.16);
    c.query              = us(0.2);
    c.synchronize        = us(0.29);
    c.wake               = us(1.8);
    c.thread_wake        = us(5.3);
    c.driver_handoff     = us(0.75);
    c.driver_switch      = us(5.8);
    c.pageable_to_device = {{4_KiB, us(2)},     {64_KiB, us(10)},    {256_KiB, us(21)},
                            {1_MiB, us(73)},    {4_MiB, us(255)},    {16_MiB, us(999)},
                            {64_MiB, us(4256)}, {1_GiB, us(118'475)}};
    c.pageable_to_host   = {{4_KiB, us(3)},     {64_KiB, us(10)},   {256_KiB, us(26)},
                            {1_MiB, us(94)},    {4_MiB, us(295)},   {16_MiB, us(1005)},
                            {64_MiB, us(4020)}, {1_GiB, us(68'460)}};
    return o;
}
inline sim_options sim_options::h100() {
    sim_options o      = h200();
    o.capacity         = 81'559_MiB;
    o.device_bandwidth = 1500_GB;
    return o;
}

} // namespace vram
