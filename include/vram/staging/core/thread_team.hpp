// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `thread_team` is a team of threads that repeatedly run one function in parallel (fork and join).

#include <vram/base/core/durations.hpp> // microseconds
#include <vram/base/core/gate.hpp>      // the gate of platforms where time is real
#include <vram/base/core/worker.hpp>    // their thread

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>
#include <thread>      // this_thread::yield
#include <type_traits> // is_same_v, remove_reference_t
#include <vector>      // vector

namespace vram {
namespace detail {

/// A team of threads that call one function in parallel: the calling thread and `size - 1` helper
/// threads. The helper threads sleep between the jobs (calls of `run`).
///
///     thread_team<cuda_platform> all{device, 8};
///     all.run([&](unsigned thread) noexcept { ... });   // thread: 0 (the caller) to 7
///
/// Failure   The constructor throws if a thread cannot be created. A job must not throw.
/// Threads   One job at a time.
/// Cost      `run` wakes all helper threads. The last of them starts its work about 50 us later.
template <class Platform>
class thread_team {
public:
    /// \param size number of threads, including the calling thread; at least 1
    thread_team(typename Platform::device where, unsigned size) {
        helpers_.reserve(size);
        ending at_failure{this};
        for (unsigned i = 1; i < size; ++i) {
            helpers_.emplace_back(where, [this, i] { help(i); });
        }
        at_failure.of = nullptr;
    }
    thread_team(thread_team const&)            = delete;
    thread_team& operator=(thread_team const&) = delete;
    ~thread_team() { end(); }

    [[nodiscard]] unsigned size() const noexcept {
        return static_cast<unsigned>(helpers_.size()) + 1;
    }

    /// Calls `job(i)` on each thread of the team, where `i` is the index of the thread, and waits
    /// for all these calls. The calling thread has the index 0.
    template <class Job>
    void run(Job&& job) noexcept {
        if (!helpers_.empty()) {
            {
                auto const held = gate_.hold();
                job_            = &job;
                call_ = [](void const* of, unsigned thread) noexcept { (*as<Job>(of))(thread); };
                ++jobs_;
                busy_ = helpers_.size();
            }
            gate_.notify();
        }
        job(0U);
        if (helpers_.empty()) { return; }
        watch();
        auto held = gate_.hold();
        detail::wait_after_polls(gate_, held, [&] { return busy_ == 0; }, watched);
    }

private:
    using gate = typename Platform::gate;
    static constexpr std::chrono::microseconds watched{50};

    /// If the constructor throws, ends the helper threads that it already started.
    struct ending {
        ~ending() {
            if (of != nullptr) { of->end(); }
        }
        thread_team* of;
    };

    template <class Job>
    static auto as(void const* of) noexcept {
        return static_cast<std::remove_reference_t<Job>*>(const_cast<void*>(of));
    }

    /// Polls for up to about 50 us until the helper threads have finished. For a short job, this
    /// costs less than sleeping and waking. Does nothing on a platform with simulated time.
    void watch() const noexcept {
        if constexpr (std::is_same_v<gate, detail::gate>) {
            constexpr int looks = 200; // largest number of polls; they take about 50 us in all
            for (int i = 0; i < looks && busy_.load(std::memory_order_acquire) != 0; ++i) {
                std::this_thread::yield();
            }
        }
    }

    void help(unsigned thread) noexcept {
        for (std::uint64_t done = 0;; ++done) {
            void const* job                              = nullptr;
            void (*call)(void const*, unsigned) noexcept = nullptr;
            {
                auto held = gate_.hold();
                gate_.wait(held, [&] { return ending_ || jobs_ != done; });
                if (ending_) { return; }
                job  = job_;
                call = call_;
            }
            call(job, thread);
            auto const held = gate_.hold();
            // Notifies the caller of `run` while this thread holds the lock. Once the lock is
            // released, that caller may destroy this object.
            if (--busy_ == 0) { gate_.notify(); }
        }
    }

    void end() noexcept {
        {
            auto const held = gate_.hold();
            ending_         = true;
        }
        gate_.notify();
        for (auto& each : helpers_) { each.join(); }
    }

    gate        gate_;
    void const* job_                              = nullptr;
    void (*call_)(void const*, unsigned) noexcept = nullptr;
    /// Number of jobs (calls of `run`) that the helper threads were given so far. Each helper
    /// thread counts the jobs that it has done. If its count differs from `jobs_`, it begins a job.
    std::uint64_t jobs_ = 0;
    /// Number of helper threads that still run the job. Changed only while the lock is held.
    std::atomic<std::size_t>               busy_{0};
    bool                                   ending_ = false;
    std::vector<typename Platform::thread> helpers_;
};

} // namespace detail
} // namespace vram
