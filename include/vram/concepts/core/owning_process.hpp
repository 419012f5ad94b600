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

/// A member by which an object detects that it is used in a forked child of the process that
/// constructed it. A child has neither its parent's threads nor its device, and a lock that a
/// thread of the parent held at the fork stays locked. Not detected: `_Fork`, `clone`.
///
/// Failure   The constructor throws `std::bad_alloc` if the system cannot register the fork
///           handler. After one success it never throws.
/// Cost      `is_current()` is one comparison. A fork handler (`pthread_atfork`) counts the forks.
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

    /// Number of forks between the first process and this one. It is written only in a new child,
    /// which has a single thread. Each shared library may have its own counter.
    static inline unsigned forks_ = 0;

    unsigned made_in_ = now();
    /// The fork counter of the shared library that constructed this object. The code that calls
    /// `is_current` may be in another library, which has its own counter.
    unsigned const* forks_here_ = &forks_;
};

/// Returns true if the process is ending and the platform's threads are simulated. Simulated
/// threads run one at a time, and the thread that ends the process does not let another one run. So
/// an object that would join such threads must not be destroyed.
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
