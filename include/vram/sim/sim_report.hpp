// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_report` is a mistake that the simulated machine saw, told so that it can be mended.

#include <vram/sim/sim_time.hpp> // sim_time

#include <cstddef>         // size_t
#include <cstdint>         // uint64_t, uintptr_t
#include <exception>       // exception
#include <source_location> // source_location
#include <string>          // string, to_string
#include <utility>         // move

namespace vram {

/// The kinds of mistakes.
enum class sim_mistake : unsigned char {
    race,                 ///< two accesses that nothing orders
    overlapping_copy,     ///< a copy whose source and destination share bytes
    use_before_ready,     ///< an access that its allocation does not come before
    use_after_free,       ///< an access to memory that was given back
    out_of_bounds,        ///< an access outside any live allocation
    unmapped_access,      ///< an access to reserved addresses that nothing is mapped to
    uninitialised_read,   ///< a read of what nobody wrote
    pageable_access,      ///< a device on host memory that is not pinned
    host_access,          ///< the host on device memory
    peer_access,          ///< a device on another's memory without peer access
    free_before_last_use, ///< a free that an earlier use does not come before
    double_free,          ///< given back twice
    foreign_free, ///< given back to a kind of memory that it is not from, or not a block at all
    wrong_size,   ///< given back with another size than it was asked with
    capacity_exceeded, ///< a request that the device had no memory for
    leak,              ///< still out at the end
    deadlock,          ///< threads that wait for each other
    thread_failed,     ///< an exception left a thread's callable
};

/// The name of a mistake, as it is printed.
[[nodiscard]] constexpr char const* name(sim_mistake kind) noexcept {
    switch (kind) {
    case sim_mistake::race: return "race";
    case sim_mistake::overlapping_copy: return "copy between overlapping ranges";
    case sim_mistake::use_before_ready: return "use before the allocation is complete";
    case sim_mistake::use_after_free: return "use after free";
    case sim_mistake::out_of_bounds: return "access outside any live allocation";
    case sim_mistake::unmapped_access: return "access to addresses with no memory";
    case sim_mistake::uninitialised_read: return "read of memory that was never written";
    case sim_mistake::pageable_access: return "device access to pageable memory";
    case sim_mistake::host_access: return "host access to device memory";
    case sim_mistake::peer_access: return "access from a device without peer access";
    case sim_mistake::free_before_last_use: return "free that does not follow the last use";
    case sim_mistake::double_free: return "double free";
    case sim_mistake::foreign_free: return "free of what was not allocated here";
    case sim_mistake::wrong_size: return "free with another size";
    case sim_mistake::capacity_exceeded: return "capacity exceeded";
    case sim_mistake::leak: return "leak";
    case sim_mistake::deadlock: return "deadlock";
    case sim_mistake::thread_failed: return "exception left a thread";
    }
    return "unknown";
}

/// Who did what to memory, when, and from where in the source. `name` lives as long as the program.
struct sim_event_of {
    enum class kind : unsigned char { none, read, write, allocation, release };

    char const*          name   = ""; ///< "copy", "fill", a kernel's name, "host", ...
    kind                 what   = kind::none;
    bool                 host   = false; ///< by a host thread; `actor` is its number
    std::uint64_t        number = 0;     ///< of the operation, in the order of the calls
    std::uint64_t        actor  = 0;     ///< the stream's id, or the host thread's number
    int                  device = 0;
    sim_time             time{}; ///< when it was asked for
    std::source_location where = {};
    std::size_t          slot  = 0; ///< of the vector clocks
    std::uint64_t        count = 0;

    /// "`copy` #12 on stream 3": how reports name it.
    [[nodiscard]] std::string title() const {
        std::string text = "`" + std::string{name} + "` #" + std::to_string(number);
        if (host) { return text + " by host thread " + std::to_string(actor); }
        return text + " on stream " + std::to_string(actor) + " of device " +
               std::to_string(device);
    }
};

/// One mistake with both operations. `first` is empty where only one took part.
struct sim_report {
    sim_mistake    kind{};
    sim_event_of   second{};    ///< what was being asked for when it was noticed
    sim_event_of   first{};     ///< what it is in conflict with
    std::uintptr_t address = 0; ///< the range that both touch
    std::size_t    bytes   = 0;
    std::string    missing = {}; ///< the edge that would have ordered them, in words

    /// The report as text of a few lines.
    [[nodiscard]] std::string text() const;
};

/// A report, thrown where the node was told to.
class sim_race : public std::exception {
public:
    explicit sim_race(sim_report report) : report_{std::move(report)}, text_{report_.text()} {}

    [[nodiscard]] sim_report const& report() const noexcept { return report_; }
    [[nodiscard]] char const*       what() const noexcept override { return text_.c_str(); }

private:
    sim_report  report_;
    std::string text_;
};

namespace detail {

inline std::string hexadecimal(std::uintptr_t value) {
    std::string digits;
    do {
        digits.insert(digits.begin(), "0123456789abcdef"[value % 16]);
        value /= 16;
    } while (value != 0);
    return "0x" + digits;
}

inline std::string describe(sim_event_of const& e) {
    char const* const verbs[] = {"touches", "reads", "writes", "allocates", "frees"};
    return e.title() + " " + verbs[static_cast<int>(e.what)] + " it (asked for at " +
           std::to_string(e.time.count()) + " ns, " + e.where.file_name() + ":" +
           std::to_string(e.where.line()) + ")";
}

} // namespace detail

inline std::string sim_report::text() const {
    std::string out = std::string{"vram::sim: "} + name(kind);
    if (bytes != 0 || address != 0) {
        out += ": " + std::to_string(bytes) + " bytes at " + detail::hexadecimal(address);
    }
    if (second.what != sim_event_of::kind::none) { out += "\n  " + detail::describe(second); }
    if (first.what != sim_event_of::kind::none) {
        out += "\n  in conflict with " + detail::describe(first);
    }
    if (!missing.empty()) { out += "\n  " + missing; }
    return out;
}

} // namespace vram
