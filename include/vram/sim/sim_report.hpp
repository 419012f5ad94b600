// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_report` describes one mistake that the simulated device detected.

#include <vram/sim/machine/sim_allocating_part.hpp>
#include <vram/sim/sim_time.hpp>

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>
#include <exception>       // exception
#include <source_location> // source_location
#include <string>          // string, to_string
#include <string_view>     // string_view
#include <utility>
#include <vector> // vector

namespace vram {

/// The kinds of mistakes that the simulated device reports.
enum class sim_mistake : unsigned char {
    /// Two accesses to the same bytes that no stream, event or wait puts in an order. Two reads, or
    /// two atomic accesses, are no race.
    race,
    /// A wait for an event, or a query of an event, that another host thread may not have recorded
    /// yet. Nothing orders the wait or query after the record.
    unordered_wait,
    undeclared_access,    ///< an access of a kernel or host function without a declaration
    overlapping_copy,     ///< a copy with a source and destination that overlap
    use_before_ready,     ///< an access that no stream, event or wait orders after the allocation
    use_after_free,       ///< an access to memory that was freed
    out_of_bounds,        ///< an access outside any live allocation
    unmapped_access,      ///< an access to reserved virtual addresses without accessible memory
    uninitialised_read,   ///< a read of memory that was never written
    pageable_access,      ///< a kernel's access to host memory that is not pinned or managed
    host_access,          ///< a host access to device memory
    peer_access,          ///< a kernel's access to another device without peer access
    free_before_last_use, ///< a free that no stream, event or wait orders after an earlier use
    double_free,          ///< a free of a block that is not live
    /// A free of an address at which this resource has allocated no block.
    foreign_free,
    wrong_size,        ///< a free with another size or alignment than the allocation
    capacity_exceeded, ///< an allocation that the device refused
    leak,              ///< memory that was not freed before its pool or the simulated machine ended
    deadlock,          ///< threads or queued operations that can never continue
    thread_failed,     ///< an exception that a `sim_thread`'s callable did not catch
    not_reported,      ///< a mistake that a `sim_expect` expects, and that was not reported
};

/// Returns the text of a kind of mistake, as reports print it.
[[nodiscard]] constexpr char const* name(sim_mistake kind) noexcept {
    switch (kind) {
    case sim_mistake::race: return "race";
    case sim_mistake::unordered_wait: return "wait that nothing orders after the record";
    case sim_mistake::undeclared_access: return "access that the operation does not declare";
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
    case sim_mistake::not_reported: return "expected report that did not occur";
    }
    return "unknown";
}

/// The part of a program that queued an operation: the program itself, or a part of vram.
enum class sim_part : unsigned char {
    program,  ///< the program itself
    handle,   ///< an object that owns memory, such as `buffer`
    loader,   ///< a `loader`, which copies batches to the device
    unloader, ///< an `unloader`, which copies results to the host
    staging   ///< a `staging`, which copies pageable memory or files to or from the device
};

/// One of the operations of a report, with its stream or host thread. `name` must live as long as
/// the program.
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
    /// Value of `item` for an operation that does not copy a batch of a `loader` or a result of an
    /// `unloader`.
    static constexpr std::uint32_t no_item = static_cast<std::uint32_t>(-1);

    char const* name = ""; ///< "copy host to device", "fill", "host", or the name of a kernel
    kind        what = kind::none;
    /// True if a host thread made the access, false for a stream.
    bool host = false;
    /// True for a host function in a stream (`sim_call_host`).
    bool host_function = false;
    bool graph         = false; ///< true if the operation is a node of a launched graph
    /// The part of vram that made the call, or `program` if the user's code made it.
    sim_part part = sim_part::program;
    /// Number of the operation in its `sim_node`, counted from 1. A record, wait or query of an
    /// event has no number of its own. It gets the number of the operation before it.
    std::uint64_t number = 0;
    std::uint64_t actor  = 0; ///< id of the operation's stream, or number of its host thread
    int           device = 0;
    /// Number of the batch or result that a loader or unloader copies, or `no_item`.
    std::uint32_t        item = no_item;
    sim_time             time{}; ///< simulated time of the call that made the operation
    std::source_location where = {};
    /// Index of the stream or thread of the access in vector clocks, which record the
    /// happens-before order.
    std::size_t   slot  = 0;
    std::uint64_t count = 0;

