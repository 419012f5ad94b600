// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_launch` queues a kernel on a stream: a host callable with the ranges that it reads and
/// writes.

#include <vram/sim/sim_copy.hpp>        // detail::address
#include <vram/sim/sim_range.hpp>       // sim_range
#include <vram/sim/sim_stream_view.hpp> // sim_stream_view

#include <cstddef>         // size_t
#include <functional>      // function
#include <source_location> // source_location
#include <span>            // span
#include <utility>         // forward
#include <vector>          // vector

namespace vram {

/// What is declared of a kernel. `name` lives as long as the program.
struct sim_kernel {
    char const*            name     = "kernel";
    std::vector<sim_range> reads    = {};
    std::vector<sim_range> writes   = {};
    sim_time               duration = sim_time{1000};
};

/// Where the host finds what lies at the device address `p`: inside a kernel, or in a test that
/// looks at device memory. Device addresses themselves fault on the host (unless
/// `options.dereferenceable`); those of host memory are what they are. Throws `sim_error{unbacked}`
/// where the node keeps no contents.
template <class Type>
[[nodiscard]] Type* sim_view(Type* p) {
    std::uintptr_t const at = sim_node::current().machine().memory.view(detail::address(p));
    if (at == 0 && p != nullptr) { throw sim_error{sim_status::unbacked}; }
    return reinterpret_cast<Type*>(at);
}
template <class Type, std::size_t Extent>
[[nodiscard]] std::span<Type, Extent> sim_view(std::span<Type, Extent> s) {
    return std::span<Type, Extent>{sim_view(s.data()), s.size()};
}

/// Enqueues `body()` on `stream`. It runs when the kernel ends in virtual time, on whatever thread
/// lets time go on, and sees device memory through `sim_view`. It may call nothing of the machine.
///
///     sim_launch(stream, {.name = "add", .reads = {all}, .writes = {all}, .duration = 10us}, [=] {
///         for (auto& x : sim_view(all)) { x += 1; } // `all` is a std::span of device memory
///     });
///
/// Failure   `sim_error`; what `body` throws is thrown by the next call that waits for the device
/// Streams   in order; reads and writes are checked when it is enqueued
template <class Body>
void sim_launch(sim_stream_view stream, sim_kernel const& kernel, Body&& body,
                std::source_location where = std::source_location::current()) {
    sim_stream_state& s = stream.state();
    sim_call          call{*s.machine, sim_call_kind::launch, s.device, where};
    call.admit();
    sim_task task{.name     = kernel.name,
                  .engine   = sim_engine::compute,
                  .device   = s.device,
                  .duration = kernel.duration,
                  .effect   = std::forward<Body>(body),
                  .where    = where};
    task.uses.reserve(kernel.reads.size() + kernel.writes.size());
    for (sim_range const& r : kernel.reads) { task.uses.push_back({r, sim_access::read}); }
    for (sim_range const& r : kernel.writes) { task.uses.push_back({r, sim_access::write}); }
    sim_queue{call}.enqueue(s, std::move(task));
    call.tell();
}
inline void sim_launch(sim_stream_view stream, sim_kernel const& kernel,
                       std::source_location where = std::source_location::current()) {
    sim_launch(stream, kernel, std::function<void()>{}, where);
}

/// Runs `function(argument)` on the host in the order of `stream` (cudaLaunchHostFunc), taking no
/// virtual time. It may call nothing of the machine; that is `sim_error{not_permitted}`. Only a
/// `sim_gate` it may take and notify: who goes on by that knows all that came before in the stream.
inline void sim_call_host(sim_stream_view stream, void (*function)(void*), void* argument,
                          std::source_location where = std::source_location::current()) {
    sim_stream_state& s = stream.state();
    sim_call          call{*s.machine, sim_call_kind::launch, s.device, where};
    call.admit();
    sim_queue{call}.enqueue(s, {.name          = "host call",
                                .engine        = sim_engine::host,
                                .device        = s.device,
                                .host_function = true,
                                .effect        = [=] { function(argument); },
                                .where         = where});
    call.tell();
}

} // namespace vram
