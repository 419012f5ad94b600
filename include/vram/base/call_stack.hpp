// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `call_stack` is a call stack of the program, as raw addresses until it is printed.

#include <vram/base/core/stack_depot.hpp> // stack_node, stack_walk

#include <cstddef>
#include <cstdint>
#include <cstdio>  // snprintf
#include <cstdlib> // free
#include <cstring> // memcpy

#if __has_include(<dlfcn.h>) && __has_include(<cxxabi.h>)
#include <cxxabi.h> // abi::__cxa_demangle
#include <dlfcn.h>  // dladdr, dladdr1
#endif

namespace vram {

/// The innermost functions that were active when the object was made. An object holds one pointer
/// to the addresses, which live until the end of the process. Equal stacks are stored once.
///
///     call_stack const here = call_stack::current(8);
///     for (std::size_t i = 0; i < here.size(); ++i) { std::puts(frame_text{here[i]}.c_str()); }
///
/// Failure   Never throws. If the stack cannot be read or stored, it is empty.
/// Threads   Any thread.
/// Cost      About 40 ns for 8 frames on x86-64 if the thread has made the same stack before; some
///           microseconds otherwise. One copy of the addresses in host memory, and 48 KiB for each
///           thread.
class call_stack {
public:
    /// The largest number of frames.
    static constexpr unsigned most = detail::stack_walk::most;

    call_stack() = default; ///< an empty call stack

    /// Returns the innermost `frames` frames of the calling thread (at most `most`). The first is
    /// in the function that calls `current`.
    [[nodiscard, gnu::always_inline]] static call_stack current(unsigned frames = 8) noexcept {
        return call_stack{detail::stack_walk::here(frames)};
    }

    /// Returns the number of frames.
    [[nodiscard]] std::size_t size() const noexcept { return node_ != nullptr ? node_->count : 0; }
    /// Returns true if there is no frame.
    [[nodiscard]] bool empty() const noexcept { return size() == 0; }
    /// Returns the return address of frame `i`, which must be less than `size()`.
    [[nodiscard]] void const* operator[](std::size_t i) const noexcept {
        return node_->frames()[i];
    }
    /// Two call stacks are equal if all their addresses are equal.
    friend bool operator==(call_stack, call_stack) noexcept = default;

private:
    explicit call_stack(detail::stack_node const* node) noexcept : node_{node} {}

    detail::stack_node const* node_ = nullptr;
};

/// The text of a frame: the function if the dynamic linker knows its name (a program is linked with
/// `-rdynamic` for that), and the file and the offset, which `addr2line -e FILE OFFSET` accepts.
///
///     train_step()+0x1f (./app+0x4a1f)
///
/// Failure   Never throws. If nothing is known, the text is the address.
/// Cost      Some microseconds, and an allocation for the name of a C++ function.
class frame_text {
public:
    /// Makes the text of the call before the return address `address`.
    explicit frame_text(void const* address) noexcept {
#if __has_include(<dlfcn.h>) && __has_include(<cxxabi.h>)
        Dl_info info{};
        // A return address is that of the instruction after the call, which may belong to the next
        // function. So the byte before the return address is looked up: it belongs to the call.
        auto const* const call  = static_cast<char const*>(address) - 1;
        std::uintptr_t    moved = 0;
        if (find(call, info, moved) && info.dli_fname != nullptr) {
            std::size_t const offset = reinterpret_cast<std::uintptr_t>(call) - moved;
            if (info.dli_sname == nullptr) {
                std::snprintf(text_, sizeof text_, "%s+0x%zx", info.dli_fname, offset);
                return;
            }
            int   status = -1;
            char* name   = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
            std::snprintf(text_, sizeof text_, "%.380s+0x%zx (%s+0x%zx)",
                          status == 0 ? name : info.dli_sname,
                          static_cast<std::size_t>(call - static_cast<char const*>(info.dli_saddr)),
                          info.dli_fname, offset);
            std::free(name);
            return;
        }
#endif
        std::snprintf(text_, sizeof text_, "%p", address);
    }

    /// Returns the text of the frame. The pointer is valid as long as this object exists.
    [[nodiscard]] char const* c_str() const noexcept { return text_; }

private:
#if __has_include(<dlfcn.h>) && __has_include(<cxxabi.h>)
    /// Returns true if the address is in a program or library, and sets `info` (see `dladdr`) and
    /// `moved`: by how much addresses in memory exceed those in the file, 0 for a program that is
    /// not position-independent. Without glibc, `moved` is the load address instead.
    [[nodiscard]] static bool find(void const* at, Dl_info& info, std::uintptr_t& moved) noexcept {
#ifdef __GLIBC__
        void* object = nullptr;
        if (::dladdr1(at, &info, &object, RTLD_DL_LINKMAP) == 0 || object == nullptr) {
            return false;
        }
        // `l_addr`, the first member of `link_map`. <link.h> would define hundreds of macros.
        std::memcpy(&moved, object, sizeof moved);
        return true;
#else
        if (::dladdr(at, &info) == 0) { return false; }
        moved = reinterpret_cast<std::uintptr_t>(info.dli_fbase);
        return true;
#endif
    }
#endif

    char text_[512] = "";
};

} // namespace vram