    /// Returns the name and number of the operation, for example "`loader copy of batch 2` #17".
    [[nodiscard]] std::string label() const {
        std::string const of = item == no_item ? "" : " " + std::to_string(item);
        return "`" + (name + of) + "` #" + std::to_string(number);
    }
    /// Returns a text that names the operation, such as "`add` #12 on stream 3 of device 0". `by`:
    /// name of the stream or thread. If `by` is empty, the text contains its number.
    [[nodiscard]] std::string title(std::string_view by = {}) const {
        std::string const of{by};
        if (host) {
            return label() + " by " + (of.empty() ? "host thread " + std::to_string(actor) : of);
        }
        return label() + " on " + (of.empty() ? "stream " + std::to_string(actor) : of) +
               " of device " + std::to_string(device);
    }
};

/// The block that contains the memory of a report. If there is no such block, this is the nearest
/// block at a lower address. If no block is known, `bytes` is 0.
///
///     sim_block_of const& block = node.reports().front().block;
///     std::printf("%s of %zu bytes\n", block.resource, block.bytes);
struct sim_block_of {
    /// Name of the resource, such as a pool, that allocated the block as a part of a larger block.
    /// Empty for all other blocks.
    char const* resource = "";
    /// The first address of the block.
    std::uintptr_t address = 0;
    std::size_t    bytes   = 0; ///< the size that the program requested
    sim_event_of   allocated{}; ///< the operation that allocated the block
    sim_event_of   freed{};     ///< the operation that freed the block, if it was freed
    /// The free of the previous block in the same memory, if that free is known.
    sim_event_of before{};
    std::string  allocated_by = {}; ///< the stream or thread that allocated the block
    /// The stream or thread that freed the block.
    std::string freed_by = {};
    /// The stream or thread that made the free `before`.
    std::string before_by = {};

    /// Returns a text about the block for a report. If the address `accessed` lies after the start
    /// of the block, the text gives its offset.
    [[nodiscard]] std::string text(std::uintptr_t accessed) const;
};

/// One detected mistake, with the two operations that conflict. For a leak, `first` is the
/// allocation, and `second` is empty. Repeated mistakes at the same lines are counted (`count`).
///
///     for (sim_report const& r : node.reports()) { std::puts(r.text().c_str()); }
struct sim_report {
    sim_mistake    kind{};
    sim_event_of   second{};    ///< the later or only operation; empty if there is none (a leak)
    sim_event_of   first{};     ///< the earlier of the two operations; for a leak, the allocation
    std::uintptr_t address = 0; ///< start of the memory to which the report applies
    std::size_t    bytes   = 0;
    std::string    missing = {}; ///< the missing wait or order, in words
    sim_block_of   block{};      ///< the block that contains `address`, or the nearest block below
    /// Number of leaked blocks that this report describes, if `kind` is `leak`; otherwise 1.
    std::size_t blocks = 1;
    /// Number of times that this kind of mistake occurred at the source lines of `first` and
    /// `second`. The other members describe the first occurrence.
    std::size_t count     = 1;
    std::string second_by = {}; ///< the stream or thread of `second`, such as `stream "copies"`
    /// The stream or thread of the earlier operation, `first`.
    std::string first_by = {};
    std::string memory   = {}; ///< the name of the accessed memory (`sim_name`) and the offset

    /// Returns the report as a text of a few lines.
    [[nodiscard]] std::string text() const;

