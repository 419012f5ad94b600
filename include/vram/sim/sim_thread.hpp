// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_thread` is a host thread in simulated time.

#include <vram/base/core/trial_of_thread.hpp> // trial_of_thread, trial_scope
#include <vram/base/tag.hpp>                  // current_tag, tagged
#include <vram/sim/machine/sim_outside_step.hpp>
#include <vram/sim/sim_device.hpp>

#include <algorithm> // max
#include <exception> // exception
#include <string>    // string
#include <thread>    // thread
#include <utility>

namespace vram {

/// True if threads in simulated time (`sim_thread`) run one at a time, unless `sim_order::freely`
/// is set. False under ThreadSanitizer, where they run concurrently.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool sim_ordered_threads = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool sim_ordered_threads = false;
#else
inline constexpr bool sim_ordered_threads = true;
#endif
#else
inline constexpr bool sim_ordered_threads = true;
#endif

/// A host thread in simulated time. Only one such thread runs at a time, except with
/// `sim_order::freely` or ThreadSanitizer. A thread may wait for another one only by `sim_gate`,
/// `sim_platform::lock` or `join`. Any other blocking wait, such as for a `std::mutex`, can block
/// all threads. The destructor calls `join`.
///
///     sim_thread t{device, [&] {
///         sim_work(30us);
///         { auto held = g.hold(); ready = true; }
///         g.notify();
///     }};
///
/// Failure   If the callable throws, the node (simulated machine) reports `thread_failed`. The
///           `sim_error` of a deadlock is not reported again.
class sim_thread {
public:
    sim_thread() = default;

    /// Starts `body()` on a new thread with the current device `device`. It inherits the caller's
    /// `current_tag` (a name for the memory that it allocates).
    template <class Body>
    sim_thread(sim_device device, Body&& body) : machine_{&device.machine()} {
        if (ordered()) { start_participating(); }
        try {
            thread_ = std::thread{[m = machine_, h = host_, device, from = current_tag(),
                                   trial = ordered() ? detail::trial_of_thread : 0,
                                   run   = std::forward<Body>(body)]() mutable {
                tagged const              scope{from};
                detail::trial_scope const in{trial};
                live(*m, h, device, run);
            }};
        } catch (...) {
            if (host_ != nullptr) { abandon(); }
            throw;
        }
    }

    sim_thread(sim_thread&& other) noexcept { swap(other); }
    sim_thread& operator=(sim_thread&& other) noexcept {
        join();
        swap(other);
        return *this;
    }
    ~sim_thread() { join(); }

    /// Blocks until the thread has ended. A second call does nothing.
    void join() noexcept {
        if (!thread_.joinable()) { return; }
        sim_thread* const self = this;
        join_all(&self, 1);
    }

    /// Blocks until all of `threads` have ended. The scheduler treats this as one wait, so that
    /// `sim_explore` may have fewer orders of threads to try than with separate calls of `join`.
    template <class... Threads>
    static void join_together(Threads&... threads) noexcept {
        sim_thread* all[] = {&threads...};
        join_all(all, sizeof...(threads));
    }

private:
    [[nodiscard]] bool ordered() const noexcept {
        return sim_ordered_threads && machine_->options.threads != sim_order::freely;
    }

    void swap(sim_thread& other) noexcept {
        std::swap(machine_, other.machine_);
        std::swap(host_, other.host_);
        std::swap(thread_, other.thread_);
    }

    void start_participating() {
        detail::sim_machine& m    = *machine_;
        detail::sim_self&    self = detail::self(m.id);
        std::unique_lock     held{m.mutex};
        detail::sim_turns&   turns = m.turns;
        if (self.host == nullptr) {
            detail::sim_host& before = m.caller();
            before.clock             = std::max(before.clock, m.schedule.now());
            self.host                = &turns.enter(before, m.checker.actor(before.vclock));
            self.host->started       = true;
            turns.begin(held, *self.host);
        }
        m.order_caller(*self.host);
        host_        = &turns.enter(*self.host, m.checker.actor(self.host->vclock));
        host_->child = true;
        host_->maker = self.host;
        ++self.host->children;
    }

    /// Removes the thread from the scheduler again, because the operating system could not start
    /// it.
    void abandon() noexcept {
        std::unique_lock held{machine_->mutex};
        machine_->turns.leave(*host_);
        --host_->maker->children;
        leave_where_last(held);
    }

