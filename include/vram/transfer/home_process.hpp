// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `home_process` detects if the current process is a forked child of the one in which an object
/// was made.

#include <vram/base/requirements.hpp> // C++20

#include <vram/base/gate.hpp>          // the gate of platforms where time is real
#include <vram/concepts/is_ending.hpp> // is_ending

#include <new>         // bad_alloc
#include <type_traits> // is_same_v

#if __has_include(<pthread.h>) && __has_include(<unistd.h>)
#include <pthread.h> // pthread_atfork
#define VRAM_FORKS 1
#endif

namespace vram {

/// Detects that an object is used in a forked child of the process that made it. Such a child has
/// neither its parent's threads nor its device, and locks of the parent's threads stay locked in
/// it. A child made by `_Fork` or `clone` is not detected.
///
/// Failure   The constructor throws `std::bad_alloc` if the system cannot register the fork
///           handler. After one success it never throws.
/// Cost      `here()` is one comparison. A fork handler (`pthread_atfork`) counts the forks.
class home_process {
public:
    [[nodiscard]] bool here() const noexcept { return made_in_ == *forks_here_; }

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

    /// Number of forks between the first process and this one. Only a new child writes it, while it
    /// has a single thread. Each shared library may have its own counter.
    static inline unsigned forks_ = 0;

    unsigned        made_in_    = now();
    unsigned const* forks_here_ = &forks_; ///< counter that `made_in_` was read from
};

/// Returns true if the process is ending and the threads of the platform are simulated. Simulated
/// threads run one at a time, and the thread that ends the process lets no other one run. So an
/// object with such threads is not destroyed.
template <class Platform>
[[nodiscard]] bool threads_stand_still() noexcept {
    return !std::is_same_v<typename Platform::gate, gate> && is_ending<Platform>();
}

/// Deleter that does nothing in a forked child: the object's threads and device do not exist there.
struct delete_at_home {
    template <class Object>
    void operator()(Object* object) const noexcept {
        if (object->in_owning_process()) { delete object; }
    }
};

} // namespace vram

#undef VRAM_FORKS