    /// Returns a text with the kind of mistake and the source lines of both operations, such as
    /// "race: app.cpp:12, app.cpp:34". Mistakes of one kind at the same lines have equal keys.
    [[nodiscard]] std::string key() const;
};

/// The numbers of accesses that a `sim_node` could not check, and of reports that it suppressed.
///
///     std::puts(node.unchecked().text().c_str());
struct sim_unchecked {
    std::uint64_t kernels        = 0; ///< number of kernels that declare no access
    std::uint64_t host_functions = 0; ///< number of host functions that declare no access
    /// Number of accesses to pageable memory, by the host or a copy, that were not checked.
    std::uint64_t pageable = 0;
    /// Number of pairs of accesses of which the check does not know if they are races. An old wait,
    /// of which the record was discarded, may order such a pair.
    std::uint64_t waits = 0;
    /// Number of cases in which the race check may be wrong about the write that ended a wait for a
    /// value.
    std::uint64_t values = 0;
    /// Number of gaps in the record of allocations, frees and chunks of resources. A gap is an
    /// event that was lost for lack of host memory, or a time in which no check recorded events.
    std::uint64_t resource_events = 0;
    /// Number of accesses, and of happens-before relations, that were not recorded for lack of host
    /// memory. After the first loss, no races are reported until `sim_node::set_checks` is called.
    std::uint64_t orders  = 0;
    std::uint64_t ignored = 0; ///< number of reports that `sim_node::ignore` suppressed
    /// The keys passed to `sim_node::ignore` that suppressed no report so far.
    std::vector<std::string> unused_keys = {};

    /// Returns the numbers that are not 0 as one line of text, or "everything was checked". The
    /// line ends with `unused_keys`, if there are any.
    [[nodiscard]] std::string text() const;
};

/// A function that a `sim_node` with `sim_on_report::print` calls for each report, also for each
/// repeated report. Must not call the simulated device.
using sim_report_sink = void (*)(sim_report const&);

namespace detail {
inline std::atomic<sim_report_sink> sim_sink{nullptr};
}

/// Makes `sink` the function that each `sim_node` with `sim_on_report::print` calls for each
/// report, also for each repeated report. Null (the default) means no function. Returns the
/// previous function.
inline sim_report_sink set_sim_report_sink(sim_report_sink sink) noexcept {
    return detail::sim_sink.exchange(sink);
}

/// The exception that carries a report if `sim_options::on_report` is `throw_it`. The call that
/// made the mistake throws it or, if that call cannot throw, a later one.
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

/// Returns ", file:line" of the call of `e`, or an empty text if the line is unknown.
inline std::string place(sim_event_of const& e) {
    if (e.where.line() == 0) { return ""; }
    return std::string{", "} + e.where.file_name() + ":" + std::to_string(e.where.line());
}

/// Returns the file name, without folders, and the line of the call of `e`, or an empty text if the
/// line is unknown.
inline std::string short_place(sim_event_of const& e) {
    if (e.where.line() == 0) { return ""; }
    std::string_view const file = e.where.file_name();
    return std::string{file.substr(file.find_last_of("/\\") + 1)} + ":" +
           std::to_string(e.where.line());
}

inline std::string describe(sim_event_of const& e, std::string_view by) {
    char const* const verbs[] = {
        "touches it", "reads it",          "writes it",           "allocates it",
        "frees it",   "records the event", "waits for the event", "updates it atomically"};
    return e.title(by) + " " + verbs[static_cast<int>(e.what)] + " (called at " +
           std::to_string(e.time.count()) + " ns" + place(e) + ")";
}

inline std::string occurrences(std::size_t count) {
    return count > 1 ? "\n  it occurred " + std::to_string(count) + " times" : "";
}
inline std::string from_resource(std::string_view name) {
    bool const vowel = std::string_view{"aeiou"}.find(name.front()) != std::string_view::npos;
    return std::string{vowel ? " from an `" : " from a `"}.append(name) + "`";
}

