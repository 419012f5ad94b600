// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `monotonic_mark` is a position in the sequence of allocations of a `monotonic`.

#include <vram/concepts/growth.hpp>
#include <vram/concepts/resource.hpp> // synchronous_resource

#include <atomic> // atomic
#include <cstdint>

namespace vram {

template <class Upstream, growth Growth>
class monotonic;

/// A position in the sequence of allocations of a `monotonic`. `mark` returns a mark, and `unwind`
/// takes it. Passing a mark of another resource to `unwind` is a broken contract.
class monotonic_mark {
public:
    friend bool operator==(monotonic_mark, monotonic_mark) = default;

private:
    template <class Upstream, growth Growth>
    friend class monotonic;

    /// Returns a mark that differs from all others in the process. Any thread may call it.
    [[nodiscard]] static monotonic_mark next() noexcept { return monotonic_mark{++last_}; }

    explicit monotonic_mark(std::uint64_t serial) noexcept : serial_{serial} {}

    static inline std::atomic<std::uint64_t> last_ = 0;

    std::uint64_t serial_;
};

} // namespace vram
