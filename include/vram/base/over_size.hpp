// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `over_size` is thrown if a request exceeds the fixed block size of a resource.

#include <vram/base/out_of_memory.hpp> // out_of_memory, shortage

namespace vram {

/// Thrown by a resource with fixed-size blocks if the requested size or alignment exceeds that of
/// its blocks, however much memory is free.
class over_size : public out_of_memory {
public:
    /// \param asked      the requested bytes
    /// \param alignment  the requested alignment
    /// \param block      the size in bytes of each block that the resource allocates
    over_size(std::size_t asked, std::size_t alignment, std::size_t block) noexcept
        : out_of_memory{{.asked = asked, .rounded = asked, .alignment = alignment}},
          block_{block} {}

    /// Returns the size in bytes of each block that the resource allocates.
    [[nodiscard]] std::size_t block_bytes() const noexcept { return block_; }

    [[nodiscard]] char const* what() const noexcept override {
        return "vram: the request exceeds the block size or alignment of this resource";
    }

private:
    std::size_t block_;
};

} // namespace vram
