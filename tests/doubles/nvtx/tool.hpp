// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `nvtx_tool` is a double of a tool that reads NVTX: the headers of NVTX find it in the program
/// itself (`tool.cpp`), without a library.

#include "../quiet.hpp" // quiet_map

#include <cstddef>    // size_t
#include <cstdint>    // int64_t, uint64_t, uintptr_t
#include <functional> // function
#include <map>        // map
#include <mutex>      // mutex
#include <string>     // string
#include <utility>    // pair
#include <vector>     // vector

namespace doubles {

/// The calls that the tool got since the last `clear`. `wrong` has a sentence for each call that
/// contradicts the headers of NVTX: sizes, versions and types of descriptors, memory that is not in
/// a heap, or in two regions.
///
/// Threads   The tool is called by any thread; it is read and cleared while no thread calls.
struct nvtx_tool {
    struct sample {
        std::int64_t live, reserved, peak;

        friend bool operator==(sample const&, sample const&) = default;
    };
    struct group {
        std::string         name;
        std::vector<sample> samples;
    };
    struct heap {
        std::size_t                            bytes = 0;
        quiet_map<std::uintptr_t, std::size_t> regions;
    };

    bool attached = true; ///< if false, registrations return null: as without a tool

    std::vector<std::string>                           wrong;
    std::map<std::uint64_t, group>                     groups; ///< by number
    std::vector<std::pair<std::string, std::uint64_t>> marks;
    std::vector<std::string>               ranges; ///< "+name" for a begin, "-" for an end
    quiet_map<std::uintptr_t, heap>        heaps;
    quiet_map<std::uintptr_t, std::string> names; ///< of regions
    std::size_t                            calls = 0;
    /// Called in each sample, after the tool has stored it.
    std::function<void()> after_sample;
    /// Returns true if the tool refuses a heap.
    std::function<bool(std::uintptr_t, std::size_t)> refuses;

    /// The tool of this program.
    static nvtx_tool& get();

    /// Forgets all calls. Heaps that were registered before are unknown from then on; a group of
    /// counters appears again with its next sample.
    void clear();

    /// Called if CUDA frees memory: its heaps and regions end.
    void freed(void const* p, std::size_t bytes);

    /// Returns the group with a name; an empty one if there is none.
    [[nodiscard]] group const& named(std::string const& name) const;
    /// Returns the last sample of a group.
    [[nodiscard]] sample last(std::string const& name) const;
    /// Returns the number of regions of all heaps.
    [[nodiscard]] std::size_t regions() const;

    std::map<std::uint64_t, std::string> earlier; ///< names of the groups before `clear`

    std::mutex mutex;
};

} // namespace doubles
