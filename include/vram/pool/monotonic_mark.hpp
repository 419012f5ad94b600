// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `monotonic_mark` is a place in the order in which a `monotonic` handed out its memory.

#include <vram/concepts/growth.hpp>   // growth
#include <vram/concepts/resource.hpp> // synchronous_resource

#include <atomic>  // atomic
#include <cstdint> // uint64_t

namespace vram {

template <class Upstream, growth Growth>
class monotonic;

/// What `monotonic::mark` returns and `unwind` takes. A plain value; the marks of all resources
/// differ, so that one is never taken for another's, and later ones have larger numbers.
class monotonic_mark {
public:
    friend bool operator==(monotonic_mark, monotonic_mark) = default;

private:
    template <class Upstream, growth Growth>
    friend class monotonic;

    /// One that was never there before. Any thread may call it.
    [[nodiscard]] static monotonic_mark next() noexcept { return monotonic_mark{++last_}; }

    explicit monotonic_mark(std::uint64_t serial) noexcept : serial_{serial} {}

    static inline std::atomic<std::uint64_t> last_ = 0;

    std::uint64_t serial_;
};

} // namespace vram
