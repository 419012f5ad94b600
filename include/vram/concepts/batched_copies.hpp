// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `batched_copies` is a platform that starts many copies with one call.

#include <vram/base/requirements.hpp>

#include <concepts> // same_as
#include <cstddef>
#include <span> // span

namespace vram {

/// `P::copy_batch(stream, to, from, bytes)` starts one copy per element of the three spans, which
/// have equal lengths. The copies are ordered after the earlier work of the stream and before its
/// later work, and have no order among themselves. `copy_batch` returns true if it started all
/// copies. It returns false, and has started none, if the stream, the memory or the driver does not
/// support such a call.
template <class P>
concept batched_copies =
    requires(typename P::stream s, std::span<void* const> to, std::span<void const* const> from,
             std::span<std::size_t const> bytes) {
        { P::copy_batch(s, to, from, bytes) } -> std::same_as<bool>;
    };

} // namespace vram
