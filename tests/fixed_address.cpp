// SPDX-License-Identifier: Apache-2.0
// A program that is linked with -no-pie. It ends with 0 if the offset in the text of a frame is the
// address in the file of the program, which `addr2line -e FILE OFFSET` accepts; with 77 if the
// program is position-independent or the C library is another one than glibc.

#include <vram/base/call_stack.hpp>

#include <cstdint>
#include <cstdio>
#include <string>

#ifdef __GLIBC__
#include <link.h>

namespace {

[[gnu::noinline]] int frame() {
    static int volatile calls = 0;
    calls                     = calls + 1;
    return calls;
}

/// Stores the address at which the program is loaded, and ends the iteration: the program is first.
int load_address(dl_phdr_info* program, std::size_t, void* to) {
    *static_cast<std::uintptr_t*>(to) = program->dlpi_addr;
    return 1;
}

} // namespace

int main() {
    std::uintptr_t moved = 1;
    ::dl_iterate_phdr(load_address, &moved);
    if (frame() != 1 || moved != 0) { return 77; }
    auto const        at = reinterpret_cast<std::uintptr_t>(&frame);
    std::string const text =
        vram::frame_text{reinterpret_cast<void const*>(at + 1)}.c_str(); // a return address
    char wanted[32] = "";
    std::snprintf(wanted, sizeof wanted, "+0x%zx", static_cast<std::size_t>(at));
    bool const found = text.find(wanted) != std::string::npos;
    std::printf("%s: %s, wanted %s\n", found ? "right" : "wrong", text.c_str(), wanted);
    return found ? 0 : 1;
}
#else
int main() { return 77; }
#endif
