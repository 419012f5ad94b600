// SPDX-License-Identifier: Apache-2.0
#include "cudart.hpp"

#include "machine.hpp"

#include <vram/base/error.hpp>     // forget_device_failure
#include <vram/sim/sim_report.hpp> // sim_report

#include <pthread.h> // pthread_atfork

#include <cstdio>  // fprintf
#include <utility> // move

namespace doubles::cudart {

void reset(machine_options const& options) {
    bomb_shelter const inside;
    calls_book::here().reset();
    vram::forget_device_failure();
    this_thread() = {};
    machine::here().reset(options);
}

census out() {
    bomb_shelter const     inside;
    machine&               m = machine::here();
    std::scoped_lock const held{m.mutex};
    census                 now;
    for (auto const& [p, each] : m.blocks) {
        switch (each.what) {
        case block::kind::device: ++now.device_blocks; break;
        case block::kind::pinned: ++now.pinned_blocks; break;
        case block::kind::managed: ++now.managed_blocks; break;
        case block::kind::pool: ++now.pool_blocks; break;
        }
    }
    for (auto const& [handle, pool] : m.pools) { now.pools += pool->destroyed ? 0 : 1; }
    now.registered = m.registered.size();
    now.streams    = m.streams.size();
    now.events     = m.events.size();
    now.graphs     = m.graphs.size();
    count_virtual(m, now);
    return now;
}

std::size_t dangling() {
    machine&               m = machine::here();
    std::scoped_lock const held{m.mutex};
    return m.dangling;
}

bool has_context(int device) {
    machine&               m = machine::here();
    std::scoped_lock const held{m.mutex};
    return m.contexts[static_cast<std::size_t>(device)].active;
}

std::size_t mistakes() {
    bomb_shelter const     inside;
    machine&               m = machine::here();
    std::scoped_lock const held{m.mutex};
    return m.node->reports().size();
}

void keep_across_fork() {
    auto const unlock = [] {
        calls_book::here().unlock();
        machine& m = machine::here();
        m.node->machine().mutex.unlock();
        m.mutex.unlock();
    };
    ::pthread_atfork(
        [] {
            machine& m = machine::here();
            m.mutex.lock();
            m.node->machine().mutex.lock();
            calls_book::here().lock();
        },
        unlock, unlock);
}

std::uint64_t calls(char const* function) { return calls_book::here().count(function); }
std::uint64_t calls() { return calls_book::here().total(); }
int           device_of_last(char const* function) { return calls_book::here().device(function); }

void fail(char const* function, cudaError_t status, std::uint64_t nth, std::uint64_t times) {
    calls_book::here().plan(function, status, nth, times);
}
void fail_nth(std::uint64_t nth, cudaError_t status) { calls_book::here().plan("", status, nth); }
bool forgive() { return calls_book::here().forgive(); }

void before_call(std::uint64_t nth, std::function<void()> what) {
    interrupts_this_thread() = {nth, std::move(what)};
}
bool cancel_before_call() {
    bool const never         = interrupts_this_thread().calls != 0;
    interrupts_this_thread() = {};
    return !never;
}

void break_context(cudaError_t status) { calls_book::here().break_context(status); }
void unload() { calls_book::here().unload(); }

} // namespace doubles::cudart
