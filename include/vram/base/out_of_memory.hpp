// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `out_of_memory` is thrown if an allocation is refused, and carries its numbers.

#include <vram/base/requirements.hpp> // C++20

#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <new>     // bad_alloc

namespace vram {

/// The numbers of a request that could not be met. Zero means "not known where it was thrown"; a
/// layer that knows more fills in what is zero and throws on. All sizes in bytes.
struct shortage {
    static constexpr std::size_t no_limit = static_cast<std::size_t>(-1);

    std::size_t   asked        = 0;        ///< what the caller asked for
    std::size_t   rounded      = 0;        ///< what was looked for after rounding
    std::size_t   alignment    = 0;        ///< the alignment asked for
    std::uint64_t stream       = 0;        ///< the platform's id of the stream
    std::size_t   live         = 0;        ///< bytes that the refusing resource has out
    std::size_t   reserved     = 0;        ///< bytes that it holds from its upstream
    std::size_t   largest_free = 0;        ///< the largest free block that it holds
    std::size_t   limit        = no_limit; ///< the limit of the resource; it may be zero
    std::size_t   device_free  = 0;        ///< free on the device
    std::size_t   device_total = 0;        ///< in all on the device

    [[nodiscard]] constexpr bool has_limit() const noexcept { return limit != no_limit; }
};

/// A refused allocation. `what()` is a literal; `explain` turns the numbers into sentences.
class out_of_memory : public std::bad_alloc {
public:
    explicit out_of_memory(shortage const& numbers) noexcept : numbers_{numbers} {}

    [[nodiscard]] shortage const& numbers() const noexcept { return numbers_; }
    [[nodiscard]] shortage&       numbers() noexcept { return numbers_; }

    [[nodiscard]] char const* what() const noexcept override {
        return "vram: out of memory (vram::explain(e) has the numbers)";
    }

private:
    shortage numbers_;
};

} // namespace vram
