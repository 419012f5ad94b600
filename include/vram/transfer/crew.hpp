// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `crew` is a number of threads that do one job together, again and again.

#include <vram/base/gate.hpp>   // the gate of platforms where time is real
#include <vram/base/worker.hpp> // their thread

#include <atomic>      // atomic
#include <cstddef>     // size_t
#include <cstdint>     // uint64_t
#include <thread>      // this_thread::yield
#include <type_traits> // is_same_v, remove_reference_t
#include <vector>      // vector

namespace vram {

/// The calling thread and `size - 1` helpers, which sleep between jobs. The caller begins at once,
/// before the others are awake.
///
///     crew<cuda_platform> all{device, 8};
///     all.run([&](unsigned thread) noexcept { ... });   // thread: 0 (the caller) to 7
///
/// Failure   the constructor throws what the platform's threads throw, and none is left; a job may
///           not throw
/// Threads   one job at a time. On a simulated machine the maker takes part in its time until the
///           crew ends
/// Cost      a job wakes all, about 50 us until the last one runs; nothing is allocated
template <class Platform>
class crew {
public:
    /// \param size  threads, the caller's among them; at least 1
    crew(typename Platform::device where, unsigned size) {
        helpers_.reserve(size);
        ending at_failure{this};
        for (unsigned i = 1; i < size; ++i) {
            helpers_.emplace_back(where, [this, i] { help(i); });
        }
        at_failure.of = nullptr;
    }
    crew(crew const&)            = delete;
    crew& operator=(crew const&) = delete;
    ~crew() { end(); }

    [[nodiscard]] unsigned size() const noexcept {
        return static_cast<unsigned>(helpers_.size()) + 1;
    }

    /// Calls `job(i)` on every thread, and returns when all are done with it.
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
        gate_.wait(held, [&] { return busy_ == 0; });
    }

private:
    struct ending { ///< ends those that were started, where a later one could not be
        ~ending() {
            if (of != nullptr) { of->end(); }
        }
        crew* of;
    };

    template <class Job>
    static auto as(void const* of) noexcept {
        return static_cast<std::remove_reference_t<Job>*>(const_cast<void*>(of));
    }

    /// The others are nearly done, as a rule: looking for a while costs less than to sleep and be
    /// woken. Where time is virtual, the gate alone knows it.
    void watch() const noexcept {
        if constexpr (std::is_same_v<typename Platform::gate, vram::gate>) {
            constexpr int looks = 200; // about 50 us
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
            if (--busy_ == 0) { gate_.notify(); } // while held: afterwards the crew may be gone
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

    typename Platform::gate gate_;
    void const*             job_                  = nullptr;
    void (*call_)(void const*, unsigned) noexcept = nullptr;
    std::uint64_t            jobs_                = 0; ///< so far
    std::atomic<std::size_t> busy_{0}; ///< helpers that are at the job; changed with the gate held
    bool                     ending_ = false;
    std::vector<typename Platform::thread> helpers_;
};

} // namespace vram
