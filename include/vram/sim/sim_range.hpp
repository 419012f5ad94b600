// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_range` is a range of memory in the declaration of an access.

#include <vram/base/requirements.hpp>

#include <cstddef>
#include <cstdint>
#include <span> // span

namespace vram {

/// The kind of an access. Two accesses to one byte must be ordered unless both are reads or both
/// are atomic.
enum class sim_access : unsigned char {
    read,
    write,
    atomic ///< read and write in one step, as `atomicAdd`
};

/// A range of memory: `bytes` bytes at `data`. Converts from any `std::span`.
struct sim_range {
    void const* data  = nullptr;
    std::size_t bytes = 0;

    constexpr sim_range() = default;
    constexpr sim_range(void const* p, std::size_t n) noexcept : data{p}, bytes{n} {}
    template <class Type, std::size_t Extent>
    constexpr sim_range(std::span<Type, Extent> s) noexcept
        : data{s.data()}, bytes{s.size_bytes()} {}

    [[nodiscard]] std::uintptr_t begin() const noexcept {
        return reinterpret_cast<std::uintptr_t>(data);
    }
    [[nodiscard]] std::uintptr_t end() const noexcept { return begin() + bytes; }
};

} // namespace vram
