// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_launch` queues a kernel on a stream: a host callable with the ranges that it accesses.

#include <vram/sim/machine/sim_declared.hpp> // expect_declared
#include <vram/sim/sim_copy.hpp>             // detail::sim_address
#include <vram/sim/sim_range.hpp>
#include <vram/sim/sim_stream_view.hpp>

#include <cstddef>
#include <functional>      // function
#include <memory>          // make_shared, shared_ptr
#include <new>             // bad_alloc
#include <source_location> // source_location
#include <span>            // span
#include <string>          // string
#include <type_traits>     // is_void_v
#include <utility>
#include <vector> // vector

namespace vram {

/// The declaration of a simulated kernel: the memory that the kernel accesses, and its duration in
/// simulated time. `name` must live as long as the program.
struct sim_kernel {
    char const*            name     = "kernel";
    std::vector<sim_range> reads    = {};
    std::vector<sim_range> writes   = {};
    sim_time               duration = sim_time{1000};
    /// Memory that the kernel changes with atomic operations, which do not conflict with each
    /// other.
    std::vector<sim_range> atomics = {};
};

/// The declaration of a host function in a stream (`sim_call_host`): its name, the memory that it
/// accesses, and its simulated duration. `name` must live as long as the program.
struct sim_host_work {
    char const* name = "host call";
    /// Memory that the function reads.
    std::vector<sim_range> reads = {};
    /// Memory that the function writes.
    std::vector<sim_range> writes = {};
    /// Simulated time that the function takes.
    sim_time duration = sim_time{0};
    /// Memory that the function changes with atomic operations, which do not conflict with each
    /// other.
    std::vector<sim_range> atomics = {};
};

namespace detail {

/// Returns the accesses to memory that a kernel or a host function declares.
template <class Declared>
[[nodiscard]] std::vector<sim_task::use> declared_uses(Declared const& work) {
    std::vector<sim_task::use> uses;
    uses.reserve(work.reads.size() + work.writes.size() + work.atomics.size());
    for (sim_range const& r : work.reads) { uses.push_back({r, sim_access::read}); }
    for (sim_range const& r : work.writes) { uses.push_back({r, sim_access::write}); }
    for (sim_range const& r : work.atomics) { uses.push_back({r, sim_access::atomic}); }
    return uses;
}

/// The size of an object of the type in bytes, or 1 for `void`.
template <class Type>
inline constexpr std::size_t sim_bytes_of = sizeof(Type);
template <class Type>
    requires std::is_void_v<Type>
inline constexpr std::size_t sim_bytes_of<Type> = 1;

template <class Type>
[[nodiscard]] Type* sim_view_of(Type* p, std::size_t bytes) {
    sim_machine& machine = sim_node::current().machine();
    expect_declared(machine, {p, bytes}, sim_access::read, true);
    std::uintptr_t const at = machine.memory.view(sim_address(p));
    if (at == 0 && p != nullptr) { throw sim_error{sim_status::unbacked}; }
    return reinterpret_cast<Type*>(at);
}

} // namespace detail

/// Returns the host address of the data at the device address `p`. A kernel or host function that
/// calls `sim_view` must have declared its access to this memory.
///
/// Failure   Throws `sim_error{unbacked}` if the memory has no contents (`sim_options::backed`).
template <class Type>
[[nodiscard]] Type* sim_view(Type* p) {
    return detail::sim_view_of(p, detail::sim_bytes_of<Type>);
}
template <class Type, std::size_t Extent>
[[nodiscard]] std::span<Type, Extent> sim_view(std::span<Type, Extent> s) {
    return std::span<Type, Extent>{detail::sim_view_of(s.data(), s.size_bytes()), s.size()};
}

/// Queues a kernel on `stream`. `body()` runs when the kernel ends in simulated time, and accesses
/// device memory through `sim_view`.
///
///     sim_launch(stream, {.name = "add", .reads = {all}, .writes = {all}, .duration = 10us}, [=] {
///         for (auto& x : sim_view(all)) { x += 1; } // `all` is a std::span of device memory
///     });
///
/// Failure   Throws `sim_error` or `sim_race`; a later wait throws an exception of `body`.
/// Streams   The kernel runs in stream order. This call checks its declared accesses.
template <class Body>
void sim_launch(sim_stream_view stream, sim_kernel const& kernel, Body&& body,
                std::source_location where = std::source_location::current()) {
    detail::sim_stream_state& s = stream.state();
    detail::sim_call          call{*s.machine, sim_call_kind::launch, s.device, where};
    call.admit();
    call.pay(s.machine->options.costs.launch);
    detail::sim_task task{.name     = kernel.name,
                          .engine   = sim_engine::compute,
                          .device   = s.device,
                          .duration = s.machine->options.kernel_latency + kernel.duration,
                          .transfer =
                              s.machine->options.kernels_share ? kernel.duration : sim_time{},
                          .link = detail::sim_link_number(detail::sim_link_kind::memory, s.device),
                          .uses = detail::declared_uses(kernel),
                          .effect = std::forward<Body>(body),
                          .where  = where};
    detail::sim_queue{call}.enqueue(s, std::move(task));
    call.throw_report();
}
inline void sim_launch(sim_stream_view stream, sim_kernel const& kernel,
                       std::source_location where = std::source_location::current()) {
    sim_launch(stream, kernel, std::function<void()>{}, where);
}

/// A group of ranks that run collectives together, as an NCCL communicator. Copies stand for the
/// same group.
class sim_communicator {
public:
    /// Creates a communicator with the ranks 0 to `ranks - 1`.
    explicit sim_communicator(std::size_t ranks)
        : state_{std::make_shared<detail::sim_meetings>()} {
        state_->by_rank.resize(ranks);
    }
    /// Returns the number of ranks of the communicator.
    [[nodiscard]] std::size_t ranks() const noexcept { return state_->by_rank.size(); }

