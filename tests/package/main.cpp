// SPDX-License-Identifier: Apache-2.0
// The smallest program of a user. It is built once for each way to get at vram.
#include <vram/vram.hpp>

int main() {
    using namespace vram;
    auto        memory = host_resource{} | with::limiting(1_MiB);
    void* const p      = memory.allocate_sync(64_KiB);
    bool const  given  = p != nullptr && memory.used() == 64_KiB;
    memory.deallocate_sync(p, 64_KiB);
    return given && memory.used() == 0 ? 0 : 1;
}
