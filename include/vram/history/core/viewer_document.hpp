// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `viewer_document` is a record as the document that PyTorch's memory viewer reads.

#include <vram/base/call_stack.hpp>   // frame_text
#include <vram/concepts/observer.hpp> // memory_event_kind
#include <vram/history/core/block_story.hpp>
#include <vram/history/history_record.hpp>

#include <bit> // bit_cast
#include <cstddef>
#include <cstdint>
#include <string> // string

namespace vram {
namespace detail {

/// Writes a `history_record` as the document that PyTorch's memory viewer reads, with a
/// `pickle_writer` or a `json_writer`. The document lists the segments (chunks) with their blocks,
/// and all events of the device.
template <class Writer>
class viewer_document {
    using action  = story_step::action;
    using segment = block_story::segment;

public:
    viewer_document(history_record const& from, Writer& to) : from_{from}, to_{to}, story_{from} {}

    void write() {
        to_.dictionary([&] {
            to_.key("segments");
            to_.list([&] {
                for (segment const& s : story_.segments()) {
                    to_.item([&] { write(s); });
                }
            });
            to_.key("device_traces");
            to_.list([&] {
                for (std::uint32_t i = 0; i != from_.device; ++i) {
                    to_.item([&] { to_.list([] {}); });
                }
                to_.item([&] { to_.list([&] { write_steps(); }); });
            });
            to_.key("allocator_settings");
            to_.dictionary([&] {
                truth("trace_alloc_overflowed", from_.overwritten != 0);
                number("vram_events", from_.events.size());
                number("vram_events_overwritten", from_.overwritten);
            });
            to_.key("external_annotations");
            to_.list([] {});
        });
        to_.finish();
    }

private:
    void number(char const* key, std::uint64_t n) {
        to_.key(key);
        to_.number(n);
    }
    void string(char const* key, std::string const& text) {
        to_.key(key);
        to_.string(text);
    }
    void truth(char const* key, bool value) {
        to_.key(key);
        to_.truth(value);
    }

    void write(segment const& s) {
        std::uint64_t active    = 0;
        std::uint64_t allocated = 0;
        for (auto const& b : s.blocks) {
            active += b.bytes;
            allocated += b.pending ? 0 : b.bytes;
        }
        to_.dictionary([&] {
            number("device", from_.device);
            number("address", s.memory);
            number("total_size", s.bytes);
            number("allocated_size", allocated);
            number("active_size", active);
            number("requested_size", active);
            number("stream", 0);
            string("segment_type", s.bytes > 2U << 20 ? "large" : "small");
            to_.key("segment_pool_id");
            to_.list([&] {
                to_.item([&] { to_.number(0); });
                to_.item([&] { to_.number(0); });
            });
            truth("is_expandable", false);
            to_.key("frames");
            frames({.resource = s.resource});
            to_.key("blocks");
            to_.list([&] {
                std::uint64_t end = s.memory;
                for (auto const& b : s.blocks) {
                    if (b.memory != end) { gap(end, b.memory - end); }
                    to_.item([&] { write(b); });
                    end = b.memory + b.bytes;
                }
                if (end != s.memory + s.bytes) { gap(end, s.memory + s.bytes - end); }
            });
        });
    }
    void write(block_story::block const& b) {
        to_.dictionary([&] {
            number("address", b.memory);
            number("size", b.bytes);
            number("requested_size", b.bytes);
            string("state", b.pending ? "active_pending_free" : "active_allocated");
            to_.key("frames");
            frames(from_.events[b.event]);
        });
    }
    void gap(std::uint64_t memory, std::uint64_t bytes) {
        to_.item([&] {
            to_.dictionary([&] {
                number("address", memory);
                number("size", bytes);
                number("requested_size", 0);
                string("state", "inactive");
                to_.key("frames");
                to_.list([] {});
            });
        });
    }

    void write_steps() {
        for (story_step const& step : story_.steps()) {
            switch (step.what) {
            case action::allocated: event("alloc", step); break;
            case action::freed:
                event("free_requested", step);
                event("free_completed", step);
                break;
            case action::free_requested: event("free_requested", step); break;
            case action::free_completed: event("free_completed", step); break;
            case action::segment_added: event("segment_alloc", step); break;
            case action::segment_grown: event("segment_map", step); break;
            case action::segment_removed: event("segment_free", step); break;
            case action::refused: event("oom", step); break;
            case action::marked: event("user_defined", step); break;
            case action::none:
            case action::other: break;
            }
        }
    }
    void event(char const* name, story_step const& step) {
        history_record::event const& e         = from_.events[step.event];
        bool const                   of_blocks = step.what < action::segment_added;
        to_.item([&] {
            to_.dictionary([&] {
                to_.key("action");
                to_.string(name);
                // For a refusal, the viewer expects the free bytes of the device ("device_free")
                // instead of an address. A record does not have this number, so it is always 0.
                number(step.what == action::refused ? "device_free" : "addr", step.memory);
                number("size", step.bytes);
                number("stream", of_blocks || step.what == action::refused ? e.stream : 0);
                number("time_us", static_cast<std::uint64_t>(e.time < 0 ? 0 : e.time / 1000));
                to_.key("frames");
                frames(e);
                if (step.what == action::marked) {
                    string("user_metadata", from_.resources[e.resource].name);
                }
            });
        });
    }

    /// Writes the frames that the viewer shows for an event. These are the source line, the call
    /// stack and the tag, if known, and then the resource or the text of a mark.
    void frames(history_record::event const& e) {
        bool const          mark = e.kind == memory_event_kind::marked;
        std::uint64_t const which =
            (std::uint64_t{e.site} * from_.tags.size() + e.tag) * from_.stacks.size() + e.stack;
        to_.shared(which * from_.resources.size() + e.resource, [&] {
            to_.list([&] {
                if (e.site != 0) {
                    history_record::site const& at = from_.sites[e.site];
                    frame(at.function, at.file, at.line);
                }
                for (std::uint64_t const address : from_.stacks[e.stack]) {
                    void const* const at =
                        std::bit_cast<void const*>(static_cast<std::uintptr_t>(address));
                    frame(frame_text{at}.c_str(), "", 0);
                }
                if (e.tag != 0) { frame("tag " + from_.tags[e.tag], "", 0); }
                frame((mark ? "mark " : "resource ") + from_.resources[e.resource].name, "", 0);
            });
        });
    }
    void frame(std::string const& name, std::string const& file, unsigned line) {
        to_.item([&] {
            to_.dictionary([&] {
                string("name", name);
                string("filename", file);
                number("line", line);
            });
        });
    }

    history_record const& from_;
    Writer&               to_;
    block_story           story_;
};

} // namespace detail
} // namespace vram
