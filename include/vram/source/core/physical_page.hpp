// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `physical_page` owns a piece of physical memory, which has no address until it is mapped.

#include <vram/concepts/virtual_memory.hpp>

#include <cstddef>
#include <utility>

namespace vram {
namespace detail {

/// Owns a piece of physical memory that can be mapped to addresses.
///
///     physical_page page{memory, 2_MiB};
///     memory.map(at, page.get(), page.bytes());
///
/// Failure   The constructor throws `out_of_memory` or the error of the platform; the destructor
///           reports errors.
/// Threads   One thread at a time.
/// Streams   Mapped memory stays accessible after the destruction, until it is unmapped.
template <virtual_memory Memory>
class physical_page {
public:
    using handle = typename Memory::handle;

    physical_page(Memory memory, std::size_t bytes)
        : memory_{std::move(memory)}, handle_{memory_.create(bytes)}, bytes_{bytes} {}
    /// Takes ownership of `h`, the handle of an existing piece of `bytes` bytes of physical memory.
    physical_page(Memory memory, handle h, std::size_t bytes)
        : memory_{std::move(memory)}, handle_{h}, bytes_{bytes} {}
    physical_page(physical_page&& other) noexcept
        : memory_{other.memory_}, handle_{other.handle_}, bytes_{std::exchange(other.bytes_, 0)} {}
    physical_page& operator=(physical_page&& other) noexcept {
        std::swap(memory_, other.memory_);
        std::swap(handle_, other.handle_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~physical_page() {
        if (bytes_ != 0) { memory_.destroy(handle_, bytes_); }
    }

    [[nodiscard]] handle      get() const noexcept { return handle_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

    /// Returns the handle and gives up its ownership: the caller must destroy it.
    handle release() noexcept {
        bytes_ = 0;
        return handle_;
    }

private:
    Memory      memory_;
    handle      handle_;
    std::size_t bytes_; ///< bytes of the owned memory; 0 if the object owns nothing
};

} // namespace detail
} // namespace vram
