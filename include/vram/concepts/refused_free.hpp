// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `refused_free` is the error of a `deallocate` that frees nothing.

#include <vram/base/error.hpp>              // error, error_kind
#include <vram/concepts/name_of_stream.hpp> // name_of_stream

#include <cstddef>         // size_t
#include <source_location> // source_location

namespace vram {

/// Whether a platform collects frees that a resource refused: `P::refused(error)`. The simulated
/// one does, and adds them to the reports of its node.
template <class P>
concept collects_refusals = requires(error const& e) {
    { P::refused(e) } noexcept;
};

/// What the caller of a free passed, as a foreign pointer. A resource that knows the block around
/// the address says so with `found`, and reports `what`.
///
/// Failure   never
/// Threads   any
/// Cost      that of `name_of_stream`; for cold paths only
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

    /// The stream of the free; null: it names none.
    template <class Platform>
    refused_free& on(typename Platform::stream const* s) noexcept {
        if (s != nullptr) { what.stream = name_of_stream<Platform>(*s); }
        return *this;
    }

    /// Passes it to the error sink, and to the platform if that collects mistakes.
    template <class Platform>
    void report() const noexcept {
        report_error(what);
        if constexpr (collects_refusals<Platform>) { Platform::refused(what); }
    }

    /// The address lies in memory of the resource that is free.
    refused_free& found_free() noexcept {
        what.kind = error_kind::double_free;
        return *this;
    }
    /// The address lies in a live block, which was allocated with these. Where the block is the one
    /// that was to be freed, another caller has allocated it since.
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

} // namespace vram
