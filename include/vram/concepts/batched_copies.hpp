// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `batched_copies` is a platform that starts many copies with one call.

#include <vram/base/requirements.hpp>

#include <concepts> // same_as
#include <cstddef>
#include <span> // span

namespace vram {

/// A platform with the function `copy_batch`, which starts one copy for each element of three spans
/// of equal lengths. The copies follow the earlier work of the stream, in any order among
/// themselves. The function returns false, and starts no copy, if the stream, the memory or the
/// driver does not support such copies.
template <class P>
concept batched_copies =
    requires(typename P::stream s, std::span<void* const> to, std::span<void const* const> from,
             std::span<std::size_t const> bytes) {
        { P::copy_batch(s, to, from, bytes) } -> std::same_as<bool>;
    };

} // namespace vram
