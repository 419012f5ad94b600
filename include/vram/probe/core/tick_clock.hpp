// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tick_clock` reads the time stamp counter of the processor, and converts ticks to the time.

#include <vram/base/core/durations.hpp> // steady_clock, system_clock

#include <cstdint>

namespace vram {
namespace detail {

/// A fast clock. `now()` reads a counter of the processor on x86-64 and AArch64, in a third of the
/// time of `steady_clock::now()`. An object converts the ticks of the counter to the time since
/// 1970.
class tick_clock {
public:
    using ticks = std::uint64_t;

    /// Returns the ticks now.
    [[nodiscard]] static ticks now() noexcept {
#if defined __x86_64__
        return __builtin_ia32_rdtsc();
#elif defined __aarch64__
        ticks count = 0;
        asm volatile("mrs %0, cntvct_el0" : "=r"(count));
        return count;
#else
        return static_cast<ticks>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
    }

    /// Returns the time of `steady_clock`, which never goes back, in whole seconds.
    [[nodiscard]] static std::int64_t seconds() noexcept {
        auto const now = std::chrono::steady_clock::now().time_since_epoch();
        return std::chrono::duration_cast<std::chrono::seconds>(now).count();
    }

    /// Converts ticks to nanoseconds since 1970.
    class conversion_of_ticks {
    public:
        [[nodiscard]] std::int64_t nanoseconds(ticks at) const noexcept {
            auto const since = static_cast<std::int64_t>(at - from_);
            return origin_ + static_cast<std::int64_t>(static_cast<double>(since) * scale_);
        }

    private:
        friend class tick_clock;
        ticks        from_   = 0;
        std::int64_t origin_ = 0;
        double       scale_  = 1; ///< nanoseconds per tick of the counter
    };
    [[nodiscard]] conversion_of_ticks conversion() const noexcept {
        reading const       end = read();
        conversion_of_ticks made;
        made.from_   = start_.counter;
        made.origin_ = start_.since_1970;
        if (end.counter != start_.counter) {
            made.scale_ = static_cast<double>(end.steady - start_.steady) /
                          static_cast<double>(end.counter - start_.counter);
        }
        return made;
    }

private:
    struct reading {
        ticks        counter;
        std::int64_t steady;
        std::int64_t since_1970;
    };
    [[nodiscard]] static reading read() noexcept {
        using std::chrono::duration_cast;
        using std::chrono::nanoseconds;
        auto const wall    = std::chrono::system_clock::now().time_since_epoch();
        auto const steady  = std::chrono::steady_clock::now().time_since_epoch();
        auto const counter = now();
        return {counter, duration_cast<nanoseconds>(steady).count(),
                duration_cast<nanoseconds>(wall).count()};
    }

    reading start_ = read();
};

} // namespace detail
} // namespace vram
