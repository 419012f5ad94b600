// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_options` describes a simulated node: its devices, capacities, speeds and checks.

#include <vram/base/bytes.hpp>   // size literals
#include <vram/sim/sim_time.hpp> // sim_time

#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <vector>  // vector

namespace vram {

/// A one-way connection between two devices of a node, for peer copies.
struct sim_link {
    int         from      = 0;
    int         to        = 0;
    std::size_t bandwidth = 50_GB; ///< speed of copies in bytes per second
    sim_time    latency{1000};
};

/// Selects the mistakes that a node detects. A check costs time only while it is on.
struct sim_checks {
    bool races = true; ///< report two unordered accesses to one byte, one of them a write
    /// Report accesses of a kernel through `sim_view` to memory that it does not declare.
    bool declarations  = true;
    bool bounds        = true;  ///< report accesses outside live allocations, or after the free
    bool uninitialised = false; ///< report reads of memory that was never written
    /// Report accesses to memory that the device or the host cannot access.
    bool residency = true;
    bool frees     = true;  ///< report double and foreign frees, and frees before the last use
    bool leaks     = true;  ///< report memory that is live when the node ends
    bool capacity  = false; ///< report allocations that were refused because memory was short
};

/// The reaction of a node to a mistake, beyond storing the report.
enum class sim_on_report : unsigned char {
    collect, ///< the report is only stored; `sim_node::reports` returns it
    print,   ///< the report is also printed to stderr
    /// The call that made the mistake throws `sim_race` with the report, unless it is `noexcept`.
    throw_it,
    /// The report is printed and the program aborts, so that a debugger stops there.
    abort_here,
};

/// The order in which participating threads (`sim_thread`) run.
enum class sim_order : unsigned char {
    /// Of the threads that can run, the one with the earliest virtual clock (simulated time) runs;
    /// if two are equal, the one with the lower number. Times are exact, and runs repeatable.
    by_time,
    /// Of the threads that can run, a random one runs (by `sim_options::seed`). Runs are
    /// repeatable.
    by_seed,
    /// The thread that `sim_options::choices` selects runs. `sim_explore` tries all choices.
    by_choice,
    /// All threads run concurrently in real time. Virtual (simulated) times are not exact.
    freely,
};

/// The meaning of a default stream view: the legacy default stream, or one for each thread.
enum class sim_default_stream : unsigned char { legacy, per_thread };

/// The description of a simulated node. The defaults are one device with round numbers, and all
/// checks that a correct program always passes.
struct sim_options {
    int         devices  = 1;
    std::size_t capacity = 16_GiB; ///< bytes of memory of each device
    /// Largest number of bytes of pinned memory, and the same for managed memory.
    std::size_t pinned_capacity = 64_GiB;
    std::size_t granularity     = 512;   ///< allocations are rounded up to this many bytes
    std::size_t page            = 2_MiB; ///< unit of virtual memory mappings; a power of two
    /// If true, device memory has contents. If false, kernels and copies transfer no data.
    bool backed = true;
    /// If true, the host may dereference device addresses. If false, they fault.
    bool dereferenceable = false;

    /// Speed of copies between pinned memory and a device, for each direction, in bytes per second.
    std::size_t host_bandwidth = 25_GB;
    /// Speed of copies between pageable memory and a device, in bytes per second.
    std::size_t pageable_bandwidth = 5_GB;
    std::size_t device_bandwidth   = 1000_GB;
    /// Speed at which one host thread copies memory, in bytes per second, for copies that are
    /// declared with `sim_host_copies`. With 0 they take no virtual (simulated) time.
    std::size_t host_copy_bandwidth = 0;
    /// True if devices access pageable memory through the host's page tables (as devices with full
    /// unified memory report). Such accesses have the speed `pageable_bandwidth`.
    bool     host_page_tables = false;
    sim_time copy_latency{1000};
    /// The links between devices. If empty, every pair has a link with the defaults of `sim_link`.
    std::vector<sim_link> links = {};
    /// If true, kernels may access the memory of all devices (see `sim_device::set_peer_access`).
    bool peer_access = true;

    int compute_slots   = 1; ///< number of kernels that a device runs at the same time
    int to_device_slots = 1; ///< number of host-to-device copy engines of a device
    int to_host_slots   = 1;
    int peer_slots      = 1;

    /// Virtual (simulated) time by which each call advances the clock of the calling thread.
    sim_time call_cost{0};
    /// Simulated time that a query costs if its result is "not complete", so that polling ends.
    sim_time query_cost{200};

    sim_default_stream default_stream = sim_default_stream::legacy;
    sim_checks         checks         = {};
    sim_on_report      on_report      = sim_on_report::print;
    /// If true, mistakes of one kind at one pair of source lines are one report with a count.
    bool merge_reports = true;
    /// If true, every completed operation is stored for `sim_node::trace`.
    bool trace = false;

    sim_order             threads = sim_order::by_time;
    std::uint64_t         seed    = 1;
    std::vector<unsigned> choices = {};
    /// With `by_choice`: how many times in one run a thread may be stopped that could continue.
    unsigned preemptions = 2;
};

/// The threads that must not make unsafe calls during a capture: all, the capturing one, none.
enum class sim_capture_mode : unsigned char { global, thread_local_only, relaxed };

} // namespace vram
