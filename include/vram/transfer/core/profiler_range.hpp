// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `profiler_range` marks a range of a thread's work in a profiler, such as NVTX, if the platform
/// has one.

#include <vram/base/requirements.hpp>

#include <concepts> // convertible_to
#include <cstdint>

namespace vram {
namespace detail {

/// A platform with a profiler. `begin_range(name)` begins a range and returns an identifier, with
/// which any thread can end the range by `end_range`. `name_thread(name)` names the calling thread.
template <class P>
concept has_ranges = requires(char const* name, std::uint64_t range) {
    { P::begin_range(name) } -> std::convertible_to<std::uint64_t>;
    P::end_range(range);
    P::name_thread(name);
};

/// A profiler range from the construction to the destruction of this object. Does nothing if the
/// platform has no profiler.
///
///     profiler_range<Platform> const filling{"vram fill"};
template <class Platform>
class profiler_range {
public:
    explicit profiler_range(char const* name) noexcept : range_{begin(name)} {}
    profiler_range(profiler_range&&) = delete;
    ~profiler_range() { end(range_); }

    /// Begins a profiler range and returns its identifier. A call of `end` with this identifier, on
    /// any thread, ends the range.
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
        if constexpr (requires { Platform::name_thread(name); }) { Platform::name_thread(name); }
    }

private:
    [[maybe_unused]] std::uint64_t range_;
};

} // namespace detail
} // namespace vram
