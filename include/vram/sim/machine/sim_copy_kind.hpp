// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_copy_kind` distinguishes copies by the memory that they can access.

#include <vram/base/requirements.hpp>

namespace vram {
namespace detail {

/// Kinds of copies. A `fill` can access the memory that a kernel on the device of its stream can
/// access. A `copy` can also access memory of cudaMalloc on other devices, and a `peer_copy`
/// (cudaMemcpyPeerAsync) all memory of devices.
enum class sim_copy_kind : unsigned char { none, fill, copy, peer_copy };

} // namespace detail
} // namespace vram
