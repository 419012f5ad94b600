// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `batched_copies` is the power to begin many copies with one call.

#include <concepts> // same_as
#include <cstddef>  // size_t
#include <span>     // span

namespace vram {

/// Whether the machine can: `P::copy_batch(stream, to, from, bytes)` begins as many copies as each
/// span has elements, in the stream's order but in none among themselves. It says whether it did;
/// false: not on this stream, and nothing was begun.
template <class P>
concept batched_copies =
    requires(typename P::stream s, std::span<void* const> to, std::span<void const* const> from,
             std::span<std::size_t const> bytes) {
        { P::copy_batch(s, to, from, bytes) } -> std::same_as<bool>;
    };

} // namespace vram
