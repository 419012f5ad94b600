// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `address_range` owns a reserved range of addresses.

#include <vram/concepts/virtual_memory.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// Owns a reserved range of addresses to which physical memory can be mapped.
///
///     address_range range{memory, 1_GiB, memory.granularity()};
///
/// Failure   The constructor throws the error of the platform. The destructor reports errors, such
///           as memory that is still mapped.
/// Threads   One thread at a time.
template <virtual_memory Memory>
class address_range {
public:
    /// Reserves `bytes` bytes of addresses, a multiple of `memory.granularity()`, starting at a
    /// multiple of `alignment`, a power of two.
    address_range(Memory memory, std::size_t bytes, std::size_t alignment)
        : memory_{std::move(memory)}, base_{memory_.reserve(bytes, alignment)}, bytes_{bytes} {}
    address_range(address_range&& other) noexcept
        : memory_{other.memory_},
          base_{std::exchange(other.base_, nullptr)},
          bytes_{std::exchange(other.bytes_, 0)} {}
    address_range& operator=(address_range&& other) noexcept {
        std::swap(memory_, other.memory_);
        std::swap(base_, other.base_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~address_range() {
        if (bytes_ != 0) { memory_.release(base_, bytes_); }
    }

    [[nodiscard]] Memory const& memory() const noexcept { return memory_; }
    [[nodiscard]] void*         base() const noexcept { return base_; }
    [[nodiscard]] std::size_t   bytes() const noexcept { return bytes_; }

    [[nodiscard]] bool holds(void const* p) const noexcept {
        auto const address = reinterpret_cast<std::uintptr_t>(p);
        return address - reinterpret_cast<std::uintptr_t>(base_) < bytes_;
    }

private:
    Memory      memory_;
    void*       base_;
    std::size_t bytes_;
};

} // namespace detail
} // namespace vram
