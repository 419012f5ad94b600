// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include <vram/sim/machine/sim_lock.hpp>
#include <vram/sim/machine/sim_virtual_memory.hpp>
#include <vram/sim/sim.hpp>

#include <cstddef>
#include <stdexcept>
#include <thread>

namespace catalogue::devices {

GROUP("devices and peers")

PAIR(kernel_without_peer_access, peer_access,
     "cudaDeviceEnablePeerAccess: kernels need it for the memory of another device", .devices = 2,
     .peer_access = false) {
    block const      p{kind::device, 1};
    sim_stream const s;
    if (right) { sim_device{0}.set_peer_access(sim_device{1}, true); }
    MISTAKE(reads(s, p));
}

PAIR(peer_access_of_the_other_direction, peer_access,
     "cudaDeviceEnablePeerAccess is unidirectional", .devices = 2, .peer_access = false) {
    block const      p{kind::device, 1};
    sim_stream const s;
    sim_device{right ? 0 : 1}.set_peer_access(sim_device{right ? 1 : 0}, true);
    MISTAKE(writes(s, p));
}

PAIR(kernel_instead_of_a_peer_copy, peer_access,
     "cudaMemcpy between devices works without peer access, a kernel does not", .devices = 2,
     .peer_access = false) {
    block const      p, q{kind::device, 1};
    sim_stream const s;
    if (right) {
        copies(s, p, q);
    } else {
        MISTAKE(reads(s, q));
    }
}

PAIR(streams_of_two_devices, race, "Streams of different devices have no order", .devices = 2,
     .peer_access = true) {
    block const      p;
    sim_stream const s, t = stream_of(1);
    writes(s, p);
    if (right) { follows(t, s); }
    MISTAKE(reads(t, p));
}

PAIR(kernel_before_the_peer_copy_is_complete, race,
     "A copy between devices is ordered with its stream only", .devices = 2) {
    block const      p, q{kind::device, 1};
    sim_stream const s, t = stream_of(1);
    copies(s, q, p);
    if (right) { follows(t, s); }
    MISTAKE(reads(t, q));
}

PAIR(source_of_a_peer_copy_overwritten, race,
     "A copy between devices is ordered with its stream only", .devices = 2) {
    block const      p, q{kind::device, 1};
    sim_stream const s, t = stream_of(1);
    copies(t, q, p);
    if (right) { follows(s, t); }
    MISTAKE(writes(s, p));
}

PAIR(peer_copy_in_the_default_stream, race,
     "A copy between devices in the NULL stream is ordered with the legacy streams of both",
     .devices = 2) {
    block const      p, q{kind::device, 1};
    sim_stream const t{sim_device{1}, {.blocking = right}};
    sim_copy_sync(q.data(), p.data(), 4096);
    MISTAKE(reads(t, q));
}

PAIR(default_streams_of_two_devices, race, "Each device has its own legacy default stream",
     .devices = 2, .peer_access = true) {
    block const p;
    writes(legacy(0), p);
    if (right) { follows(legacy(1), legacy(0)); }
    MISTAKE(reads(legacy(1), p));
}

PAIR(copy_without_a_link, refused(sim_status::peer_not_reachable),
     "cudaMemcpyPeer needs a connection in the direction of the copy", .devices = 2,
     .links = {{0, 1}}) {
    block const      p, q{kind::device, 1};
    sim_stream const s;
    MISTAKE(right ? copies(s, q, p) : copies(s, p, q));
}

PAIR(free_to_the_resource_of_another_device, foreign_free,
     "vram: memory is freed to the resource that allocated it", .devices = 2) {
    sim_resource a{sim_device{0}}, b{sim_device{1}};
    void* const  p = a.allocate_sync(4096);
    if (!right) { MISTAKE(b.deallocate_sync(p, 4096)); }
    a.deallocate_sync(p, 4096);
}

PAIR(device_that_does_not_exist, refused(sim_status::invalid_device),
     "cudaSetDevice: the index must be less than the number of devices", .devices = 2) {
    MISTAKE(sim_device(right ? 1 : 2).make_current());
}

PAIR(pool_memory_of_another_device_without_peers, peer_access,
     "cudaMemPoolSetAccess: the memory of a pool is accessible from its device", .devices = 2,
     .peer_access = false) {
    sim_async_resource memory{sim_device{right ? 1 : 0}};
    sim_stream const   s = stream_of(1);
    void* const        p = memory.allocate_sync(4096);
    MISTAKE(writes(s, {p, 4096}));
    s.synchronize();
    memory.deallocate_sync(p, 4096);
}

PAIR(pool_memory_of_another_device_with_peers, peer_access,
     "cudaMemPoolSetAccess: cudaDeviceEnablePeerAccess does not apply to the memory of a pool",
     .devices = 2) {
    sim_async_resource memory{sim_device{0}};
    sim_device{1}.set_peer_access(sim_device{0}, true);
    if (right) { memory.allow_access(sim_device{1}); }
    sim_stream const s = stream_of(1);
    void* const      p = memory.allocate_sync(4096);
    MISTAKE(writes(s, {p, 4096}));
    s.synchronize();
    memory.deallocate_sync(p, 4096);
}

PAIR(fill_without_peer_access, peer_access,
     "cudaMemset: the device of the stream needs peer access (cudaErrorInvalidValue)", .devices = 2,
     .peer_access = false) {
    block const      p{kind::device, 1};
    sim_stream const s;
    if (right) { sim_device{0}.set_peer_access(sim_device{1}, true); }
    MISTAKE(fills(s, p));
}

PAIR(fill_on_a_stream_of_the_other_device, peer_access,
     "cudaMemset: the device of the stream needs peer access (cudaErrorInvalidValue)", .devices = 2,
     .peer_access = false) {
    block const      p{kind::device, 1};
    sim_stream const s = stream_of(right ? 1 : 0);
    MISTAKE(fills(s, p));
}

PAIR(copy_of_pool_memory_without_access, peer_access,
     "cudaMemPoolSetAccess: copies on streams of another device need it (cudaErrorInvalidValue)",
     .devices = 2, .peer_access = false) {
    sim_async_resource memory{sim_device{1}};
    block const        q;
    sim_stream const   s;
    void* const        p = memory.allocate_sync(4096);
    if (right) { memory.allow_access(sim_device{0}); }
    MISTAKE(copies(s, {p, 4096}, q));
    s.synchronize();
    memory.deallocate_sync(p, 4096);
}

PAIR(copy_of_pool_memory_with_peer_access, peer_access,
     "cudaMemPoolSetAccess: cudaDeviceEnablePeerAccess does not apply to the memory of a pool",
     .devices = 2, .peer_access = false) {
    sim_async_resource memory{sim_device{1}};
    block const        host{kind::pinned};
    sim_device{0}.set_peer_access(sim_device{1}, true);
    sim_stream const s = stream_of(right ? 1 : 0);
    void* const      p = memory.allocate_sync(4096);
    MISTAKE(copies(s, {p, 4096}, host));
    s.synchronize();
    memory.deallocate_sync(p, 4096);
}

PAIR(copy_of_pool_memory_without_its_device, peer_access,
     "cudaMemcpyPeerAsync: a copy that names both devices needs no access", .devices = 2,
     .peer_access = false) {
    sim_async_resource memory{sim_device{1}};
    block const        q;
    sim_stream const   s;
    void* const        p = memory.allocate_sync(4096);
    if (right) {
        sim_copy(s, p, sim_device{1}, q.data(), sim_device{0}, 4096);
    } else {
        MISTAKE(copies(s, {p, 4096}, q));
    }
    s.synchronize();
    memory.deallocate_sync(p, 4096);
}

PAIR(launch_on_a_stream_of_another_device, not_checked(sim_status::invalid_handle),
     "A kernel launch fails if the stream is not of the current device", .devices = 2) {
    block const      p{kind::device, 1};
    sim_stream const s = stream_of(1);
    sim_device{right ? 1 : 0}.make_current();
    MISTAKE(sim_launch(s, {.writes = {p}}));
}

PAIR(synchronous_peer_copy_as_a_wait, race, "cudaMemcpy between devices does not wait for the copy",
     .devices = 2) {
    block const      p, q{kind::device, 1};
    sim_stream const t = stream_of(1);
    sim_copy_sync(q.data(), p.data(), 4096);
    if (right) { legacy(0).synchronize(); }
    MISTAKE(reads(t, q));
}

PAIR(event_of_another_device_recorded_too_early, race,
     "cudaStreamWaitEvent accepts an event of another device", .devices = 2, .peer_access = true) {
    block const      p;
    sim_stream const s, t = stream_of(1);
    sim_event        e;
    if (!right) { e.record(s); }
    writes(s, p);
    if (right) { e.record(s); }
    e.wait(t);
    MISTAKE(reads(t, p));
}

PAIR(ring_of_three_devices, race, "Order between devices is transitive along waits only",
     .devices = 3) {
    block const      p, q{kind::device, 1}, r{kind::device, 2};
    sim_stream const s = stream_of(0), t = stream_of(1), u = stream_of(2);
    copies(s, q, p);
    follows(t, s);
    copies(t, r, q);
    if (right) { follows(u, t); }
    MISTAKE(reads(u, r));
}

} // namespace catalogue::devices

