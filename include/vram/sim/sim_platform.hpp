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

/// The streams, events, copies, threads and locks of the current `sim_node` (simulated machine), as
/// the functions of a platform.
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

    // A counted reference, which keeps a stream's handle valid after its owner was destroyed.
    // `ends` counts destroyed owners of streams that are not raw.
    using stream_hold = detail::sim_stream_hold;
    [[nodiscard]] static stream_hold   hold(stream s) noexcept { return stream_hold{s}; }
    [[nodiscard]] static std::uint64_t ends() noexcept {
        return detail::sim_machine::ends.load(std::memory_order_acquire);
    }
    /// The id and device of a stream. `recall` reads them from its handle, which may denote another
    /// stream after the destruction, unless a hold (counted reference) exists.
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
    /// Declares a copy by the calling thread to the race check, and adds its duration to the
    /// thread's simulated time. A null pointer means a file. If `past_caches` is true, the
    /// target bypasses the cache of the core (`sim_options::core_cache`).
    static void host_copies(void* to, void const* from, std::size_t bytes, bool past_caches = false,
                            at w = at::current()) {
        detail::sim_host_copies(to, from, bytes, past_caches, w);
    }

    /// The innermost call of vram that the calling thread executes, or null. Reports name the
    /// program's line that made it, if known.
    [[nodiscard]] static detail::part_call const*& calling_part() noexcept {
        return detail::calling_part;
    }
    /// Sets the name of a stream in reports.
    static void name_stream(stream s, char const* name) noexcept {
        detail::sim_stream_state& state = s.state();
        std::unique_lock const    held{state.machine->mutex};
        detail::name_actor(*state.machine, false, state.id, "stream", name);
    }
    /// Sets the name of the calling thread in reports. Does nothing for a thread outside simulated
    /// time, such as one that neither is nor started a `sim_thread`.
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
    /// `sim_node` that has its memory. Takes no simulated time.
    static void observe(memory_event<stream> const& e) noexcept {
        detail::sim_observer::observe(e);
    }
    /// Begins a resource's own work. Until `end_resource_call`, the thread's waits and queries
    /// order only frees and allocations, so that they hide no race of the program.
    static void begin_resource_call() noexcept { ++detail::resource_depth; }
    /// Ends the internal work of a resource that the thread's last `begin_resource_call` began.
    static void end_resource_call() noexcept { --detail::resource_depth; }
    /// Begins code of the program, such as an observer, inside a resource's call: its waits count
    /// as the program's. Returns the argument for `end_program_call`.
    [[nodiscard]] static unsigned begin_program_call() noexcept {
        return std::exchange(detail::resource_depth, 0);
    }
    /// Ends the program's code inside a resource's call. `outer` is the result of the
    /// `begin_program_call` that began it.
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
    /// Tells the race check that the host thread has read the word at `where`. Work before every
    /// write of its present value then happens before the thread's next step.
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
