// SPDX-License-Identifier: Apache-2.0
// The kernel of the measurement of costs is that of the loader's benchmark.
#include "loader.cu"
