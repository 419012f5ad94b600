// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `home_process` tells whether this is still the process that something was made in.

#include <new> // bad_alloc

#if __has_include(<pthread.h>) && __has_include(<unistd.h>)
#include <pthread.h> // pthread_atfork
#define VRAM_FORKS 1
#endif

namespace vram {

/// A child of `fork` has neither its parent's threads nor its device, and what its parent's threads
/// had locked stays locked in it.
///
/// Failure   the first in a program throws `std::bad_alloc` where the system cannot note it
/// Cost      a comparison; `fork` itself counts (`pthread_atfork`)
class home_process {
public:
    [[nodiscard]] bool here() const noexcept { return made_in_ == forks_; }

private:
    static unsigned now() {
#ifdef VRAM_FORKS
        static bool const counted = ::pthread_atfork(nullptr, nullptr, [] { ++forks_; }) == 0;
        if (!counted) { throw std::bad_alloc{}; }
#endif
        return forks_;
    }

    /// Between the first process and this one. Only a child that was just born writes it, which has
    /// one thread.
    static inline unsigned forks_ = 0;

    unsigned made_in_ = now();
};

} // namespace vram

#undef VRAM_FORKS
