// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_platform` is the platform of the simulated device, the counterpart of `cuda_platform`.

#include <vram/base/core/process_exit.hpp>
#include <vram/concepts/batched_copies.hpp>
#include <vram/concepts/completion_flags.hpp>
#include <vram/concepts/core/stream_hold.hpp> // announces_ends
#include <vram/concepts/memory_kind.hpp>      // knows_memory
#include <vram/concepts/observer.hpp>         // memory_event, observing_platform
#include <vram/concepts/platform.hpp>
#include <vram/sim/machine/sim_host_copies.hpp>
#include <vram/sim/machine/sim_lock.hpp>
#include <vram/sim/machine/sim_memory_kind.hpp>
#include <vram/sim/machine/sim_observer.hpp>
#include <vram/sim/machine/sim_refused.hpp>
#include <vram/sim/machine/sim_stream_hold.hpp>
#include <vram/sim/sim_copy.hpp> // sim_copy, sim_copy_batch
#include <vram/sim/sim_device.hpp>
#include <vram/sim/sim_event.hpp>
#include <vram/sim/sim_gate.hpp>
#include <vram/sim/sim_interrupt.hpp>
#include <vram/sim/sim_launch.hpp> // sim_call_host
#include <vram/sim/sim_stream.hpp> // sim_stream, sim_stream_view
#include <vram/sim/sim_thread.hpp>
#include <vram/sim/sim_wait_value.hpp> // detail::enqueue_word

#include <cstddef>
#include <cstdint>
#include <optional>        // optional, nullopt
#include <source_location> // source_location
#include <span>            // span
#include <utility>

namespace vram {

// Defined in sim/sim_resource.hpp.
class sim_resource;
// Defined in sim/sim_pinned_resource.hpp.
class sim_pinned_resource;

/// The platform (set of functions for streams, events and copies) of the simulated device. The
/// functions use the current `sim_node` (simulated machine).
///
/// Failure   Functions throw `sim_error` or `sim_race`.
/// Threads   Any thread may call them.
struct sim_platform {
    using at = std::source_location;

    using device          = sim_device;
    using stream          = sim_stream_view;
    using own_stream      = sim_stream;
    using event           = sim_event;
    using error           = sim_error;
    using device_guard    = sim_device_guard;
    using gate            = sim_gate;
    using lock            = detail::sim_lock;
    using thread          = sim_thread;
    using device_resource = sim_resource;
    using pinned_resource = sim_pinned_resource;

    /// Returns true if the process has begun to end. Destructors of resources and containers then
    /// neither wait nor free memory.
    [[nodiscard]] static bool ending() noexcept { return detail::process_exit::began(); }

    // `stream_hold` is a counted reference that keeps a stream's handle valid, even after the owner
    // of the stream was destroyed. `ends()` returns how many owners were destroyed. Owners of raw
    // streams (`sim_stream_options::raw`) are not counted.
    using stream_hold = detail::sim_stream_hold;
    [[nodiscard]] static stream_hold   hold(stream s) noexcept { return stream_hold{s}; }
    [[nodiscard]] static std::uint64_t ends() noexcept {
        return detail::sim_machine::ends.load(std::memory_order_acquire);
    }
    /// The id and device of a stream. `recall` reads them from the handle. If the stream was
    /// destroyed and no `stream_hold` (counted reference) is left, the handle may denote another
    /// stream.
    struct identity {
        std::uint64_t id;
        sim_device    device;
    };
    [[nodiscard]] static std::optional<identity> recall(stream s) {
        std::uint64_t const id = s.state().id.load(std::memory_order_relaxed);
        if (id == 0) { return std::nullopt; }
        return identity{id, s.device()};
    }
    [[nodiscard]] static bool names_no_stream(error const& e) noexcept {
        return e.status() == sim_status::invalid_handle;
    }

    [[nodiscard]] static device        current_device() { return sim_device::current(); }
    [[nodiscard]] static device        device_of(stream s) { return s.device(); }
    [[nodiscard]] static std::uint64_t id(stream s) { return s.id(); }
    [[nodiscard]] static bool          capturing(stream s) { return s.capturing(); }
    /// Returns a number that identifies the capture of the stream `s` while it is in progress, or 0
    /// without a capture.
    [[nodiscard]] static std::uint64_t capture_of(stream s) {
        sim_interrupt::count();
        detail::sim_stream_state& state = s.state();
        std::unique_lock const    held{state.machine->mutex};
        return reinterpret_cast<std::uintptr_t>(state.capture.get());
    }
    [[nodiscard]] static memory_info memory(device d) { return d.memory(); }
    [[nodiscard]] static sim_time    now() { return sim_node::current().now(); }

    [[nodiscard]] static memory_kind memory_kind_of(void const* p) {
        return detail::sim_memory_kind(p);
    }
    [[nodiscard]] static bool uses_host_page_tables(device d) {
        return d.machine().options.host_page_tables;
    }
    /// Declares to the race check that the calling thread copies `bytes` bytes. Adds the duration
    /// of the copy to the simulated time of the thread. A null address means a file. `past_caches`:
    /// true if the copy does not store `to` in the cache of the core (`sim_options::core_cache`).
    static void host_copies(void* to, void const* from, std::size_t bytes, bool past_caches = false,
                            at w = at::current()) {
        detail::sim_host_copies(to, from, bytes, past_caches, w);
    }

