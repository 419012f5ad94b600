// SPDX-License-Identifier: Apache-2.0
#include <library.hpp>

#include <vram/source/host_resource.hpp>

int main() {
    vram::host_resource memory;
    return allocates(memory) ? 0 : 1;
}
