// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `refused_free` is the error of a `deallocate` that frees nothing.

#include <vram/base/error.hpp> // error, error_kind
#include <vram/concepts/core/name_of_stream.hpp>

#include <cstddef>
#include <source_location> // source_location

namespace vram {
namespace detail {

/// A platform that collects refused frees through `P::refused(error)`, as the simulated one does.
template <class P>
concept collects_refusals = requires(error const& e) {
    { P::refused(e) } noexcept;
};

/// The error of a refused call of `deallocate`, with its arguments. Its kind is a foreign pointer
/// until `found_free` or `found_live` sets another; `report` reports the error.
struct refused_free {
    error what;

    refused_free(char const* resource, void const* p, std::size_t bytes, std::size_t alignment,
                 call_site            at    = {},
                 std::source_location where = std::source_location::current()) noexcept
        : what{.kind      = error_kind::foreign_pointer,
               .pointer   = p,
               .bytes     = bytes,
               .where     = where,
               .caller    = at,
               .alignment = alignment,
               .resource  = resource} {}

    /// Sets the stream of the free. Null means that the free has no stream (`deallocate_sync`).
    template <class Platform>
    refused_free& on(typename Platform::stream const* s) noexcept {
        if (s != nullptr) { what.stream = name_of_stream<Platform>(*s); }
        return *this;
    }

    /// Reports the error to the error sink (the function that receives errors that cannot be
    /// thrown), and to `Platform::refused` if the platform has that function.
    template <class Platform>
    void report() const noexcept {
        report_error(what);
        if constexpr (collects_refusals<Platform>) { Platform::refused(what); }
    }

    /// Sets the kind of the error to double free, for an address in free memory of the resource.
    refused_free& found_free() noexcept {
        what.kind = error_kind::double_free;
        return *this;
    }
    /// Sets the kind of the error for an address in the live block `block`: wrong start, size or
    /// alignment. If all are right, a double free, for example of a block that was allocated again
    /// meanwhile.
    refused_free& found_live(void const* block, std::size_t bytes, std::size_t alignment) noexcept {
        what.block           = block;
        what.block_bytes     = bytes;
        what.block_alignment = alignment;
        what.kind            = what.pointer != block         ? error_kind::interior_pointer
                               : what.bytes != bytes         ? error_kind::wrong_size
                               : what.alignment != alignment ? error_kind::wrong_alignment
                                                             : error_kind::double_free;
        return *this;
    }
};

} // namespace detail
} // namespace vram
