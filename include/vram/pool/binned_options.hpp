// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `binned_options` are the numbers that a `binned` is made with.

#include <vram/base/align.hpp>        // unsatisfiable
#include <vram/base/bytes.hpp>        // literals
#include <vram/pool/event_policy.hpp> // event_policy

#include <cstddef> // size_t

namespace vram {

struct binned_options {
    std::size_t  largest  = 1_MiB;         ///< larger requests go to the upstream
    std::size_t  max_size = unsatisfiable; ///< bytes held at most, large blocks among them
    event_policy events   = event_policy::lazy;
    bool         graphs   = false; ///< streams may be captured into graphs: see `pool_options`
};

} // namespace vram
