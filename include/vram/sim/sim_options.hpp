// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_options` are the numbers and kinds of devices of a simulated node, their capacities and
/// checks.

#include <vram/base/bytes.hpp>   // size literals
#include <vram/sim/sim_time.hpp> // sim_time

#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <vector>  // vector

namespace vram {

/// A one-way connection between two devices.
struct sim_link {
    int         from      = 0;
    int         to        = 0;
    std::size_t bandwidth = 50_GB; ///< bytes per second
    sim_time    latency{1000};
};

/// The kinds of mistakes that are looked for. Each costs only while it is on.
struct sim_checks {
    bool races         = true;  ///< accesses to one byte that nothing orders
    bool bounds        = true;  ///< outside any live allocation, or after its free
    bool uninitialised = false; ///< reads of what was never written
    bool residency     = true; ///< device on pageable memory, host on device memory, no peer access
    bool frees         = true; ///< double, foreign, or not after the last use
    bool leaks         = true; ///< memory that is out when the node ends
    bool capacity      = false; ///< also report requests that were refused for want of memory
};

/// What happens to a report besides being collected.
enum class sim_on_report : unsigned char {
    collect,    ///< nothing
    print,      ///< it is printed to stderr at once
    throw_it,   ///< `sim_race` is thrown where it was noticed (never out of a `noexcept` call)
    abort_here, ///< it is printed and the program aborts, for a debugger to see where
};

/// In which order participating threads (`sim_thread`) run.
enum class sim_order : unsigned char {
    by_time,   ///< the one with the earliest clock, ties by number: exact and repeatable
    by_seed,   ///< any that can, drawn from `seed`: repeatable
    by_choice, ///< as `choices` says: how `sim_explore` goes through all of them
    freely,    ///< as ordinary threads: real concurrency, no virtual figures
};

/// Whose order the default stream of a device takes part in.
enum class sim_default_stream : unsigned char { legacy, per_thread };

/// A node. The defaults are one device with round figures and every check on that every program
/// passes.
struct sim_options {
    int         devices         = 1;
    std::size_t capacity        = 16_GiB; ///< of each device
    std::size_t pinned_capacity = 64_GiB; ///< what may be page-locked; managed memory has as much
    std::size_t granularity     = 512;    ///< what an allocation is counted in
    std::size_t page            = 2_MiB;  ///< what addresses are mapped in: a power of two
    bool        backed          = true;   ///< device memory has contents; else copies move nothing
    bool dereferenceable = false; ///< the host may use device addresses (no fault where it does)

    std::size_t host_bandwidth = 25_GB;    ///< pinned memory and device, each way; bytes per second
    std::size_t pageable_bandwidth = 5_GB; ///< pageable memory and device
    std::size_t device_bandwidth   = 1000_GB;
    /// What one thread of the host copies, in bytes per second, where it says that it does
    /// (`sim_host_copies`); 0: in no time.
    std::size_t host_copy_bandwidth = 0;
    /// Whether devices read pageable memory through the host's page tables, as they say of
    /// themselves; how fast, `pageable_bandwidth` says.
    bool                  host_page_tables = false;
    sim_time              copy_latency{1000};
    std::vector<sim_link> links = {};   ///< empty: every pair, with the defaults of `sim_link`
    bool peer_access            = true; ///< whether kernels may use other devices' memory at first

    int compute_slots   = 1; ///< kernels that run at one time on a device
    int to_device_slots = 1; ///< copy engines of each kind
    int to_host_slots   = 1;
    int peer_slots      = 1;

    sim_time call_cost{0};    ///< host time of any call
    sim_time query_cost{200}; ///< of asking and hearing "not yet", so that a loop that asks gets on

    sim_default_stream default_stream = sim_default_stream::legacy;
    sim_checks         checks         = {};
    sim_on_report      on_report      = sim_on_report::print;
    bool               trace = false; ///< keep every finished operation (`sim_node::trace`)

    sim_order             threads = sim_order::by_time;
    std::uint64_t         seed    = 1;
    std::vector<unsigned> choices = {};
    unsigned preemptions = 2; ///< by_choice: how often a thread that could go on is stopped
};

} // namespace vram
