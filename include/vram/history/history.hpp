// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `history` is an observer that keeps the last events of a stack, for profilers and reports.

#include <vram/base/call_stack.hpp>
#include <vram/base/contract.hpp> // expects
#include <vram/base/core/thread_number.hpp>
#include <vram/base/tag.hpp>          // current_tag
#include <vram/concepts/observer.hpp> // memory_event
#include <vram/history/core/byte_file.hpp>
#include <vram/history/core/history_state.hpp>
#include <vram/history/core/number_of_stream.hpp>
#include <vram/history/history_record.hpp>

#include <bit> // bit_cast
#include <cstddef>
#include <cstdint>
#include <memory> // shared_ptr, make_shared
#include <string> // string
#include <utility>

namespace vram {

/// Options of a `history`.
struct history_options {
    /// Least number of events that are kept. Each takes 64 bytes of host memory (72 with `frames`),
    /// allocated as events arrive.
    std::size_t events = 1 << 18;
    /// Number of the device in the files that are written: at most 4095.
    std::uint32_t device = 0;
    /// Number of call-stack frames stored with each event. With 8 frames an event takes 72 bytes
    /// and about 40 ns more.
    unsigned frames = 0;
};

/// A function that writes a record to a file in one format: `viewer_pickle`, `perfetto_trace`, ...
///
///     history_format const format = small ? history_columns : viewer_pickle;
using history_format = void (*)(history_record const&, detail::byte_file&);

/// Writes `record` to the file `path` in a format, for example a record of `read_history`. A file
/// of this name is replaced once the new one is complete; a pipe or a device is written directly.
/// Throws `file_error`, `std::bad_alloc`.
///
///     write_record(read_history("run.vram"), "run.pickle", viewer_pickle);
inline void write_record(history_record const& record, std::string path, history_format format) {
    detail::byte_file out{std::move(path)};
    format(record, out);
    out.close();
}

/// An observer that keeps the last events of the resources above it in the stack: time, kind,
/// address, size, stream, thread, tag and line. `write` makes a file for a profiler or viewer.
///
///     auto memory = cuda_resource{} | with::stream_ordered |
///                   with::observed(history{history_options{.events = 1 << 20}}) | with::pool;
///     ...
///     memory.observer().write("run.pickle", viewer_pickle); // for pytorch.org/memory_viz
///
/// If there is no more room, new events overwrite the oldest events. A record always lists all
/// chunks of the resources, even if their events were overwritten. A `history_trigger` writes a
/// file at the end of the process, after a refusal, or on a signal.
///
/// Failure   `observe` never throws; the constructor and `record` throw `std::bad_alloc`, and
///           `write` also `file_error`.
/// Threads   Any thread may call any function.
/// Cost      `observe`: 12 to 18 ns, or 60 ns with a call stack of 8 frames.
class history {
public:
    explicit history(history_options options = {})
        : state_{std::make_shared<detail::history_state>(options.events, options.frames,
                                                         options.device)} {
        expects(options.device <= detail::largest_history_device,
                "history: `device` must be at most 4095");
    }
    /// Copies share the stored events. A move makes a copy, because a resource stack (see
    /// `with::observed`) may still call its observer after the stack was moved from.
    history(history const&) noexcept            = default;
    history& operator=(history const&) noexcept = default; ///< shares the events

    /// Returns true if `other` is a copy of this history, with the same events. A resource over two
    /// upstreams with such copies then notifies only one of them.
    [[nodiscard]] bool shares_with(history const& other) const noexcept {
        return state_ == other.state_;
    }

    /// Stores the event `e`.
    template <class Stream>
    void observe(memory_event<Stream> const& e) noexcept {
        unsigned const thread = detail::thread_number();
        if (e.kind <= memory_event_kind::freed && detail::event_ring::has_own_place(thread))
            [[likely]] {
            state_->append(thread, [&](auto&& to) { store(e, thread, state_->frames(), to); });
        } else {
            // Passes a copy of `e` to `observe_rare`. If `e` were passed by reference, the compiler
            // would have to store its members in memory for the frequent path above, too.
            memory_event<Stream> copy{e.kind, e.name, e.resource,   e.memory,     e.bytes,
                                      {},     e.at,   e.any_stream, e.until_reset};
            if (e.stream.has_value()) { copy.stream.emplace(*e.stream); }
            observe_rare(copy, thread);
        }
    }

    /// Returns a copy of the kept events in order of time, and of the list of present chunks. The
    /// copy leaves out events that are older than an overwritten event.
    [[nodiscard]] history_record record() const { return state_->record(); }

    /// Returns the number of events since the construction, including the lost ones.
    [[nodiscard]] std::uint64_t events() const noexcept { return state_->ring().appended(); }
    /// Returns the number of lost events: overwritten, or not stored for lack of host memory.
    [[nodiscard]] std::uint64_t overwritten() const noexcept {
        return state_->ring().overwritten();
    }

    /// Writes the kept events to the file `path` in a format. A file of this name is replaced once
    /// the new one is complete.
    void write(std::string path, history_format format) const {
        write_record(record(), std::move(path), format);
    }

private:
    friend class history_trigger;

    template <class Stream>
    [[gnu::noinline]] void observe_rare(memory_event<Stream> const& e, unsigned thread) noexcept {
        auto const fill = [&](auto&& to) { store(e, thread, state_->frames(), to); };
        if (e.kind <= memory_event_kind::freed) {
            state_->append(thread, fill);
        } else {
            state_->append_rare(e.kind, thread, fill);
        }
    }
    template <class Stream, class Place>
    [[gnu::always_inline]] static void store(memory_event<Stream> const& e, unsigned thread,
                                             unsigned frames, Place& to) noexcept {
        using w = detail::history_words;
        to.store(w::about, w::pack(e.kind, thread, e.stream.has_value(), current_tag().id()));
        to.store(w::memory, std::bit_cast<std::uintptr_t>(e.memory));
        to.store(w::bytes, e.bytes);
        to.store(w::stream, e.stream.has_value() ? detail::number_of_stream(*e.stream) : 0);
        to.store(w::resource, std::bit_cast<std::uintptr_t>(e.resource));
        to.store(w::name, std::bit_cast<std::uintptr_t>(e.name));
        to.store(w::site, w::pack(e.at));
        if (frames != 0) [[unlikely]] { to.store(w::stack, w::pack(call_stack::current(frames))); }
    }

    std::shared_ptr<detail::history_state> state_;
};

} // namespace vram
