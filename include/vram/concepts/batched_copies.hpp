// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `batched_copies` is a platform that starts many copies with one call.

#include <vram/base/requirements.hpp>

#include <concepts> // same_as
#include <cstddef>
#include <span> // span

namespace vram {

/// A platform with `copy_batch`, which starts one copy per element of three spans of equal lengths,
/// in stream order but without order among the copies. Returns false, and starts none, if the
/// stream, the memory or the driver does not support that.
template <class P>
concept batched_copies =
    requires(typename P::stream s, std::span<void* const> to, std::span<void const* const> from,
             std::span<std::size_t const> bytes) {
        { P::copy_batch(s, to, from, bytes) } -> std::same_as<bool>;
    };

} // namespace vram
