// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `over_size` is an out-of-memory that no amount of memory would help.

#include <vram/base/out_of_memory.hpp> // out_of_memory, shortage

namespace vram {

/// A resource whose blocks have one size was asked for a larger one, or for an alignment that its
/// blocks do not have.
class over_size : public out_of_memory {
public:
    /// \param asked      the bytes that were asked for
    /// \param alignment  the alignment that was asked for
    /// \param block      the bytes of every block
    over_size(std::size_t asked, std::size_t alignment, std::size_t block) noexcept
        : out_of_memory{{.asked = asked, .rounded = asked, .alignment = alignment}},
          block_{block} {}

    [[nodiscard]] std::size_t block_bytes() const noexcept { return block_; }

    [[nodiscard]] char const* what() const noexcept override {
        return "vram: more than a block of this resource, in size or alignment";
    }

private:
    std::size_t block_;
};

} // namespace vram
