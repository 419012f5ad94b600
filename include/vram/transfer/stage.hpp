// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stage` shows what a thread is at in a profiler, where the platform has one to tell.

#include <vram/base/requirements.hpp> // C++20

#include <concepts> // convertible_to
#include <cstdint>  // uint64_t

namespace vram {

/// Whether a platform tells a profiler: `P::begin_range(name)` gives a number to end the range
/// with, on any thread; `P::name_thread(name)` names this one.
template <class P>
concept has_ranges = requires(char const* name, std::uint64_t range) {
    { P::begin_range(name) } -> std::convertible_to<std::uint64_t>;
    P::end_range(range);
    P::name_thread(name);
};

/// A range for the length of a scope; nothing where there is nobody to tell.
///
///     stage<Platform> const filling{"vram fill"};
template <class Platform>
class stage {
public:
    explicit stage(char const* name) noexcept : range_{begin(name)} {}
    stage(stage&&) = delete;
    ~stage() { end(range_); }

    /// The same for what begins here and ends elsewhere.
    static std::uint64_t begin([[maybe_unused]] char const* name) noexcept {
        if constexpr (has_ranges<Platform>) {
            return Platform::begin_range(name);
        } else {
            return 0;
        }
    }
    static void end([[maybe_unused]] std::uint64_t range) noexcept {
        if constexpr (has_ranges<Platform>) { Platform::end_range(range); }
    }
    static void name_thread([[maybe_unused]] char const* name) noexcept {
        if constexpr (has_ranges<Platform>) { Platform::name_thread(name); }
    }

private:
    [[maybe_unused]] std::uint64_t range_;
};

} // namespace vram