/// Returns the part of a leak report's text that follows the name of its kind.
inline std::string describe_leak(sim_report const& r) {
    sim_allocating_part const& part = sim_part_of(r.first.where);
    std::string                text = ": " + std::to_string(r.bytes) + " bytes";
    if (r.blocks > 1) { text += " in " + std::to_string(r.blocks) + " blocks"; }
    if (r.address != 0) {
        text += (r.blocks > 1 ? ", one of them at " : " at ") + hexadecimal(r.address);
    }
    if (*r.block.resource != '\0') { text += from_resource(r.block.resource); }
    if (*r.first.name != '\0') {
        text += "\n  allocated by ";
        if (part.name != nullptr) {
            text += std::string{part.name} + (r.blocks > 1 ? ", first by " : " by ");
        }
        text += r.first.title(r.first_by) + " at " + std::to_string(r.first.time.count()) + " ns" +
                place(r.first);
    }
    std::string_view const advice = r.missing.empty() ? part.advice : std::string_view{r.missing};
    return advice.empty() ? text : text.append("\n  ").append(advice);
}

} // namespace detail

inline std::string sim_block_of::text(std::uintptr_t accessed) const {
    std::string out =
        "block of " + std::to_string(bytes) + " bytes at " + detail::hexadecimal(address);
    auto const step = [&](char const* what, sim_event_of const& e, std::string const& by) {
        if (e.what == sim_event_of::kind::none) { return; }
        out += what + e.title(by) + detail::place(e);
    };
    if (*resource != '\0') { out += detail::from_resource(resource); }
    if (accessed > address) { out += ", offset " + std::to_string(accessed - address); }
    step(", allocated by ", allocated, allocated_by);
    step(", freed by ", freed, freed_by);
    step(", in memory that was freed by ", before, before_by);
    return out;
}

inline std::string sim_report::text() const {
    std::string out = std::string{"vram::sim: "} + name(kind);
    if (kind == sim_mistake::leak) {
        return out.append(detail::describe_leak(*this)).append(detail::occurrences(count));
    }
    if (bytes != 0 || address != 0) {
        out += ": " + std::to_string(bytes) + " bytes at " + detail::hexadecimal(address);
    }
    if (!memory.empty()) { out += ", " + memory; }
    if (second.what != sim_event_of::kind::none) {
        out += "\n  " + detail::describe(second, second_by);
    }
    if (first.what != sim_event_of::kind::none) {
        out += "\n  in conflict with " + detail::describe(first, first_by);
    }
    if (block.bytes != 0) { out += "\n  " + block.text(address); }
    if (!missing.empty()) { out += "\n  " + missing; }
    return out.append(detail::occurrences(count));
}

inline std::string sim_report::key() const {
    std::string one = detail::short_place(second), two = detail::short_place(first);
    if (kind == sim_mistake::race && two < one) { one.swap(two); }
    if (one.empty()) { one.swap(two); }
    std::string text = name(kind);
    if (!one.empty()) { text += ": " + one; }
    if (!two.empty()) { text += ", " + two; }
    return text;
}

inline std::string sim_unchecked::text() const {
    std::string text;
    auto const  add = [&](std::uint64_t n, char const* what) {
        if (n != 0) { text += (text.empty() ? "not checked: " : ", ") + std::to_string(n) + what; }
    };
    add(kernels, " kernels without declared memory");
    add(host_functions, " host functions without declared memory");
    add(pageable, " accesses to pageable memory");
    add(waits, " conflicts after too many waits for values");
    add(values, " later writes that may end an earlier wait for a value");
    add(resource_events, " lost events of resources");
    add(orders, " orders and accesses without host memory");
    add(ignored, " ignored reports");
    if (text.empty()) { text = "everything was checked"; }
    for (std::string const& key : unused_keys) {
        text.append("; no report had the ignored key \"").append(key) += '"';
    }
    return text;
}

} // namespace vram
