// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A tool of NVTX that is linked with the program, instead of one that the environment names. It
/// stores the samples of counters in memory of the calling thread, and does nothing else.

namespace bench {

/// Makes the tool take the counters that are registered from now on, or refuse them, which has the
/// effect that there is no tool.
void attach_nvtx_tool(bool attached);

} // namespace bench