    template <class Body>
    static void live(detail::sim_machine& m, detail::sim_host* host, sim_device device, Body& run) {
        detail::sim_self& self = detail::self(m.id);
        self.device            = device.index();
        self.relaxed = self.child = true;
        self.host                 = host;
        if (host != nullptr) {
            std::unique_lock held{m.mutex};
            m.turns.begin(held, *host);
        }
        char const* failed = nullptr;
        std::string what;
        try {
            run();
        } catch (sim_error const& e) {
            if (e.status() != sim_status::deadlock) {
                what   = e.what();
                failed = what.c_str();
            }
        } catch (std::exception const& e) {
            what   = e.what();
            failed = what.c_str();
        } catch (...) { failed = "an exception"; }
        std::unique_lock held{m.mutex};
        if (failed != nullptr) {
            m.checker.report({.kind = sim_mistake::thread_failed, .missing = failed});
        }
        // A call of `sim_node::finish` by this thread may already have removed the thread from the
        // scheduler.
        if (detail::self(m.id).host != nullptr) {
            host->returned = true;
            m.checker.retire(host->slot, host->vclock[host->slot]);
            m.thread_ended(*host);
            m.turns.leave(*host);
            detail::self(m.id).host = nullptr;
            m.turns.hand_off(held);
        }
    }

    /// Joins `count` threads of one node (simulated machine). An empty `sim_thread` is skipped.
    static void join_all(sim_thread* const* all, std::size_t count) noexcept {
        for (std::size_t i = 0; i < count; ++i) {
            if (all[i]->host_ != nullptr) {
                join_in_time(all, count);
                break;
            }
        }
        for (std::size_t i = 0; i < count; ++i) {
            if (all[i]->thread_.joinable()) { all[i]->thread_.join(); }
            all[i]->host_ = nullptr;
        }
    }

    static void join_in_time(sim_thread* const* all, std::size_t count) {
        detail::sim_machine* machine = nullptr;
        for (std::size_t i = 0; i < count; ++i) {
            if (all[i]->host_ != nullptr) { machine = all[i]->machine_; }
        }
        detail::sim_machine&    m    = *machine;
        detail::sim_self&       self = detail::self(m.id);
        std::unique_lock        held{m.mutex};
        detail::sim_host* const me   = self.host;
        auto const              gone = [&] {
            if (me != nullptr) { me->threads.clear(); }
            bool ended = true;
            for (std::size_t i = 0; i < count; ++i) {
                detail::sim_host* const h = all[i]->host_;
                if (h == nullptr || h->now == detail::sim_host::state::ended) { continue; }
                ended = false;
                if (me != nullptr) { me->threads.push_back(h); }
            }
            return ended;
        };
        // A thread outside simulated time executes the events of the simulation until the joined
        // threads have ended. A thread in simulated time (`me` is not null) blocks.
        if (me == nullptr) {
            while (!gone()) { detail::sim_outside_step(m, held); }
        } else {
            m.turns.block(held, *me, gone);
        }
        detail::sim_host& joiner = me != nullptr ? *me : m.caller();
        bool              early  = false;
        sim_thread*       last   = nullptr;
        for (std::size_t i = 0; i < count; ++i) {
            detail::sim_host* const h = all[i]->host_;
            if (h == nullptr) { continue; }
            early        = early || !h->returned;
            last         = all[i];
            joiner.clock = std::max(joiner.clock, h->clock);
            m.acquire(joiner, h->vclock);
            --h->maker->children;
        }
        last->leave_where_last(held);
        // A thread in `sim_node::finish` ends after the work of other threads, so these run while
        // the caller waits for it in real time.
        if (early && self.host != nullptr) { m.turns.step_aside(held); }
    }

    /// Makes the calling thread an ordinary thread again, outside simulated time. Does nothing for
    /// a `sim_thread`, or if a `sim_thread` of the caller is not joined yet. `held` locks the
    /// machine.
    void leave_where_last(std::unique_lock<std::mutex>& held) noexcept {
        detail::sim_self const& self = detail::self(machine_->id);
        if (self.host == nullptr || self.child || self.host->children > 0) { return; }
        machine_->make_ordinary(held, *self.host);
    }

    detail::sim_machine* machine_ = nullptr;
    /// The entry of the thread in the scheduler. Null if this object has no thread to join. Also
    /// null if threads run concurrently (`sim_order::freely`, ThreadSanitizer).
    detail::sim_host* host_ = nullptr;
    std::thread       thread_;
};

} // namespace vram
