// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/core/nvtx_domain.hpp> // first: the header stands alone

#include "../../doubles/nvtx/tool.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

TEST_CASE("nvtx_domain: the tool gets one domain, \"vram\"") {
    auto& tool = doubles::nvtx_tool::get();
    tool.clear();
    nvtxDomainHandle_t const domain = vram::detail::nvtx_domain();
    CHECK(domain != nullptr);
    CHECK(vram::detail::nvtx_domain() == domain);
    CHECK(tool.calls <= 1);
    CHECK(tool.wrong == std::vector<std::string>{});
}
