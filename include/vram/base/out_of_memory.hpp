// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `out_of_memory` is thrown if an allocation is refused, and carries its numbers.

#include <vram/base/call_site.hpp>
#include <vram/base/tag.hpp> // memory_tag

#include <array> // array
#include <cstddef>
#include <cstdint>
#include <new> // bad_alloc

namespace vram {

/// A tag, or a line of the program, that had live memory when an allocation was refused.
///
///     for (memory_holder const& h : e.numbers().holders) { std::puts(h.owner.path()); }
struct memory_holder {
    memory_tag  owner{};    ///< tag of the memory; the empty tag for memory without a tag
    call_site   at{};       ///< line that allocated the memory; unknown if `holders` lists tags
    std::size_t bytes  = 0; ///< live bytes; 0 in an unused element of `shortage::holders`
    std::size_t blocks = 0; ///< number of live blocks
};

/// The numbers of a refused allocation, in bytes. A number that is not known is zero, except
/// `limit`.
struct shortage {
    /// Value of `limit` if the resource has no limit, or if it did not store its limit.
    static constexpr std::size_t no_limit = static_cast<std::size_t>(-1);

    std::size_t   asked     = 0; ///< requested bytes
    std::size_t   rounded   = 0; ///< requested bytes after the rounding of the resource
    std::size_t   alignment = 0; ///< requested alignment in bytes
    std::uint64_t stream    = 0; ///< id of the request's stream; 0 if it had none
    std::size_t   live      = 0; ///< live bytes of the resource that refused
    /// Bytes that the resource that refused holds from its upstream, live or not.
    std::size_t reserved = 0;
    /// Bytes of the largest free block of the resource that refused; 0 if none or not known.
    std::size_t largest_free = 0;
    /// The limit of the resource that refused (0 allows no memory at all), or `no_limit`.
    std::size_t limit        = no_limit;
    std::size_t device_free  = 0; ///< free bytes of the device; 0 if not known
    std::size_t device_total = 0; ///< total bytes of the device; 0 if not known
    /// The tags with the most live bytes, at most three, the largest first. If fewer than two tags
    /// have live bytes, the array contains lines of the program instead of tags. Only the layer
    /// `tracking` fills the array.
    std::array<memory_holder, 3> holders{};

    /// Returns true if `limit` contains the limit of the resource that refused the request. Some
    /// resources do not store their limit. For them, returns false.
    [[nodiscard]] constexpr bool has_limit() const noexcept { return limit != no_limit; }
};

/// The exception for a refused allocation. `what()` returns a fixed text; `vram::explain(e)` turns
/// the numbers into sentences.
class out_of_memory : public std::bad_alloc {
public:
    explicit out_of_memory(shortage const& numbers) noexcept : numbers_{numbers} {}

    /// Returns the numbers of the refused allocation. Layers above may change them.
    [[nodiscard]] shortage const& numbers() const noexcept { return numbers_; }
    [[nodiscard]] shortage&       numbers() noexcept { return numbers_; }

    [[nodiscard]] char const* what() const noexcept override {
        return "vram: out of memory (vram::explain(e) has the numbers)";
    }

private:
    shortage numbers_;
};

} // namespace vram
