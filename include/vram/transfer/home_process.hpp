// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `home_process` tells whether this is still the process that something was made in.

#if __has_include(<unistd.h>)
#include <unistd.h> // getpid
#endif

namespace vram {

/// A child of `fork` has neither its parent's threads nor its device.
///
/// Cost      one call of the system where there are processes that fork; else nothing
class home_process {
public:
    [[nodiscard]] bool here() const noexcept { return id() == made_in_; }

private:
    static long id() noexcept {
#if __has_include(<unistd.h>)
        return static_cast<long>(::getpid());
#else
        return 0;
#endif
    }

    long made_in_ = id();
};

} // namespace vram