    /// Returns the record of the collectives that the ranks have queued so far. Only
    /// `sim_collective` uses this record.
    [[nodiscard]] detail::sim_meetings& state() const noexcept { return *state_; }

private:
    std::shared_ptr<detail::sim_meetings> state_;
};

/// Queues on `stream` the part of the rank with the index `rank` in a collective operation of all
/// ranks. All parts end together. The work before each part happens before the work after every
/// part.
///
///     sim_communicator const all{2};
///     sim_collective(left, all, 0, {.name = "all_reduce", .writes = {{x, n}}});
///     sim_collective(right, all, 1, {.name = "all_reduce", .writes = {{y, n}}});
///
/// If two ranks queue collectives in different orders, a deadlock is reported. Each part costs the
/// host as much as a launch. `sim_options::kernels_share` does not change its duration.
///
/// Failure   If it throws `std::bad_alloc` or `sim_error`, nothing is queued. May also throw
///           `sim_race`.
/// Streams   The part runs in stream order, and cannot be captured.
inline void sim_collective(sim_stream_view stream, sim_communicator const& communicator,
                           std::size_t rank, sim_kernel const& work,
                           std::source_location where = std::source_location::current()) {
    if (rank >= communicator.ranks()) { throw sim_error{sim_status::invalid_value, where}; }
    detail::sim_stream_state& s = stream.state();
    detail::sim_call          call{*s.machine, sim_call_kind::launch, s.device, where};
    call.admit();
    if (s.capture) { throw sim_error{sim_status::not_permitted, where}; }
    sim_options const& o = s.machine->options;
    call.pay(o.costs.launch);
    detail::sim_meetings& all     = communicator.state();
    auto const            meeting = all.add(rank, {work.name, where});
    try {
        detail::sim_queue{call}.enqueue(s, {.name     = work.name,
                                            .engine   = sim_engine::compute,
                                            .device   = s.device,
                                            .duration = o.kernel_latency + work.duration,
                                            .uses     = detail::declared_uses(work),
                                            .where    = where,
                                            .meeting  = meeting});
    } catch (...) {
        all.remove_last(rank);
        throw;
    }
    try {
        if (std::string text = all.difference(rank); !text.empty()) {
            s.machine->checker.report({.kind = sim_mistake::deadlock, .missing = std::move(text)});
        }
    } catch (std::bad_alloc const&) { s.machine->checker.lose_order(); }
    call.throw_report();
}

/// Runs `body()` on the host in the order of `stream`, as cudaLaunchHostFunc does, with the
/// accesses that `work` declares.
///
///     sim_call_host(stream, sim_host_work{.name = "sum", .reads = {{pinned, n}}}, [=] { ... });
///
/// Failure   Throws `sim_error` or `sim_race`; a later wait throws an exception of `body`.
/// Streams   The function runs in stream order, and may lock and notify a `sim_gate`.
template <class Body>
void sim_call_host(sim_stream_view stream, sim_host_work const& work, Body&& body,
                   std::source_location where = std::source_location::current()) {
    detail::sim_stream_state& s = stream.state();
    detail::sim_call          call{*s.machine, sim_call_kind::launch, s.device, where};
    call.admit();
    call.pay(s.machine->options.costs.host_function);
    detail::sim_queue{call}.enqueue(s, {.name          = work.name,
                                        .engine        = sim_engine::host,
                                        .device        = s.device,
                                        .duration      = work.duration,
                                        .host_function = true,
                                        .uses          = detail::declared_uses(work),
                                        .effect        = std::forward<Body>(body),
                                        .where         = where});
    call.throw_report();
}
/// Runs `function(argument)` on the host in the order of `stream`. Declares no memory accesses of
/// the function. The function takes no simulated time.
inline void sim_call_host(sim_stream_view stream, void (*function)(void*), void* argument,
                          std::source_location where = std::source_location::current()) {
    sim_call_host(stream, sim_host_work{}, [=] { function(argument); }, where);
}

} // namespace vram
