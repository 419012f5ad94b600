// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_report` describes one mistake that the simulated device detected.

#include <vram/sim/sim_time.hpp> // sim_time

#include <cstddef>         // size_t
#include <cstdint>         // uint64_t, uintptr_t
#include <exception>       // exception
#include <iterator>        // size
#include <source_location> // source_location
#include <string>          // string, to_string
#include <string_view>     // string_view
#include <utility>         // move

namespace vram {

/// The kinds of mistakes that the simulated device reports.
enum class sim_mistake : unsigned char {
    /// Two accesses to the same bytes, one a write, that no stream, event or wait orders.
    race,
    /// A wait for an event, or a query, not ordered after its record by another host thread.
    unordered_wait,
    undeclared_access,    ///< a kernel's access to memory that its declaration does not contain
    overlapping_copy,     ///< a copy with a source and destination that overlap
    use_before_ready,     ///< an access that no stream, event or wait orders after the allocation
    use_after_free,       ///< an access to memory that was freed
    out_of_bounds,        ///< an access outside any live allocation
    unmapped_access,      ///< an access to reserved addresses without mapped memory
    uninitialised_read,   ///< a read of memory that was never written
    pageable_access,      ///< a device access to host memory that is not pinned
    host_access,          ///< a host access to device memory
    peer_access,          ///< a kernel's access to another device without peer access
    free_before_last_use, ///< a free that no stream, event or wait orders after an earlier use
    double_free,          ///< a free of a block that is not live
    /// A free of an address at which this resource has allocated no block.
    foreign_free,
    wrong_size,        ///< a free with a size that differs from the allocation's
    capacity_exceeded, ///< an allocation for which the device had too little memory
    leak,              ///< memory that is live when the node ends
    deadlock,          ///< threads that all wait for each other
    thread_failed,     ///< an exception that a `sim_thread`'s callable did not catch
};

/// Returns the text of a kind of mistake, as reports print it.
[[nodiscard]] constexpr char const* name(sim_mistake kind) noexcept {
    switch (kind) {
    case sim_mistake::race: return "race";
    case sim_mistake::unordered_wait: return "wait that nothing orders after the record";
    case sim_mistake::undeclared_access: return "access that the kernel does not declare";
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
    case sim_mistake::foreign_free: return "free of memory that was not allocated here";
    case sim_mistake::wrong_size: return "free with another size";
    case sim_mistake::capacity_exceeded: return "capacity exceeded";
    case sim_mistake::leak: return "leak";
    case sim_mistake::deadlock: return "deadlock";
    case sim_mistake::thread_failed: return "exception left a thread";
    }
    return "unknown";
}

/// One operation of a report: the stream or host thread that accessed memory, the operation's name,
/// its virtual time, and the source location of the call. `name` must live as long as the program.
struct sim_event_of {
    enum class kind : unsigned char {
        none,
        read,
        write,
        allocation,
        release,
        record,
        wait,
        atomic
    };

    char const* name = ""; ///< "copy", "fill", "host", or the name of a kernel
    kind        what = kind::none;
    /// True if a host thread made the access, false for a stream.
    bool host = false;
    /// True for a host function in a stream (`sim_call_host`).
    bool                 host_function = false;
    std::uint64_t        number = 0; ///< number of the operation among all of the node, from 1
    std::uint64_t        actor  = 0; ///< id of the stream, or number of the host thread
    int                  device = 0;
    sim_time             time{}; ///< virtual (simulated) time of the call
    std::source_location where = {};
    /// Index of this stream or thread in vector clocks, which record the happens-before order.
    std::size_t   slot  = 0;
    std::uint64_t count = 0;

