// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_wait_value` makes a stream wait for a value in memory, which `sim_write_value` writes.

#include <vram/base/core/report_caught.hpp>
#include <vram/base/error_kind.hpp>
#include <vram/sim/sim_stream_view.hpp>

#include <cstdint>
#include <memory>          // make_shared
#include <mutex>           // unique_lock
#include <source_location> // source_location

namespace vram {
namespace detail {

/// Returns true if streams can write the word at `where`: the word is not in pageable memory.
[[nodiscard]] inline bool streams_reach(sim_machine const& m, std::uint32_t const* where) {
    int device = 0;
    return m.memory.kind_of(reinterpret_cast<std::uintptr_t>(where), device) != sim_kind::pageable;
}

/// Enqueues a write of the 32-bit word at `where`, or, if `use.waits` is true, a wait for its
/// value. Returns false and enqueues nothing if the word is in pageable memory.
inline bool enqueue_word(sim_stream_view stream, char const* name, std::uint32_t const* where,
                         sim_word_use use, std::source_location from) {
    sim_stream_state& s = stream.state();
    sim_call          call{*s.machine, sim_call_kind::other, s.device, from};
    call.admit();
    use.where = reinterpret_cast<std::uintptr_t>(where);
    if (use.where % sizeof *where != 0) { throw sim_error{sim_status::invalid_value, from}; }
    if (!streams_reach(*s.machine, where)) { return false; }
    sim_options const& o = s.machine->options;
    call.pay(o.costs.write_value);
    sim_queue{call}.enqueue(s, {.name     = name,
                                .device   = s.device,
                                .duration = use.waits ? sim_time{} : o.write_value_latency,
                                .uses     = {{{where, sizeof *where}, sim_access::atomic}},
                                .where    = from,
                                .word     = std::make_shared<sim_word_use const>(use)});
    call.throw_report();
    return true;
}
inline void expect_enqueued(bool enqueued, std::source_location from) {
    if (!enqueued) { throw sim_error{sim_status::invalid_value, from}; }
}

/// Tells the race check that the calling host thread has read the word at `where`. Work before the
/// write of this value then happens before later work of the thread. If several writes may have
/// stored the value, this holds for work before all of them.
inline void word_seen(std::uint32_t const* where) noexcept {
    if (inside_effect) { return; }
    try {
        // Locks only the mutex. A `sim_call` could also run a host function, and that function
        // could wait for a `sim_gate` that this thread holds.
        sim_machine&           m = sim_node::current().machine();
        std::unique_lock const held{m.mutex};
        try {
            m.word_read(m.caller(), reinterpret_cast<std::uintptr_t>(where));
        } catch (...) {
            m.checker.lose_order();
            throw;
        }
    } catch (...) {
        // There was no host memory to record that this read happens after the write. From now on,
        // the race check reports no races.
        report_caught({.kind = error_kind::platform_error, .call = "reading a completion flag"});
    }
}

} // namespace detail

/// Enqueues a write of `value` to the 32-bit word at `where` on `stream`, as cuStreamWriteValue32
/// does. Earlier work of the stream happens before work that waits for the value or reads it.
///
///     sim_write_value(producer, flag, 1);
///     sim_wait_value(consumer, flag, 1); // may also be called before sim_write_value
///
/// Failure   Throws `sim_error{invalid_value}` if `where` is pageable memory or not aligned.
/// Streams   The write is work of the stream. It is an atomic access.
inline void sim_write_value(sim_stream_view stream, std::uint32_t* where, std::uint32_t value,
                            std::source_location from = std::source_location::current()) {
    detail::expect_enqueued(
        detail::enqueue_word(stream, "write value", where, {.value = value}, from), from);
}

/// Selects how `sim_wait_value` compares the word with the value. With `at_least`, the order is
/// cyclic, so that a counter may overflow to 0.
///
///     sim_wait_value(stream, flag, 0, sim_value_is::equal);
enum class sim_value_is : unsigned char {
    at_least, ///< the wait ends if `word - value`, as a signed number, is not negative
    equal     ///< the wait ends if the word is the value
};

/// Makes later work of `stream` wait for the 32-bit word at `where`, as cuStreamWaitValue32 does.
/// By default, the wait ends when the word is `value` or greater. If nothing ends the wait, the
/// simulated machine reports a deadlock.
///
/// Failure   Throws `sim_error{invalid_value}` if `where` is pageable memory or not aligned.
/// Streams   The wait is work of the stream. It is an atomic access.
inline void sim_wait_value(sim_stream_view stream, std::uint32_t const* where, std::uint32_t value,
                           sim_value_is         how  = sim_value_is::at_least,
                           std::source_location from = std::source_location::current()) {
    detail::sim_word_use const use{
        .value = value, .waits = true, .equal = how == sim_value_is::equal};
    detail::expect_enqueued(detail::enqueue_word(stream, "wait value", where, use, from), from);
}

/// Returns the value of the 32-bit word at `where` at the simulated time of the calling thread.
/// Work before the write of this value happens before later work of the thread. If several writes
/// may have stored the value, this holds for work before all of them.
///
///     while (sim_read_value(flag) != 1) {}
///
/// Threads   Any thread may call it.
[[nodiscard]] inline std::uint32_t
sim_read_value(std::uint32_t const* where,
               std::source_location from = std::source_location::current()) {
    detail::sim_machine& m = sim_node::current().machine();
    detail::sim_call     call{m, sim_call_kind::query, 0, from};
    detail::sim_wait{call}.reach();
    auto const at = reinterpret_cast<std::uintptr_t>(where);
    m.word_read(*call.host, at);
    call.host->clock += m.options.query_cost;
    return m.value_at(at);
}

/// Writes `value` to the word at `where` from the calling thread. Streams that wait for this value
/// then continue.
///
///     sim_wait_value(stream, flag, 1); // the work after it starts
///     sim_set_value(flag, 1);          // now
///
/// Failure   Throws `sim_error{invalid_value}` if `where` is pageable memory or not aligned.
/// Threads   Any thread may call it.
inline void sim_set_value(std::uint32_t* where, std::uint32_t value,
                          std::source_location from = std::source_location::current()) {
    detail::sim_machine& m = sim_node::current().machine();
    detail::sim_call     call{m, sim_call_kind::other, 0, from};
    auto const           at = reinterpret_cast<std::uintptr_t>(where);
    if (at % sizeof *where != 0 || !detail::streams_reach(m, where)) {
        throw sim_error{sim_status::invalid_value, from};
    }
    sim_event_of const step = call.host_step("set value");
    m.checker.touch(step, call.host->vclock, {where, sizeof *where}, sim_access::atomic,
                    detail::sim_copy_kind::none, true);
    detail::sim_word& word = m.words[at];
    word.queued.push_back({0, value, step.slot, step.count, call.host->vclock});
    m.written(word);
    m.write_word({.where = at, .value = value}, 0);
    call.throw_report();
}

} // namespace vram