    /// The innermost call of a part of vram, such as a loader, that the calling thread executes
    /// now. Null if there is none. Reports name the line of the program that made this call.
    [[nodiscard]] static detail::part_call const*& calling_part() noexcept {
        return detail::calling_part;
    }
    /// Sets the name of a stream in reports.
    static void name_stream(stream s, char const* name) noexcept {
        detail::sim_stream_state& state = s.state();
        std::unique_lock const    held{state.machine->mutex};
        detail::name_actor(*state.machine, false, state.id, "stream", name);
    }
    /// Sets the name of the calling thread in reports. Does nothing unless the thread is in
    /// simulated time: a `sim_thread`, or a thread that has started one.
    static void name_thread(char const* name) noexcept {
        detail::sim_machine&          m    = sim_node::current().machine();
        detail::sim_host const* const host = detail::self(m.id).host;
        if (host == nullptr) { return; }
        std::unique_lock const held{m.mutex};
        detail::name_actor(m, true, host->number, "host thread", name);
    }

    /// Adds a report to the current `sim_node` about a free that a resource refused, such as a
    /// double free. The error `e` describes it.
    static void refused(vram::error const& e) noexcept { detail::sim_refused(e); }

    /// Passes an event of a resource, such as an allocation or a free, to the checks of the
    /// `sim_node` (simulated machine) that contains the memory. Takes no simulated time.
    static void observe(memory_event<stream> const& e) noexcept {
        detail::sim_observer::observe(e);
    }
    /// A resource, such as a pool, calls this when it begins internal work. Until
    /// `end_resource_call`, waits and queries of the thread order only allocations and frees in the
    /// race check. So they cannot hide a race of the program.
    static void begin_resource_call() noexcept { ++detail::resource_depth; }
    /// A resource calls this at the end of the work for which it called `begin_resource_call`.
    static void end_resource_call() noexcept { --detail::resource_depth; }
    /// A resource calls this before it calls code of the program, such as an observer. Until
    /// `end_program_call`, waits of the calling thread count as waits of the program. The result is
    /// the argument for `end_program_call`.
    [[nodiscard]] static unsigned begin_program_call() noexcept {
        return std::exchange(detail::resource_depth, 0);
    }
    /// A resource calls this after the call of the program's code. `outer`: the result of
    /// `begin_program_call`.
    static void end_program_call(unsigned outer) noexcept { detail::resource_depth = outer; }

    static void               record(event& e, stream s, at w = at::current()) { e.record(s, w); }
    static void               wait(stream s, event const& e, at w = at::current()) { e.wait(s, w); }
    [[nodiscard]] static bool done(event const& e, at w = at::current()) { return e.done(w); }
    /// Returns an event that measures simulated time. `elapsed` returns the nanoseconds between two
    /// such events.
    [[nodiscard]] static event timed_event(device d, at w = at::current()) {
        return event{d, true, w};
    }
    [[nodiscard]] static std::uint64_t elapsed(event const& from, event const& to) {
        return static_cast<std::uint64_t>((to.time() - from.time()).count());
    }
    static void synchronize(event const& e, at w = at::current()) { e.synchronize(w); }
    static void synchronize(stream s, at w = at::current()) { s.synchronize(w); }
    static void synchronize(device d, at w = at::current()) { d.synchronize(w); }
    static void await_all(device d, at w = at::current()) { d.await_all(w); }
    static void call(stream s, void (*function)(void*), void* argument, at w = at::current()) {
        sim_call_host(s, function, argument, w);
    }

    /// Queues a write of `value` to the word at `where`. Returns false, and queues nothing, for
    /// pageable memory.
    static bool mark(stream s, std::uint32_t* where, std::uint32_t value, at w = at::current()) {
        return detail::enqueue_word(s, "write value", where, {.value = value}, w);
    }
    /// Tells the race check that the calling thread has read the word at `where`. Work before the
    /// write of this value then happens before later work of the thread. If several writes may have
    /// stored the value, this holds for work before all of them.
    static void mark_seen(std::uint32_t const* where) noexcept { detail::word_seen(where); }

    static void copy(stream s, void* to, void const* from, std::size_t bytes,
                     at w = at::current()) {
        sim_copy(s, to, from, bytes, w);
    }
    static void copy(stream s, pitched_copy const& box, at w = at::current()) {
        sim_copy(s, box, w);
    }
    static bool copy_batch(stream s, std::span<void* const> to, std::span<void const* const> from,
                           std::span<std::size_t const> bytes, at w = at::current()) {
        return sim_copy_batch(s, to, from, bytes, w);
    }
    static void fill(stream s, void* to, std::byte value, std::size_t bytes, at w = at::current()) {
        sim_fill(s, to, value, bytes, w);
    }
};

static_assert(platform<sim_platform> && batched_copies<sim_platform> &&
              completion_flags<sim_platform>);
static_assert(observing_platform<sim_platform>);
static_assert(knows_memory<sim_platform> && knows_page_tables<sim_platform> &&
              detail::announces_ends<sim_platform>);

} // namespace vram
