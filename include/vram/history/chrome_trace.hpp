// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `chrome_trace` writes a history as JSON for chrome://tracing and other profilers.

#include <vram/history/core/block_story.hpp>
#include <vram/history/core/byte_file.hpp>
#include <vram/history/core/json_writer.hpp>
#include <vram/history/core/memory_counters.hpp> // memory_counters, name_of_instant
#include <vram/history/history_record.hpp>

#include <cstdint>
#include <string> // string

namespace vram {

namespace detail {

/// Writes a `history_record` as JSON in Chrome's trace format: counters of live and reserved bytes,
/// and instant events for allocations, frees, refusals, retries, waits and marks.
class chrome_events {
public:
    chrome_events(history_record const& from, byte_file& to) : from_{from}, to_{to}, json_{to} {}

    void write() {
        block_story const story{from_};
        memory_counters   sums{from_, story};
        json_.dictionary([&] {
            json_.key("otherData");
            json_.dictionary([&] { number("overwritten_events", from_.overwritten); });
            json_.key("traceEvents");
            json_.list([&] {
                for (story_step const& step : story.steps()) { write(step, sums); }
            });
        });
        json_.finish();
    }

private:
    void write(story_step const& step, memory_counters& sums) {
        history_record::event const& e = from_.events[step.event];
        sums.follow(step);
        if (sums.live_changed() || sums.reserved_changed()) {
            event("C", "memory", e, [&] {
                number("live", sums.live());
                number("reserved", sums.reserved());
            });
        }
        if (sums.tag() != 0) {
            event("C", ("tag " + from_.tags[sums.tag()]).c_str(), e,
                  [&] { number("live", sums.of_tag(sums.tag())); });
        }
        if (sums.live_changed()) {
            bool const added = step.what == story_step::action::allocated;
            // Writes an instant event as PyTorch's profiler does. For a free, `Bytes` is negative.
            event("i", "[memory]", e, [&] {
                number("Addr", step.memory);
                json_.key("Bytes");
                if (!added) { to_ << '-'; }
                json_.number(step.bytes);
                number("Total Allocated", sums.live());
                number("Total Reserved", sums.reserved());
                number("Device Type", 1);
                number("Device Id", from_.device);
            });
        }
        if (step.what == story_step::action::none) { return; }
        if (char const* const text = name_of_instant(from_, step)) {
            event("i", text, e, [&] { number("bytes", e.bytes); });
        }
    }
    template <class Arguments>
    void event(char const* phase, char const* name, history_record::event const& e,
               Arguments const& arguments) {
        json_.item([&] {
            json_.dictionary([&] {
                json_.key("ph");
                json_.string(phase);
                json_.key("name");
                json_.string(name);
                json_.key("cat");
                json_.string("cpu_instant_event");
                number("pid", from_.device);
                number("tid", e.thread);
                json_.key("ts");
                time(e.time);
                if (*phase == 'i') {
                    json_.key("s");
                    json_.string("t");
                }
                json_.key("args");
                json_.dictionary(arguments);
            });
        });
    }
    void number(char const* key, std::uint64_t value) {
        json_.key(key);
        json_.number(value);
    }
    /// Writes a time in microseconds with three decimals; a negative one as 0.
    void time(std::int64_t nanoseconds) {
        auto const ns   = static_cast<std::uint64_t>(nanoseconds < 0 ? 0 : nanoseconds);
        auto const part = static_cast<unsigned>(ns % 1000);
        to_ << ns / 1000 << '.';
        for (unsigned scale = 100; scale != 0; scale /= 10) { to_.byte('0' + part / scale % 10); }
    }

    history_record const& from_;
    byte_file&            to_;
    json_writer           json_;
};

} // namespace detail

/// A `history_format`: Chrome's JSON for chrome://tracing, ui.perfetto.dev and TensorBoard, with
/// counters of bytes, and an event for each allocation and free. Files of `perfetto_trace` have a
/// tenth of the size.
///
///     memory.observer().write("run.json", chrome_trace);
///
/// Failure   Throws `file_error`, `std::bad_alloc`.
/// Cost      About 300 bytes in the file for each event.
inline void chrome_trace(history_record const& record, detail::byte_file& to) {
    detail::chrome_events{record, to}.write();
}

} // namespace vram
