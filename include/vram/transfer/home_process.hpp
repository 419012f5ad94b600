// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `home_process` tells whether this is still the process that something was made in.

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

/// A child of `fork` has neither its parent's threads nor its device, and what its parent's threads
/// had locked stays locked in it. (Who makes a child by `_Fork` or `clone` is not seen.)
///
/// Failure   until it succeeds once, `std::bad_alloc` where the system cannot note it
/// Cost      a comparison; `fork` itself counts (`pthread_atfork`)
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

    /// Between the first process and this one. Only a child that was just born writes it, which has
    /// one thread. Each library may have its own.
    static inline unsigned forks_ = 0;

    unsigned        made_in_    = now();
    unsigned const* forks_here_ = &forks_; ///< the one that was asked
};

/// Returns true if the process ends and the threads of the platform are simulated. They run one at
/// a time, and the thread that ends the process gives no turn to another: an object with such
/// threads is not destroyed.
template <class Platform>
[[nodiscard]] bool threads_stand_still() noexcept {
    return !std::is_same_v<typename Platform::gate, gate> && is_ending<Platform>();
}

/// A deleter: in a forked child there is nothing that could be ended, and the object stays.
struct delete_at_home {
    template <class Object>
    void operator()(Object* object) const noexcept {
        if (object->at_home()) { delete object; }
    }
};

} // namespace vram

#undef VRAM_FORKS
