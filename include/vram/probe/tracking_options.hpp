// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tracking_options` are the options of the layer `tracking`.

#include <vram/base/requirements.hpp>

namespace vram {

/// The options of the layer `tracking`.
///
///     tracking memory{pool{stream_ordered{cuda_resource{}}}, tracking_options{.frames = 8}};
struct tracking_options {
    /// Number of frames of the call stack that are stored for each block; at most 32.
    unsigned frames = 0;
    /// If true, the destructor of the layer reports the live blocks to the error sink.
    bool report_leaks = true;
};

} // namespace vram
