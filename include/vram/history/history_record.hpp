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
        bool              has_stream = false; ///< false if the call took no stream
        /// Number of the thread, from 0 on. After a thread has ended, a later one may get its
        /// number.
        std::uint16_t thread = 0;
        std::uint32_t tag    = 0; ///< index in `tags`; 0 is the empty tag
        std::uint32_t site   = 0; ///< index in `sites`; 0 is the unknown line
        /// Index in `resources`, which also has the texts of marks.
        std::uint32_t resource = 0;
        std::uint32_t stack    = 0; ///< index in `stacks`; 0 is the empty stack
        std::int64_t  time     = 0; ///< nanoseconds since 1970
        std::uint64_t memory   = 0; ///< address of the block or chunk; 0 if there is none
        std::uint64_t bytes    = 0; ///< requested bytes, or the size of the chunk or range
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

    /// A resource of a `history_record`, or the text of a mark.
    struct resource {
        std::string   name;         ///< kind of the resource, such as "pool"; text of the mark
        std::uint64_t identity = 0; ///< distinguishes resources of one kind

        friend bool operator==(resource const&, resource const&) = default;
    };

    /// A chunk that a resource had after the last event of the `history_record`.
    struct chunk {
        std::uint64_t memory   = 0;
        std::uint64_t bytes    = 0;
        std::uint32_t resource = 0; ///< index in `resources` of the resource with the chunk
        /// True if the chunk is virtual memory, which grows in parts and is removed as a whole.
        bool grows = false;

        friend bool operator==(chunk const&, chunk const&) = default;
    };

    std::vector<event> events; ///< in order of time
    /// The chunks that the resources had when the record was made, also those added before the
    /// first of the `events`.
    std::vector<chunk>       chunks;
    std::vector<std::string> tags      = {""};
    std::vector<site>        sites     = {{}};
    std::vector<resource>    resources = {{}};
    /// Return addresses of each call stack, innermost first.
    std::vector<std::vector<std::uint64_t>> stacks = {{}};
    /// Number of missing events: overwritten, or not stored for lack of host memory, or older than
    /// an overwritten one.
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
