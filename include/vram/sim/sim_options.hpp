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
    std::size_t bandwidth = 50_GB; ///< speed of copies through this link, in bytes per second
    sim_time    latency{1000};
};

/// Selects the mistakes that a `sim_node` detects. A check costs time only while it is on.
struct sim_checks {
    /// Report unordered accesses to one byte, unless both only read or both are atomic.
    bool races = true;
    /// Report accesses that a kernel or a host function makes through `sim_view` or `sim_touch`,
    /// but does not declare.
    bool declarations  = true;
    bool bounds        = true;  ///< report accesses to memory that is not allocated, or was freed
    bool uninitialised = false; ///< report reads of memory that was never written
    /// Report accesses to memory that the device or the host cannot access.
    bool residency = true;
    /// Report double frees, frees before the last use, and frees of unknown pointers.
    bool frees = true;
    /// Report memory that is not freed when the `sim_node` (simulated machine) ends. With `races`,
    /// `bounds` or `uninitialised`, also report blocks that are not freed when their pool ends.
    bool leaks    = true;
    bool capacity = false; ///< report allocations that the device refused
};

/// What a `sim_node` (simulated machine) does when it detects a mistake.
enum class sim_on_report : unsigned char {
    collect, ///< stores the report, which `sim_node::reports` returns
    print,   ///< stores the report and prints it to stderr
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
    /// Of the threads that can run, a random one runs next. `sim_options::seed` determines the
    /// random numbers, so that runs are repeatable.
    by_seed,
    /// If several threads can run, the next index in the list `sim_options::choices`, modulo their
    /// number, selects one. After the end of the list, the first one runs. `sim_explore` varies it.
    by_choice,
    /// All threads run concurrently in real time. Simulated times are not exact.
    freely,
};

