// SPDX-License-Identifier: Apache-2.0
// The smallest program of a user. It is built once for each way to use vram in a project.
#include <vram/base/bytes.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/source/host_resource.hpp>
#include <vram/version.hpp>

#include <string_view>

int main() {
    using namespace vram;
#ifdef EXPECTED_VERSION // of the package
    if (std::string_view{VRAM_VERSION_STRING} != EXPECTED_VERSION) { return 2; }
#endif
    auto        memory = host_resource{} | with::limiting(1_MiB);
    void* const p      = memory.allocate_sync(64_KiB);
    bool const  given  = p != nullptr && memory.used() == 64_KiB;
    memory.deallocate_sync(p, 64_KiB);
    return given && memory.used() == 0 ? 0 : 1;
}
