// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `unlocked` calls a function, such as a wait of the host, without a lock that the thread holds.

#include <vram/base/requirements.hpp>

namespace vram {
namespace detail {

/// Unlocks the lock that `guard` holds, calls `wait()`, and takes the lock again, even if `wait`
/// throws.
template <class Guard, class Wait>
void unlocked(Guard& guard, Wait const& wait) {
    struct open {
        Guard& held;
        explicit open(Guard& g) : held{g} { held.unlock(); }
        open(open&&) = delete;
        ~open() { held.lock(); }
    };
    open const now{guard};
    wait();
}

} // namespace detail
} // namespace vram
