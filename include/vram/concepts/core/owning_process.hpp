// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `owning_process` detects that an object is used in a forked child of the process that made it.

#include <vram/base/requirements.hpp>

#include <vram/base/core/gate.hpp> // the gate of platforms where time is real
#include <vram/concepts/core/is_ending.hpp>

#include <new>         // bad_alloc
#include <type_traits> // is_same_v

#if __has_include(<pthread.h>) && __has_include(<unistd.h>)
#include <pthread.h> // pthread_atfork
#define VRAM_FORKS 1
#endif

namespace vram {
namespace detail {

/// A member that detects the use of its object in a forked child of the process that constructed
/// it. A child has neither its parent's threads nor its device. Not detected: `_Fork`, `clone`.
///
/// Failure   The constructor throws `std::bad_alloc` if no fork handler can be registered.
/// Cost      `is_current()` is one comparison.
class owning_process {
public:
    [[nodiscard]] bool is_current() const noexcept { return made_in_ == *forks_here_; }

private:
    static unsigned now() {
#ifdef VRAM_FORKS
        [[maybe_unused]] static bool const counted = [] {
            int const problem = ::pthread_atfork(nullptr, nullptr, [] { ++forks_; });
            if (problem != 0) { throw std::bad_alloc{}; }
            return true;
        }();
#endif
        return forks_;
    }

    /// Number of forks between the first process of the program and this process. Only a new child
    /// process writes the number, while the child has a single thread.
    static inline unsigned forks_ = 0;

    unsigned made_in_ = now();
    /// Address of the variable `forks_` that the constructor read. A shared library may have its
    /// own copy of `forks_`, so `is_current` must read the same copy again.
    unsigned const* forks_here_ = &forks_;
};

/// Returns true if the process is ending (`is_ending()`) and the threads of the platform are
/// simulated. Simulated threads no longer run then, so that a join would never return.
template <class Platform>
[[nodiscard]] bool threads_stand_still() noexcept {
    return !std::is_same_v<typename Platform::gate, gate> && is_ending<Platform>();
}

/// A deleter for `std::unique_ptr` that deletes nothing in a forked child, in which the object's
/// threads and device do not exist.
struct delete_in_owning_process {
    template <class Object>
    void operator()(Object* object) const noexcept {
        if (object->in_owning_process()) { delete object; }
    }
};

} // namespace detail
} // namespace vram

#undef VRAM_FORKS