/// The order that the checker assumes between the calls of host threads.
///
///     sim_node node{{.host_threads = sim_host_order::checked}};
enum class sim_host_order : unsigned char {
    /// Each call of an ordinary thread (no `sim_thread`) happens after all earlier calls of
    /// ordinary threads. For calls of a `sim_thread`, the rules of `checked` apply.
    by_kind,
    /// Each call happens after all earlier calls of other threads, so a lack of synchronisation
    /// between host threads is not found.
    ordered,
    /// Assumes no order between host threads. Only streams, events, `sim_thread`, `sim_gate` and
    /// `sim_platform::lock` order accesses. The program declares any other order with
    /// `sim_happens_before` and `sim_happens_after`.
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
        /// Simulated time that a call for `bytes` bytes costs.
        sim_time time;
    };

    sim_cost() = default; ///< Creates a cost of zero.
    /// Every call costs the time `each`.
    template <std::convertible_to<sim_time> Duration>
    sim_cost(Duration each) {
        if (each != Duration{}) { points_ = {{0, each}}; }
    }
    /// `points` must be in ascending order of bytes; two with equal bytes are a step. Below all
    /// points and above a last step, the cost is constant. Above a last slope, that continues.
    sim_cost(std::initializer_list<point> points) : points_{points} {}

    /// Returns the cost of a call for `bytes` bytes, rounded down to nanoseconds.
    [[nodiscard]] sim_time of(std::size_t bytes) const noexcept {
        if (points_.size() < 2 || bytes <= points_.front().bytes) {
            return points_.empty() ? sim_time{} : points_.front().time;
        }
        std::size_t last = 1;
        while (last + 1 < points_.size() && points_[last].bytes < bytes) { ++last; }
        __extension__ typedef __int128 wide;
        point const &                  from = points_[last - 1], &to = points_[last];
        if (from.bytes == to.bytes) { return to.time; }
        wide const rise = wide{(to.time - from.time).count()} * wide{bytes - from.bytes};
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
    sim_cost allocate = {}; ///< cost of a call of `cudaMalloc` for more than 1 MiB
    sim_cost free     = {}; ///< cost of `cudaFree` of over 1 MiB, except its wait for the device
    /// Cost of `cudaMalloc` of up to 1 MiB. The driver places such blocks in pages of 2 MiB.
    sim_cost allocate_small = {};
    sim_cost free_small     = {}; ///< cost of `cudaFree` of a block of up to 1 MiB
    /// Cost that is added to `allocate_small` if the allocation needs a new page of 2 MiB. Blocks
    /// of up to 1 MiB share these pages.
    sim_time allocate_page{};
    /// Cost that is added to `free_small` if the free leaves a page of 2 MiB without use. Blocks of
    /// up to 1 MiB share these pages.
    sim_time free_page{};
    sim_cost allocate_async = {}; ///< cost of `cudaMallocAsync`
    /// Cost that is added to `allocate_async` if the pool of the driver has to grow, or to map
    /// free memory at other addresses. The cost depends on the number of mapped bytes.
    sim_cost grow_async = {};
    /// Cost that is added to `allocate_async` for each range of free memory that the driver moves
    /// from a stream to the pool. Used if `sim_options::pool_unit` is not 0.
    sim_time merge_async{};
    sim_cost free_async   = {}; ///< cost of `cudaFreeAsync`
    sim_cost pin          = {}; ///< cost of `cudaMallocHost` and `cudaHostRegister`, by bytes
    sim_cost unpin        = {}; ///< cost of `cudaFreeHost`
    sim_cost reserve      = {}; ///< cost of `cuMemAddressReserve`
    sim_cost create       = {}; ///< cost of `cuMemCreate`
    sim_cost map          = {}; ///< cost of `cuMemMap`
    sim_cost set_access   = {}; ///< cost of `cuMemSetAccess` for each mapping in the range
    sim_cost unmap        = {}; ///< cost of `cuMemUnmap` for each mapping in the range
    sim_cost destroy      = {}; ///< cost of `cuMemRelease`
    sim_cost release      = {}; ///< cost of `cuMemAddressFree`
    sim_cost copy         = {}; ///< cost of `cudaMemcpyAsync`, without the time that the host waits
    sim_cost copy_within  = {}; ///< cost of a `cudaMemcpyAsync` call that copies within one device
    sim_cost copy_batched = {}; ///< cost of each copy in a call of `cudaMemcpyBatchAsync`
    sim_cost fill         = {};
    sim_cost launch       = {};  ///< cost of a kernel launch
    sim_cost host_function = {}; ///< cost of `cudaLaunchHostFunc`
    sim_cost write_value   = {}; ///< cost of `cuStreamWriteValue32` or `cuStreamWaitValue32`
    sim_cost create_stream = {}; ///< cost of `cudaStreamCreate`
    sim_cost create_event  = {}; ///< cost of `cudaEventCreate`
    sim_cost record        = {};
    sim_cost wait          = {}; ///< cost of `cudaStreamWaitEvent`
    sim_cost query         = {}; ///< cost of `cudaEventQuery` or `cudaStreamQuery`
    /// Cost of a call in which the host waits for a stream, an event or the device, such as
    /// `cudaStreamSynchronize`. If the awaited work is not complete at the call, `wake` is added.
    sim_cost synchronize = {};
    /// Added to a wait of the host for incomplete work: the time from the end of that work until
    /// the waiting thread runs.
    sim_time wake{};
    /// Time from the notification of a `sim_thread` that sleeps at a `sim_gate` (a condition
    /// variable) until it holds the gate.
    sim_time thread_wake{};
    /// Time added to a call that waits because another thread's call on the device is in progress.
    /// The driver executes one call that queues work, allocates or frees at a time.
    sim_time driver_handoff{};
    /// Time added to a call that queues work, allocates or frees, if another thread made the
    /// previous such call on the device. It is not added to a call that gets `driver_handoff`.
    sim_time driver_switch{};
    /// Duration of a copy from pageable memory to a device, to which `sim_options::copy_latency` is
    /// added. If empty, `sim_options::pageable_bandwidth` determines the duration.
    sim_cost pageable_to_device = {};
    /// Duration of a copy from a device to pageable memory, to which `sim_options::copy_latency` is
    /// added. If empty, `sim_options::pageable_bandwidth` determines the duration.
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
    /// Unit in bytes in which the pools of `sim_async_resource` reserve and map memory. 0: they
    /// reserve exactly the bytes that they need, and never map free memory at other addresses. With
    /// more than 1 TiB, constructors of pools throw `sim_error{invalid_value}`.
    std::size_t pool_unit = 0;
    /// If true, simulated device memory stores data. If false, copies to or from device memory
    /// transfer no data, and `sim_view` of device memory throws.
    bool backed = true;
    /// If true, and `backed` is true, the host may dereference pointers to simulated device memory.
    /// Otherwise, such accesses fault.
    bool dereferenceable = false;

    /// Speed of copies between pinned memory and a device, for each direction, in bytes per second.
    std::size_t host_bandwidth = 25_GB;
    /// Speed of copies between pageable memory and a device, in bytes per second.
    std::size_t pageable_bandwidth = 5_GB;
    std::size_t device_bandwidth   = 1000_GB;
    /// Speed of fills of device memory, in bytes per second; 0 means `device_bandwidth`.
    std::size_t fill_bandwidth = 0;
    /// Speed of copies that host threads declare with `sim_host_copies`, in bytes per second. If 0,
    /// these copies take no time, unless one of the two speeds below applies.
    std::size_t host_copy_bandwidth = 0;
    /// Speed at which one host thread copies from pinned memory, in bytes per second. 0 means
    /// `host_copy_bandwidth`.
    std::size_t pinned_read_bandwidth = 0;
    /// Speed at which one host thread reads a file, in bytes per second. 0 means
    /// `host_copy_bandwidth`.
    std::size_t file_read_bandwidth = 0;
    /// Bytes in the cache of each core of the host. The cache of a thread's core holds the pinned
    /// memory that the thread copied last, in copies declared with `sim_host_copies`.
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
    /// The links for copies between two devices. A copy between devices without a link in its
    /// direction is refused. If the list is empty, every pair of devices has a default `sim_link`.
    std::vector<sim_link> links = {};
    /// If true, kernels, fills and copies may access memory of other devices, except mappings of
    /// virtual memory. Otherwise, as in CUDA, `sim_device::set_peer_access` or
    /// `sim_async_resource::allow_access` must permit it, except for copies of other memory.
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

    /// Simulated time that each call of a device costs the calling thread, in addition to `costs`.
    sim_time call_cost{0};
    /// Simulated time that a query of incomplete work costs. Repeated queries thus advance
    /// simulated time until the work is complete. Each `sim_read_value` costs the same.
    sim_time query_cost{200};
    /// Simulated times of calls and of waking a thread, and durations of pageable copies.
    sim_costs costs = {};

    sim_default_stream default_stream = sim_default_stream::legacy;
    sim_checks         checks         = {};
    sim_on_report      on_report      = sim_on_report::print;
    /// If true, reports with the same kind and the same source lines of both operations are stored
    /// as one report with a count. Leaks of memory that no pool allocated are never merged.
    bool merge_reports = true;
    /// If true, each completed copy, fill, kernel and host function is stored for
    /// `sim_node::trace`.
    bool trace = false;

    sim_order threads = sim_order::by_time;
    /// The order that the checker assumes between the calls of different host threads.
    sim_host_order        host_threads = sim_host_order::by_kind;
    std::uint64_t         seed         = 1;
    std::vector<unsigned> choices      = {};
    /// With `by_choice`: largest number of preemptions in one run. A preemption stops a thread that
    /// could continue, and another thread runs.
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
    o.pool_unit             = 32_MiB;
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
    c.merge_async           = us(0.75);
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
