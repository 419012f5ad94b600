// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `history_record` is a list of events in order of time, taken from a `history` or read from a
/// file.

#include <vram/concepts/observer.hpp> // memory_event_kind

#include <cstddef>
#include <cstdint>
#include <string> // string
#include <vector> // vector

namespace vram {

/// The events of a `history` up to one moment, and the tables to which they refer: `tags`, `sites`,
/// `resources` and `stacks`. Each table begins with an empty entry.
///
///     history_record const last = log.record();
///     for (history_record::event const& e : last.events) {
///         history_record::site const&     line = last.sites[e.site];
///         history_record::resource const& by   = last.resources[e.resource];
///         std::printf("%s %s:%u\n", by.name.c_str(), line.file.c_str(), line.line);
///     }
///     for (history_record::chunk const& c : last.chunks) { reserved += c.bytes; }
struct history_record {
    /// One event of a `history_record`. `tag`, `site`, `resource` and `stack` are indices in its
    /// tables.
    struct event {
        memory_event_kind kind{};
        bool              has_stream = false; ///< true if the event has a stream (see `stream`)
        /// Number of the thread, from 0 on. After a thread has ended, a later one may get its
        /// number.
        std::uint16_t thread = 0;
        std::uint32_t tag    = 0; ///< index in `tags`; 0 is the empty tag
        std::uint32_t site   = 0; ///< index in `sites`; 0 is the unknown line
        /// Index in `resources` of the resource of the event. A mark has its text there instead.
        std::uint32_t resource = 0;
        std::uint32_t stack    = 0; ///< index in `stacks`; 0 is the empty stack
        std::int64_t  time     = 0; ///< nanoseconds since 1970
        std::uint64_t memory   = 0; ///< address of the block or chunk; 0 if there is none
        std::uint64_t bytes    = 0; ///< requested bytes of the block, or size of the chunk or range
        /// Handle or id of the stream; 0 without a stream, and for a default stream of CUDA.
        std::uint64_t stream = 0;

        friend bool operator==(event const&, event const&) = default;
    };

    /// A line of the program in a `history_record`.
    struct site {
        std::string file;     ///< source file; empty if the line is unknown
        std::string function; ///< function that contains the line; empty if unknown
        unsigned    line = 0; ///< 0 if the line is unknown

        friend bool operator==(site const&, site const&) = default;
    };

    /// An entry of `resources`: a resource that reported events, or the text of a mark event.
    struct resource {
        std::string name; ///< kind of the resource, such as "pool"; text of the mark
        /// Address of the resource at the time of its events. A move of the resource changes the
        /// address. A later resource may have the same address.
        std::uint64_t identity = 0;

        friend bool operator==(resource const&, resource const&) = default;
    };

    /// A chunk that a resource got and, according to the events, has not returned. If the resource
    /// was moved, the entry may remain after the return of the chunk. Adjacent chunks of virtual
    /// memory of one resource are one entry.
    struct chunk {
        std::uint64_t memory   = 0;
        std::uint64_t bytes    = 0;
        std::uint32_t resource = 0; ///< index in `resources` of the resource of the chunk
        /// True for virtual memory: such a chunk grows in several steps, and is removed in one.
        bool grows = false;

        friend bool operator==(chunk const&, chunk const&) = default;
    };

    std::vector<event> events; ///< in order of time
    /// The chunks that were present, according to all events so far, when the record was made. This
    /// includes chunks that were added before the first of the `events`.
    std::vector<chunk>       chunks;
    std::vector<std::string> tags      = {""};
    std::vector<site>        sites     = {{}};
    std::vector<resource>    resources = {{}};
    /// Return addresses of each call stack, innermost first.
    std::vector<std::vector<std::uint64_t>> stacks = {{}};
    /// Number of missing events. An event is missing if it was overwritten, if there was no host
    /// memory for it, or if it is older than an overwritten event. The number may be too large if
    /// events were overwritten while the record was made.
    std::uint64_t overwritten = 0;
    std::uint32_t device      = 0; ///< number of the device, from `history_options`

    friend bool operator==(history_record const&, history_record const&) = default;
};

namespace detail {
/// Largest value of `history_record::device`. Limits the size of files for PyTorch's memory viewer,
/// which have a list entry for each device number up to that of the record.
inline constexpr std::uint32_t largest_history_device = 4095;
} // namespace detail

} // namespace vram
