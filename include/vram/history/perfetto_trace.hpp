// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `perfetto_trace` writes a history for ui.perfetto.dev, with counters in bytes.

#include <vram/history/core/block_story.hpp>
#include <vram/history/core/byte_file.hpp>
#include <vram/history/core/memory_counters.hpp> // memory_counters, name_of_instant
#include <vram/history/core/protobuf_message.hpp>
#include <vram/history/core/utf8_text.hpp>
#include <vram/history/history_record.hpp>

#include <cstdint>
#include <string> // string, to_string

namespace vram {

namespace detail {

/// Writes the packets of a Perfetto trace. Numbers in the code are field numbers of the protobuf
/// messages in Perfetto's directory protos/perfetto/trace/.
class perfetto_packets {
public:
    explicit perfetto_packets(byte_file& to) : to_{to} {}

    /// Writes a packet that describes the track `uuid` (a row of the trace) below `parent` (0 means
    /// none). `unit` is 3 for bytes, 0 for events.
    void track(std::uint64_t uuid, std::uint64_t parent, std::string const& name, unsigned unit) {
        protobuf_message descriptor;
        descriptor.number(1, uuid).text(2, utf8_text(name));
        if (parent != 0) { descriptor.number(5, parent); }
        if (unit != 0) {
            protobuf_message counter;
            descriptor.message(8, counter.number(3, unit));
        }
        protobuf_message packet;
        write(packet.message(60, descriptor));
    }
    void counter(std::int64_t time, std::uint64_t track, std::uint64_t value) {
        event_.clear();
        write(time, event_.number(9, 4).number(11, track).number(30, value));
    }
    /// Writes an event without a duration to a track, annotated with the bytes, stream, tag and
    /// source line of `e` if present.
    void instant(std::int64_t time, std::uint64_t track, char const* name,
                 history_record const& from, history_record::event const& e) {
        event_.clear();
        event_.number(9, 3).number(11, track).text(22, "vram").text(23, utf8_text(name));
        if (e.bytes != 0) { annotate("bytes", e.bytes); }
        if (e.has_stream) { annotate("stream", e.stream); }
        if (e.tag != 0) { annotate("tag", from.tags[e.tag]); }
        if (e.site != 0) {
            history_record::site const& at = from.sites[e.site];
            annotate("line", at.file + ":" + std::to_string(at.line));
        }
        write(time, event_);
    }

private:
    void annotate(char const* name, std::uint64_t value) {
        protobuf_message made;
        event_.message(4, made.text(10, name).number(3, value));
    }
    void annotate(char const* name, std::string const& value) {
        protobuf_message made;
        event_.message(4, made.text(10, name).text(6, utf8_text(value)));
    }
    void write(std::int64_t time, protobuf_message const& event) {
        packet_.clear();
        write(packet_.number(8, static_cast<std::uint64_t>(time)).message(11, event));
    }
    void write(protobuf_message& packet) {
        // Perfetto's field `trusted_packet_sequence_id`: all packets of the file are one sequence.
        packet.number(10, 1);
        whole_.clear();
        to_ << whole_.message(1, packet).bytes();
    }

    byte_file&       to_;
    protobuf_message event_, packet_, whole_;
};

} // namespace detail

/// A `history_format`: Perfetto's native trace (protobuf) for ui.perfetto.dev and its
/// trace_processor. Live bytes, reserved bytes and the live bytes of each tag are counters; marks,
/// refusals, retries and waits are events.
///
///     memory.observer().write("run.perfetto-trace", perfetto_trace);
///
/// Times are nanoseconds since 1970. A block older than the record is counted only if the record
/// contains its free.
///
/// Failure   Throws `file_error`, `std::bad_alloc`.
/// Cost      About 1 us, and 25 to 50 bytes in the file, for each event.
inline void perfetto_trace(history_record const& record, detail::byte_file& to) {
    enum : std::uint64_t { all = 1, live, reserved, events, first_tag };
    enum : unsigned { plain = 0, bytes = 3 };
    detail::perfetto_packets  out{to};
    detail::block_story const story{record};
    detail::memory_counters   sums{record, story};

    std::string name = "vram device " + std::to_string(record.device);
    if (record.overwritten != 0) {
        name += " (" + std::to_string(record.overwritten) + " older events were overwritten)";
    }
    out.track(all, 0, name, plain);
    out.track(live, all, "live", bytes);
    out.track(reserved, all, "reserved", bytes);
    out.track(events, all, "events", plain);
    for (std::uint32_t i = 1; i < record.tags.size(); ++i) {
        out.track(first_tag + i, live, "tag " + record.tags[i], bytes);
    }
    if (!record.events.empty()) {
        out.counter(record.events.front().time, live, sums.live());
        out.counter(record.events.front().time, reserved, sums.reserved());
    }
    for (detail::story_step const& step : story.steps()) {
        history_record::event const& e = record.events[step.event];
        sums.follow(step);
        if (sums.live_changed()) { out.counter(e.time, live, sums.live()); }
        if (sums.reserved_changed()) { out.counter(e.time, reserved, sums.reserved()); }
        if (sums.tag() != 0) {
            out.counter(e.time, first_tag + sums.tag(), sums.of_tag(sums.tag()));
        }
        if (step.what == detail::story_step::action::none) { continue; }
        if (char const* const text = detail::name_of_instant(record, step)) {
            out.instant(e.time, events, text, record, e);
        }
    }
}

} // namespace vram
