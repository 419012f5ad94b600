// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `calls` is the common part of all functions of the double: a call is counted, it may be made to
/// fail, and its error is latched.

#include "../bombing.hpp" // bomb
#include "cudart.hpp"     // cudaError_t

#include <cstddef>     // size_t
#include <cstdint>     // uint64_t
#include <functional>  // function
#include <map>         // map
#include <mutex>       // mutex, scoped_lock
#include <string_view> // string_view
#include <utility>     // exchange

namespace doubles::cudart {

/// The counters of calls, and the plan of failures. Thread-safe.
class calls_book {
public:
    static calls_book& here() {
        // Never destroyed, because it is used while the process ends.
        static calls_book& only = *new calls_book;
        return only;
    }

    /// Counts a call; returns the planned error, or success.
    cudaError_t enter(char const* function, int device) {
        std::scoped_lock const held{mutex_};
        ++total_;
        auto& mine = book_[function];
        ++mine.count;
        mine.device = device;
        if (unloaded_) { return cudaErrorCudartUnloading; }
        if (broken_ != cudaSuccess) { return broken_; }
        if (planned_ == 0 || (!function_.empty() && function_ != function)) { return cudaSuccess; }
        if (--planned_ != 0) { return cudaSuccess; }
        if (--times_ != 0) { planned_ = 1; }
        struck_ = true;
        return status_;
    }

    /// Returns true if the next call of that function must fail.
    bool dooms(std::string_view function) {
        std::scoped_lock const held{mutex_};
        bool const             next = planned_ == 1 && (function_.empty() || function_ == function);
        return next || unloaded_ || broken_ != cudaSuccess;
    }

    void plan(char const* function, cudaError_t status, std::uint64_t nth,
              std::uint64_t times = 1) {
        std::scoped_lock const held{mutex_};
        function_ = function;
        status_   = status;
        planned_  = nth;
        times_    = times;
        struck_   = false;
    }
    bool forgive() {
        std::scoped_lock const held{mutex_};
        planned_ = 0;
        return struck_;
    }
    void break_context(cudaError_t status) {
        std::scoped_lock const held{mutex_};
        broken_ = status;
    }
    void unload() {
        std::scoped_lock const held{mutex_};
        unloaded_ = true;
    }
    void reset() {
        std::scoped_lock const held{mutex_};
        book_.clear();
        total_ = planned_ = 0;
        struck_ = unloaded_ = false;
        broken_             = cudaSuccess;
    }

    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }

    std::uint64_t count(char const* function) {
        std::scoped_lock const held{mutex_};
        auto const             found = book_.find(function);
        return found == book_.end() ? 0 : found->second.count;
    }
    std::uint64_t total() {
        std::scoped_lock const held{mutex_};
        return total_;
    }
    int device(char const* function) {
        std::scoped_lock const held{mutex_};
        auto const             found = book_.find(function);
        return found == book_.end() ? -1 : found->second.device;
    }
    cudaError_t broken() {
        std::scoped_lock const held{mutex_};
        return unloaded_ ? cudaErrorCudartUnloading : broken_;
    }

private:
    struct function_book {
        std::uint64_t count  = 0;
        int           device = -1;
    };

    std::mutex                                mutex_;
    std::map<std::string_view, function_book> book_;
    /// Function that is planned to fail; empty: any.
    std::string_view function_;
    std::uint64_t    total_ = 0;
    /// Calls until the failure; 0: no plan.
    std::uint64_t planned_  = 0;
    std::uint64_t times_    = 1; ///< number of calls that fail
    cudaError_t   status_   = cudaSuccess;
    cudaError_t   broken_   = cudaSuccess;
    bool          struck_   = false;
    bool          unloaded_ = false;
};

/// A function that runs before one of a thread's calls, in place of another thread.
struct interruption {
    std::uint64_t         calls = 0; ///< calls until then; 0: none is planned
    std::function<void()> what{};

    void count() {
        if (calls == 0 || --calls != 0) { return; }
        std::exchange(what, nullptr)();
    }
};
inline interruption& interrupts_this_thread() noexcept {
    static thread_local interruption mine;
    return mine;
}

/// CUDA's state of a host thread.
struct thread_state {
    int                   device  = 0;
    cudaError_t           latched = cudaSuccess;
    cudaStreamCaptureMode mode    = cudaStreamCaptureModeGlobal;
    std::uint64_t         epoch   = 0; ///< number of the machine of `heard`
    std::size_t           heard   = 0; ///< number of acquired marks, from the first
};
inline thread_state& this_thread() noexcept {
    static thread_local thread_state mine;
    return mine;
}

/// Latches an error and returns it. "Not ready" is a result and is not latched.
inline cudaError_t latch(cudaError_t status) noexcept {
    if (status != cudaSuccess && status != cudaErrorNotReady) { this_thread().latched = status; }
    return status;
}

/// Pauses `bombing` for the double's own allocations, which do not belong to the test.
class bomb_shelter {
public:
    bomb_shelter() noexcept : ticking_{std::exchange(bomb::countdown, 0)}, seen_{bomb::seen} {}
    bomb_shelter(bomb_shelter&&) = delete;
    ~bomb_shelter() {
        bomb::countdown = ticking_;
        bomb::seen      = seen_;
    }

private:
    std::uint64_t ticking_;
    std::uint64_t seen_;
};

/// Returns true if a function frees or destroys something. A planned failure does not stop it from
/// doing that: according to CUDA's documentation it may return the error of earlier work.
inline bool ends_something(std::string_view function) noexcept {
    return function.starts_with("cudaFree") || function.ends_with("Destroy") ||
           function == "cudaHostUnregister" || function == "cuMemRelease" ||
           function == "cuMemAddressFree";
}

/// One call: it is counted and fails if planned, otherwise runs `body()` and latches its status.
template <class Body>
cudaError_t call(char const* function, Body body) noexcept {
    bomb_shelter const inside;
    interrupts_this_thread().count();
    auto&       book   = calls_book::here();
    cudaError_t status = book.enter(function, this_thread().device);
    if (status == cudaSuccess) {
        status = body();
    } else if (book.broken() == cudaSuccess && ends_something(function)) {
        static_cast<void>(body());
    }
    return latch(status);
}

} // namespace doubles::cudart