    /// Returns the operation as reports name it, for example "`copy` #12 on stream 3 of device 0".
    [[nodiscard]] std::string title() const {
        std::string text = "`" + std::string{name} + "` #" + std::to_string(number);
        if (host) { return text + " by host thread " + std::to_string(actor); }
        return text + " on stream " + std::to_string(actor) + " of device " +
               std::to_string(device);
    }
};

/// One detected mistake, with the two operations that conflict; `first` is empty if only one does.
///
///     for (sim_report const& r : node.reports()) { std::puts(r.text().c_str()); }
struct sim_report {
    sim_mistake    kind{};
    sim_event_of   second{};    ///< operation during which the mistake was detected
    sim_event_of   first{};     ///< earlier operation with which it conflicts
    std::uintptr_t address = 0; ///< start of the range that both operations access
    std::size_t    bytes   = 0;
    std::string    missing = {}; ///< explanation: the missing wait or order, in words
    /// For a leak: the number of blocks that were allocated at this line.
    std::size_t blocks = 1;

    /// Returns the report as a text of a few lines.
    [[nodiscard]] std::string text() const;
};

/// An exception with a report, which the call that made the mistake throws (`throw_it`).
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

/// Returns a comma and the line of the call; empty if the line is unknown.
inline std::string place(sim_event_of const& e) {
    if (e.where.line() == 0) { return ""; }
    return std::string{", "} + e.where.file_name() + ":" + std::to_string(e.where.line());
}

inline std::string describe(sim_event_of const& e) {
    char const* const verbs[] = {
        "touches it", "reads it",          "writes it",           "allocates it",
        "frees it",   "records the event", "waits for the event", "updates it atomically"};
    return e.title() + " " + verbs[static_cast<int>(e.what)] + " (called at " +
           std::to_string(e.time.count()) + " ns" + place(e) + ")";
}

/// A part of vram that allocates memory for itself, such as a pool, and how to free this memory.
struct sim_allocating_part {
    std::string_view folder; ///< a folder of include/vram, with "/" at the end
    char const*      name;   ///< description of the part; null for the user's own code
    char const*      advice;
};
inline constexpr sim_allocating_part sim_allocating_parts[] = {
    {"pool/", "a pool for its chunks", "Destroy or trim the pool before the node ends."},
    {"transfer/", "a loader, an unloader or staging", "Destroy it before the node ends."},
    {"staging/", "staging", "Destroy it before the node ends."},
    {"source/", "a resource of virtual memory",
     "Destroy it, and the pool over it, before the node ends."},
    {"layer/", "a layer of the stack", "Destroy the stack before the node ends."},
    {"handle/", "a handle: `buffer`, `array` or a container", "Destroy it before the node ends."},
    {"", nullptr, ""}};

/// Returns the part of vram that contains the line, found by the folder of its file.
inline sim_allocating_part const& sim_part_of(std::source_location where) {
    static constexpr std::string_view here = std::source_location::current().file_name();
    std::string_view const            root = here.substr(0, here.rfind("sim/"));
    std::string_view const            file = where.file_name();
    for (sim_allocating_part const& each : sim_allocating_parts) {
        if (each.name == nullptr) { return each; }
        if (file.starts_with(root) && file.substr(root.size()).starts_with(each.folder)) {
            return each;
        }
    }
    return sim_allocating_parts[std::size(sim_allocating_parts) - 1];
}

/// Returns the text of a leak report after the name of its kind.
inline std::string describe_leak(sim_report const& r) {
    sim_allocating_part const& part = sim_part_of(r.first.where);
    std::string                text = ": " + std::to_string(r.bytes) + " bytes";
    if (r.blocks > 1) { text += " in " + std::to_string(r.blocks) + " blocks"; }
    if (r.address != 0) {
        text += (r.blocks > 1 ? ", one of them at " : " at ") + hexadecimal(r.address);
    }
    if (*r.first.name != '\0') {
        text += "\n  allocated by ";
        if (part.name != nullptr) {
            text += std::string{part.name} + (r.blocks > 1 ? ", first by " : " by ");
        }
        text += r.first.title() + " at " + std::to_string(r.first.time.count()) + " ns" +
                place(r.first);
    }
    std::string_view const advice = r.missing.empty() ? part.advice : std::string_view{r.missing};
    return advice.empty() ? text : text.append("\n  ").append(advice);
}

} // namespace detail

inline std::string sim_report::text() const {
    std::string out = std::string{"vram::sim: "} + name(kind);
    if (kind == sim_mistake::leak) { return out + detail::describe_leak(*this); }
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