namespace catalogue::threads {

GROUP("host threads, gates and tokens")

/// Runs `first` and `second` on two threads; by the clocks, `second` begins later.
template <class First, class Second>
static void run_both(First first, Second second) {
    sim_thread a{sim_device{}, first};
    sim_thread b{sim_device{}, [second] {
                     sim_work(sim_time{50'000});
                     second();
                 }};
    sim_thread::join_together(a, b);
}

/// A hand-over from one thread to another.
struct handover {
    void signal() {
        {
            auto const held = gate.hold();
            set             = true;
        }
        gate.notify();
    }
    void await() {
        auto held = gate.hold();
        gate.wait(held, [this] { return set; });
    }
    sim_platform::gate gate{};
    bool               set = false;
};

PAIR(two_threads_write, race, "Two host threads have no order without a join, a lock or a gate") {
    block const p{kind::pinned};
    sim_thread  a{sim_device{}, [&] { host_writes(p); }};
    if (right) { a.join(); }
    sim_thread b{sim_device{}, [&] { MISTAKE(host_writes(p)); }};
}

PAIR(data_passed_without_a_gate, race, "Data passed to another thread needs a hand-over") {
    block const p{kind::pinned};
    handover    h;
    run_both(
        [&] {
            host_writes(p);
            h.signal();
        },
        [&] {
            if (right) { h.await(); }
            MISTAKE(host_reads(p));
        });
}

PAIR(gate_signalled_too_early, race, "A gate orders only what was done before its release") {
    block const p{kind::pinned};
    handover    h;
    run_both(
        [&] {
            if (!right) { h.signal(); }
            host_writes(p);
            if (right) { h.signal(); }
        },
        [&] {
            h.await();
            MISTAKE(host_reads(p));
        });
}

PAIR(stream_waits_for_an_event_by_luck, unordered_wait,
     "cudaStreamWaitEvent before the record of another thread has no effect") {
    block const      p;
    sim_stream const s, t;
    sim_event        e;
    handover         h;
    run_both(
        [&] {
            writes(s, p);
            e.record(s);
            h.signal();
        },
        [&] {
            if (right) { h.await(); }
            MISTAKE(e.wait(t));
            reads(t, p);
        });
}

PAIR(host_waits_for_an_event_by_luck, unordered_wait,
     "cudaEventSynchronize before the record of another thread does not wait") {
    block const      p{kind::pinned};
    sim_stream const s;
    sim_event        e;
    handover         h;
    run_both(
        [&] {
            writes(s, p);
            e.record(s);
            h.signal();
        },
        [&] {
            if (right) { h.await(); }
            MISTAKE(e.synchronize());
            host_reads(p);
        });
}

PAIR(query_of_an_event_by_luck, unordered_wait,
     "cudaEventQuery before the record of another thread returns cudaSuccess") {
    block const      p{kind::pinned};
    sim_stream const s;
    sim_event        e;
    handover         h;
    run_both(
        [&] {
            writes(s, p);
            e.record(s);
            h.signal();
        },
        [&] {
            if (right) { h.await(); }
            bool done = false;
            while (!done) { MISTAKE(done = e.done()); }
            host_reads(p);
        });
}

PAIR(token_of_something_else, race, "sim_happens_after orders with the same token only") {
    block const p{kind::pinned};
    int         ours = 0, theirs = 0;
    run_both(
        [&] {
            host_writes(p);
            sim_happens_before(&ours);
        },
        [&] {
            sim_happens_after(right ? &ours : &theirs);
            MISTAKE(host_reads(p));
        });
}

PAIR(token_before_the_work, race, "sim_happens_before covers only earlier work") {
    block const p{kind::pinned};
    int         token = 0;
    run_both(
        [&] {
            if (!right) { sim_happens_before(&token); }
            host_writes(p);
            if (right) { sim_happens_before(&token); }
        },
        [&] {
            sim_happens_after(&token);
            MISTAKE(host_reads(p));
        });
}

PAIR(wait_of_another_thread, race, "A host wait orders the thread that waits, and no other") {
    block const      p{kind::pinned};
    sim_stream const s;
    handover         h;
    writes(s, p);
    run_both(
        [&] {
            s.synchronize();
            h.signal();
        },
        [&] {
            if (right) { h.await(); }
            MISTAKE(host_reads(p));
        });
}

PAIR(query_of_another_thread, race, "A query passes nothing to work that others queue later") {
    block const      p{kind::pinned};
    sim_stream const s;
    handover         h;
    run_both(
        [&] {
            host_writes(p);
            static_cast<void>(s.done());
            h.signal();
        },
        [&] {
            if (right) { h.await(); }
            MISTAKE(reads(s, p));
        });
}

PAIR(read_before_the_join, race, "A join orders what follows it") {
    block const p{kind::pinned};
    sim_thread  a{sim_device{}, [&] { MISTAKE(host_writes(p)); }};
    if (right) { a.join(); }
    host_reads(p);
}

PAIR(write_after_the_start, race, "A thread is ordered after what its creator did before") {
    block const p{kind::pinned};
    if (right) { host_writes(p); }
    sim_thread a{sim_device{}, [&] { MISTAKE(host_reads(p)); }};
    if (!right) { host_writes(p); }
}

PAIR(two_locks, race, "Two threads are ordered only if they use the same lock") {
    block const        p{kind::pinned};
    sim_platform::lock a, b;
    run_both(
        [&] {
            auto const held = a.hold();
            host_writes(p);
        },
        [&] {
            auto const held = (right ? a : b).hold();
            MISTAKE(host_writes(p));
        });
}

PAIR(argument_of_another_thread, race,
     "Work in a stream is ordered after its queueing thread, not after other threads") {
    block const      p{kind::pinned};
    sim_stream const s;
    handover         h;
    run_both(
        [&] {
            host_writes(p);
            h.signal();
        },
        [&] {
            if (right) { h.await(); }
            MISTAKE(reads(s, p));
        });
}

PAIR(freed_by_another_thread, free_before_last_use, "A free must be ordered after the last use") {
    block    p{kind::pinned};
    handover h;
    run_both(
        [&] {
            host_reads(p);
            h.signal();
        },
        [&] {
            if (right) { h.await(); }
            MISTAKE(p.free());
        });
}

PAIR(stream_ordered_free_by_another_thread, use_after_free,
     "A stream orders operations as they are queued; the threads must order the queueing") {
    sim_async_resource memory;
    sim_stream const   s;
    handover           h;
    void* const        p = memory.allocate(s, 4096);
    run_both(
        [&] {
            if (right) { writes(s, {p, 4096}); }
            h.signal();
            if (!right) {
                sim_work(sim_time{100'000});
                MISTAKE(writes(s, {p, 4096}));
            }
        },
        [&] {
            h.await();
            memory.deallocate(s, p, 4096);
        });
}

PAIR(per_thread_streams_of_two_threads, race,
     "Each thread has its own per-thread default stream, and these have no order",
     .default_stream = sim_default_stream::per_thread) {
    block const p;
    handover    h;
    run_both(
        [&] {
            writes({}, p);
            if (right) { sim_stream_view{}.synchronize(); }
            h.signal();
        },
        [&] {
            h.await();
            MISTAKE(reads({}, p));
        });
}

PAIR(exception_leaves_a_thread, thread_failed, "std::thread: an exception ends the program") {
    mark_any_line();
    sim_thread a{sim_device{}, [&] {
                     if (!right) { throw std::runtime_error{"failed"}; }
                 }};
}

PAIR(thread_that_waits_for_ever, deadlock, "A wait needs a thread that ends it") {
    handover h;
    mark_any_line();
    sim_thread a{sim_device{}, [&] { h.await(); }};
    sim_thread b{sim_device{}, [&] {
                     if (right) { h.signal(); }
                 }};
    sim_thread::join_together(a, b);
}

PAIR(two_threads_queue_on_one_stream, not_checked(race),
     "A stream orders operations as they are queued; the threads must order the queueing") {
    block const      p;
    sim_stream const s;
    handover         h;
    run_both(
        [&] {
            writes(s, p);
            h.signal();
        },
        [&] {
            if (right) { h.await(); }
            MISTAKE(reads(s, p));
        });
}

PAIR(stream_awaited_by_luck, not_checked(race),
     "A host wait includes only work that is queued before it in every order of the threads") {
    block const      p{kind::pinned};
    sim_stream const s;
    handover         h;
    run_both(
        [&] {
            writes(s, p);
            h.signal();
        },
        [&] {
            if (right) { h.await(); }
            s.synchronize();
            MISTAKE(host_reads(p));
        });
}

PAIR(ordinary_threads, not_checked(race),
     "Two host threads have no order without a join, a lock or a gate") {
    block const p{kind::pinned};
    std::thread a{[&] { host_writes(p); }};
    if (right) { a.join(); }
    std::thread b{[&] { MISTAKE(host_writes(p)); }};
    if (!right) { a.join(); }
    b.join();
}

PAIR(unsafe_call_of_another_thread_during_a_capture, refused(sim_status::stream_capturing),
     "A capture in global mode forbids unsafe calls of all threads, in thread-local mode of its "
     "own") {
    block const      p, q{kind::pinned};
    sim_stream const s;
    sim_graph::begin(s, right ? sim_capture_mode::thread_local_only : sim_capture_mode::global);
    sim_status  seen = sim_status::ok;
    std::thread a{[&] {
        try {
            sim_copy_sync(q.data(), p.data(), 4096);
        } catch (sim_error const& e) { seen = e.status(); }
    }};
    a.join();
    MISTAKE(static_cast<void>(seen == sim_status::ok ? 0 : throw sim_error{seen}));
    static_cast<void>(sim_graph::end(s));
}

PAIR(hand_over_without_an_event, race, "A hand-over orders the threads, and not their streams") {
    block const      p;
    sim_stream const s, t;
    handover         h;
    run_both(
        [&] {
            writes(s, p);
            h.signal();
        },
        [&] {
            h.await();
            if (right) { follows(t, s); }
            MISTAKE(reads(t, p));
        });
}

PAIR(token_of_one_thread_of_two, race, "A token orders after the threads that declared it") {
    block const p{kind::pinned};
    int         token = 0;
    sim_thread  a{sim_device{}, [&] {
                     host_writes(p.first_half());
                     sim_happens_before(&token);
                 }};
    sim_thread  b{sim_device{}, [&] {
                     host_writes(p.second_half());
                     if (right) { sim_happens_before(&token); }
                 }};
    sim_thread  c{sim_device{}, [&] {
                     sim_work(sim_time{50'000});
                     sim_happens_after(&token);
                     MISTAKE(host_reads(p));
                 }};
    sim_thread::join_together(a, b, c);
}

PAIR(join_of_one_thread_of_two, race, "A join orders after one thread") {
    block const p{kind::pinned};
    sim_thread  a{sim_device{}, [&] { host_writes(p.first_half()); }};
    sim_thread  b{sim_device{}, [&] { MISTAKE(host_writes(p.second_half())); }};
    a.join();
    if (right) { b.join(); }
    host_reads(p);
}

} // namespace catalogue::threads

namespace catalogue::host_functions {

GROUP("host functions")

struct signal_of {
    sim_platform::gate gate{};
    bool               set = false;
};
static void signals(void* argument) {
    auto& s = *static_cast<signal_of*>(argument);
    {
        auto const held = s.gate.hold();
        s.set           = true;
    }
    s.gate.notify();
}

PAIR(host_function_before_the_copy, race,
     "cudaLaunchHostFunc: the function runs after the earlier work of its stream") {
    block const      p, q{kind::pinned};
    sim_stream const s;
    signal_of        h;
    if (!right) { sim_call_host(s, signals, &h); }
    copies(s, q, p);
    if (right) { sim_call_host(s, signals, &h); }
    sim_thread consumer{sim_device{}, [&] {
                            {
                                auto held = h.gate.hold();
                                h.gate.wait(held, [&] { return h.set; });
                            }
                            MISTAKE(host_reads(q));
                        }};
}

PAIR(host_function_on_another_stream, race,
     "cudaLaunchHostFunc: the function is ordered with its stream only") {
    block const      p, q{kind::pinned};
    sim_stream const s, t;
    signal_of        h;
    copies(s, q, p);
    sim_call_host(right ? s : t, signals, &h);
    sim_thread consumer{sim_device{}, [&] {
                            {
                                auto held = h.gate.hold();
                                h.gate.wait(held, [&] { return h.set; });
                            }
                            MISTAKE(host_writes(q));
                        }};
}

PAIR(host_function_calls_the_device, refused(sim_status::not_permitted),
     "cudaLaunchHostFunc: the function must not call CUDA") {
    sim_stream const s;
    sim_call_host(
        s,
        [](void* called) {
            if (called != nullptr) { MISTAKE(sim_device{}.synchronize()); }
        },
        right ? nullptr : &s.view().state());
    s.synchronize();
}

PAIR(stream_behind_a_host_function, race,
     "Another stream waits for a host function only through an event") {
    block const      p;
    sim_stream const s, t;
    writes(s, p);
    sim_call_host(s, [](void*) {}, nullptr);
    if (right) { follows(t, s); }
    MISTAKE(reads(t, p));
}

PAIR(host_function_writes_memory, race,
     "A host function runs beside the host thread until the host waits for it") {
    block const      p{kind::pinned};
    sim_stream const s;
    sim_call_host(s, sim_host_work{.writes = {p}}, [] {});
    if (right) { s.synchronize(); }
    MISTAKE(host_reads(p));
}

PAIR(host_function_reads_what_a_copy_writes, race,
     "cudaLaunchHostFunc: the function is ordered with its stream only") {
    block const      p, q{kind::pinned};
    sim_stream const s, t;
    copies(s, q, p);
    if (right) { follows(t, s); }
    MISTAKE(sim_call_host(t, sim_host_work{.reads = {q}}, [] {}));
}

PAIR(host_function_accesses_pageable_memory, race,
     "A host function may access pageable memory, but needs an order with the host thread") {
    block const      p{kind::pageable};
    sim_stream const s;
    if (right) { host_writes(p); }
    sim_call_host(s, sim_host_work{.reads = {p}}, [] {});
    MISTAKE(right ? host_reads(p) : host_writes(p));
    s.synchronize();
}

PAIR(host_function_accesses_device_memory, host_access,
     "The host cannot dereference device memory") {
    block const      p{right ? kind::managed : kind::device};
    sim_stream const s;
    MISTAKE(sim_call_host(s, sim_host_work{.reads = {p}}, [] {}));
}

PAIR(host_function_touches_undeclared_memory, undeclared_access,
     "vram: a simulated host function declares the memory that it accesses") {
    block const      p{kind::pinned}, q{kind::pinned};
    sim_stream const s;
    sim_call_host(s, sim_host_work{.reads = {right ? q : p}},
                  [&] { MISTAKE(sim_touch(q, sim_access::read)); });
    s.synchronize();
}

PAIR(host_function_touches_pageable_memory, undeclared_access,
     "vram: a simulated host function declares the memory that it accesses") {
    block const      p{kind::pageable};
    sim_stream const s;
    sim_host_work    work{.reads = {p}};
    if (right) { work.writes = {p}; }
    sim_call_host(s, work, [&] { MISTAKE(sim_touch(p, sim_access::write)); });
    s.synchronize();
}

PAIR(host_function_views_undeclared_memory, undeclared_access,
     "vram: a simulated host function declares the memory that it accesses") {
    block const      p{kind::pinned}, q{kind::pinned};
    sim_stream const s;
    MISTAKE(sim_call_host(s, sim_host_work{.writes = {right ? q : p}},
                          [&] { *sim_view(static_cast<std::byte*>(q.data())) = std::byte{1}; }));
    s.synchronize();
}

PAIR(host_function_without_a_declaration, not_checked(race),
     "vram: a simulated host function declares the memory that it accesses") {
    block const      p{kind::pinned};
    sim_stream const s;
    sim_call_host(s, [](void* to) { *static_cast<std::byte*>(to) = std::byte{1}; }, p.data());
    if (right) { s.synchronize(); }
    MISTAKE(host_reads(p));
}

} // namespace catalogue::host_functions

namespace catalogue::of_virtual_memory {

GROUP("virtual memory")

/// Two pages of addresses, with memory in the first.
struct pages {
    explicit pages(bool granted = true) {
        memory.map(begin, handle, page);
        if (granted) { memory.set_access(begin, page); }
    }
    ~pages() {
        sim_device{}.await_all();
        if (mapped) { memory.unmap(begin, page); }
        memory.destroy(handle, page);
        memory.release(begin, 2 * page);
    }
    [[nodiscard]] sim_range first() const { return {begin, 4096}; }
    [[nodiscard]] sim_range second() const { return {static_cast<std::byte*>(begin) + page, 4096}; }
    static constexpr std::size_t     page = 64_KiB;
    vram::detail::sim_virtual_memory memory{};
    void*                            begin  = memory.reserve(2 * page, page);
    std::uint64_t                    handle = memory.create(page);
    bool                             mapped = true;
};

PAIR(addresses_without_memory, unmapped_access, "cuMemMap: reserved addresses have no memory",
     .page = 64_KiB) {
    pages const      p;
    sim_stream const s;
    MISTAKE(writes(s, right ? p.first() : p.second()));
}

PAIR(mapping_without_access, unmapped_access,
     "cuMemSetAccess: a mapping is not accessible before it", .page = 64_KiB) {
    pages const      p{right};
    sim_stream const s;
    MISTAKE(writes(s, p.first()));
}

PAIR(access_to_a_part_of_a_mapping, refused(sim_status::invalid_value),
     "cuMemSetAccess: the range must contain the whole of each mapping", .page = 32_KiB) {
    pages const       p{false};
    std::size_t const skipped = right ? 0 : 32_KiB;
    MISTAKE(p.memory.set_access(static_cast<std::byte*>(p.begin) + skipped, 64_KiB - skipped));
}

PAIR(access_past_the_mapping, unmapped_access, "An access must be inside mapped memory",
     .page = 64_KiB) {
    pages const      p;
    sim_stream const s;
    MISTAKE(writes(s, {p.begin, right ? 64_KiB : 64_KiB + 1}));
}

PAIR(unmapped_during_a_kernel, free_before_last_use,
     "cuMemUnmap waits for nothing: work must be complete", .page = 64_KiB) {
    pages            p;
    sim_stream const s;
    writes(s, p.first());
    if (right) { s.synchronize(); }
    MISTAKE(p.memory.unmap(p.begin, 64_KiB));
    p.mapped = false;
}

PAIR(kernel_after_the_unmapping, unmapped_access, "cuMemUnmap ends the access", .page = 64_KiB) {
    pages            p;
    sim_stream const s;
    if (!right) {
        p.memory.unmap(p.begin, 64_KiB);
        p.mapped = false;
    }
    MISTAKE(writes(s, p.first()));
}

PAIR(one_memory_at_two_addresses, race, "Accesses through two mappings of one memory need an order",
     .page = 64_KiB) {
    pages            p;
    sim_stream const s, t;
    auto* const      other = static_cast<std::byte*>(p.begin) + 64_KiB;
    p.memory.map(other, p.handle, 64_KiB);
    p.memory.set_access(other, 64_KiB);
    writes(s, p.first());
    if (right) { follows(t, s); }
    MISTAKE(writes(t, p.second()));
    sim_device{}.synchronize();
    p.memory.unmap(other, 64_KiB);
}

PAIR(mapping_of_another_device, peer_access,
     "cuMemSetAccess: each device needs it for a mapping, also with peer access", .devices = 2,
     .page = 64_KiB) {
    pages const      p;
    sim_stream const s = stream_of(right ? 0 : 1);
    MISTAKE(writes(s, p.first()));
}

PAIR(copy_of_a_mapping_of_another_device, peer_access,
     "cuMemSetAccess: copies on streams of another device need it (cudaErrorInvalidValue)",
     .devices = 2, .page = 64_KiB, .peer_access = false) {
    pages const      p;
    block const      host{kind::pinned};
    sim_stream const s = stream_of(right ? 0 : 1);
    MISTAKE(copies(s, p.first(), host.first_half()));
}

PAIR(unmapping_of_half_a_mapping, refused(sim_status::invalid_value),
     "cuMemUnmap: only whole mappings can be unmapped", .page = 64_KiB) {
    vram::detail::sim_virtual_memory const memory;
    void* const                            p = memory.reserve(128_KiB, 64_KiB);
    std::uint64_t const                    h = memory.create(128_KiB);
    memory.map(p, h, 128_KiB);
    if (!right) {
        try {
            MISTAKE(memory.unmap(p, 64_KiB));
        } catch (...) {
            memory.unmap(p, 128_KiB);
            memory.destroy(h, 128_KiB);
            memory.release(p, 128_KiB);
            throw;
        }
    }
    memory.unmap(p, 128_KiB);
    memory.destroy(h, 128_KiB);
    memory.release(p, 128_KiB);
}

PAIR(leak_of_physical_memory, leak, "cuMemRelease: every handle must be released", .page = 64_KiB) {
    vram::detail::sim_virtual_memory const memory;
    std::uint64_t                          h = 0;
    MISTAKE(h = memory.create(64_KiB));
    if (right) { memory.destroy(h, 64_KiB); }
}

PAIR(leak_of_addresses, leak, "cuMemAddressFree: every reservation must be freed", .page = 64_KiB) {
    vram::detail::sim_virtual_memory const memory;
    void*                                  p = nullptr;
    MISTAKE(p = memory.reserve(64_KiB, 64_KiB));
    if (right) { memory.release(p, 64_KiB); }
}

PAIR(use_before_the_block_grows, unmapped_access, "vram: extend makes more bytes of a block usable",
     .page = 64_KiB) {
    sim_virtual_resource memory{{.handle_size = 64_KiB}};
    sim_stream const     s;
    auto* const          p = static_cast<std::byte*>(memory.allocate_sync(64_KiB));
    if (right) { CHECK(memory.extend(p, 64_KiB, 64_KiB)); }
    MISTAKE(writes(s, {p + 64_KiB, 4096}));
    s.synchronize();
    memory.deallocate_sync(p, right ? 128_KiB : 64_KiB);
}

PAIR(double_free_of_a_block, double_free, "vram: memory is freed once", .page = 64_KiB) {
    sim_virtual_resource memory{{.handle_size = 64_KiB}};
    void* const          p = memory.allocate_sync(64_KiB);
    memory.deallocate_sync(p, 64_KiB);
    mark_any_line();
    if (!right) { memory.deallocate_sync(p, 64_KiB); }
}

PAIR(block_freed_during_a_kernel, free_before_last_use,
     "vram: a free of virtual memory waits for nothing", .page = 64_KiB) {
    sim_virtual_resource memory{{.handle_size = 64_KiB}};
    sim_stream const     s;
    void* const          p = memory.allocate_sync(64_KiB);
    writes(s, {p, 4096});
    if (right) { s.synchronize(); }
    mark_any_line();
    memory.deallocate_sync(p, 64_KiB);
    memory.trim();
}

PAIR(block_used_after_its_free, unmapped_access, "vram: freed memory may be unmapped at any time",
     .page = 64_KiB) {
    sim_virtual_resource memory{{.handle_size = 64_KiB}};
    sim_stream const     s;
    void* const          p = memory.allocate_sync(64_KiB);
    if (!right) {
        memory.deallocate_sync(p, 64_KiB);
        memory.trim();
    }
    MISTAKE(writes(s, {p, 4096}));
    s.synchronize();
    if (right) { memory.deallocate_sync(p, 64_KiB); }
}

PAIR(hole_between_two_mappings, unmapped_access,
     "An access may span mappings that follow each other, but no hole", .page = 64_KiB) {
    pages            p;
    sim_stream const s;
    auto const       more  = p.memory.create(64_KiB);
    auto* const      other = static_cast<std::byte*>(p.begin) + 64_KiB;
    if (right) {
        p.memory.map(other, more, 64_KiB);
        p.memory.set_access(other, 64_KiB);
    }
    MISTAKE(writes(s, {p.begin, 128_KiB}));
    s.synchronize();
    if (right) { p.memory.unmap(other, 64_KiB); }
    p.memory.destroy(more, 64_KiB);
}

PAIR(two_writes_to_one_mapping, race, "Mapped memory is ordered as other memory", .page = 64_KiB) {
    pages const      p;
    sim_stream const s, t;
    writes(s, p.first());
    if (right) { follows(t, s); }
    MISTAKE(writes(t, p.first()));
}

PAIR(copy_out_of_a_mapping_and_its_end, free_before_last_use,
     "cuMemUnmap waits for nothing: copies must be complete", .page = 64_KiB) {
    pages            p;
    block const      q{kind::pinned};
    sim_stream const s;
    copies(s, q, p.first());
    if (right) { s.synchronize(); }
    MISTAKE(p.memory.unmap(p.begin, 64_KiB));
    p.mapped = false;
}

PAIR(copy_between_two_mappings_of_one_memory, overlapping_copy,
     "cudaMemcpy: the memory areas may not overlap, also if their addresses differ",
     .page = 64_KiB) {
    pages            p;
    sim_stream const s;
    auto* const      other = static_cast<std::byte*>(p.begin) + 64_KiB;
    p.memory.map(other, p.handle, 64_KiB);
    p.memory.set_access(other, 64_KiB);
    MISTAKE(sim_copy(s, other + (right ? 4096 : 100), p.begin, 4096));
    sim_device{}.synchronize();
    p.memory.unmap(other, 64_KiB);
}

PAIR(batch_to_two_mappings_of_one_memory, race,
     "cudaMemcpyBatchAsync: the copies have no order among themselves", .page = 64_KiB) {
    pages             p;
    block const       q{kind::pinned};
    sim_stream const  s;
    auto* const       other   = static_cast<std::byte*>(p.begin) + 64_KiB;
    void* const       to[]    = {p.begin, other + (right ? 2048 : 2047)};
    void const* const from[]  = {q.data(), q.second_half().data};
    std::size_t const bytes[] = {2048, 2048};
    p.memory.map(other, p.handle, 64_KiB);
    p.memory.set_access(other, 64_KiB);
    MISTAKE(sim_copy_batch(s, to, from, bytes));
    sim_device{}.synchronize();
    p.memory.unmap(other, 64_KiB);
}

PAIR(read_through_another_mapping, uninitialised_read,
     "cuMemMap: contents belong to the physical memory", .page = 64_KiB,
     .checks = {.uninitialised = true}) {
    pages            p;
    sim_stream const s;
    auto* const      other = static_cast<std::byte*>(p.begin) + 64_KiB;
    if (right) { writes(s, p.first()); }
    p.memory.map(other, p.handle, 64_KiB);
    p.memory.set_access(other, 64_KiB);
    MISTAKE(reads(s, p.second()));
    sim_device{}.synchronize();
    p.memory.unmap(other, 64_KiB);
}

PAIR(other_memory_at_the_same_address, uninitialised_read,
     "cuMemMap: contents belong to the physical memory", .page = 64_KiB,
     .checks = {.uninitialised = true}) {
    pages            p;
    sim_stream const s;
    auto const       more = p.memory.create(64_KiB);
    writes(s, p.first());
    s.synchronize();
    p.memory.unmap(p.begin, 64_KiB);
    p.memory.map(p.begin, right ? p.handle : more, 64_KiB);
    p.memory.set_access(p.begin, 64_KiB);
    MISTAKE(reads(s, p.first()));
    p.memory.destroy(more, 64_KiB);
}

} // namespace catalogue::of_virtual_memory
