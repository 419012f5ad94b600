// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `refused_free` is the error of a `deallocate` that frees nothing.

#include <vram/base/error.hpp> // error, error_kind
#include <vram/concepts/core/name_of_stream.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location> // source_location

namespace vram {
namespace detail {

/// A platform that collects refused frees through `P::refused(error)`, as the simulated one does.
template <class P>
concept collects_refusals = requires(error const& e) {
    { P::refused(e) } noexcept;
};

/// The address of the last free that a resource has refused on this thread, as a number.
inline constinit thread_local std::uintptr_t last_refused = 0;

/// Called by a resource that has refused to free the block at `p`, or has failed to free it.
inline void note_refused(void const* p) noexcept {
    last_refused = reinterpret_cast<std::uintptr_t>(p);
}

/// Calls `free()`, which frees the block at `p` upstream. Returns false if the upstream has refused
/// the free: the block is then as it was before.
template <class Free>
[[nodiscard, gnu::always_inline]] inline bool was_freed(void const* p, Free const& free) noexcept {
    auto const address = reinterpret_cast<std::uintptr_t>(p);
    last_refused       = 0;
    free();
    return last_refused != address || address == 0;
}

/// The error for a refused call of `deallocate`, with the arguments of the call. The kind of the
/// error is `foreign_pointer` (an address that the resource did not allocate), unless `found_free`
/// or `found_live` sets another kind.
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

    /// Stores the name of the stream that was passed to `deallocate`. `s`: null if the program
    /// called `deallocate_sync`, which takes no stream.
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
        detail::note_refused(what.pointer); // after the error sink, which may free blocks
        if constexpr (collects_refusals<Platform>) { Platform::refused(what); }
    }

    /// Sets the kind of the error to double free. Called if the refused address lies in free memory
    /// of the resource.
    refused_free& found_free() noexcept {
        what.kind = error_kind::double_free;
        return *this;
    }
    /// Sets the kind of the error for an address that lies in the live block at `block`: wrong
    /// start, wrong size or wrong alignment. If none of these is wrong, sets the kind to double
    /// free, because the block was probably free at the refusal, and was allocated again since.
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
