// SPDX-License-Identifier: Apache-2.0
// refuse: (max_tries|vram::retry)
// A retry policy without a bound could ask for ever.
#include <vram/layer/retrying.hpp>
#include <vram/source/host_resource.hpp>

struct stubborn {
    bool operator()(vram::host_resource&, vram::failed_attempt const&) const { return true; }
};
vram::retrying<vram::host_resource, stubborn> memory{vram::host_resource{}, stubborn{}};
